// How many experiences are there of each zone and stage, environment by environment?
// Params:  $namespace string
// Returns: environment string, zone string, stage string, experiences int, shown int, uses int, successes int
// Note:    An experience of several environments counts in each; one without environments applies everywhere, and is shown as "".
MATCH (e:Experience {namespace: $namespace})
WHERE e.live
UNWIND CASE WHEN size(e.environments) > 0 THEN e.environments ELSE [''] END AS environment
RETURN environment, e.zone AS zone, e.stage AS stage, count(*) AS experiences, sum(e.shown) AS shown,
       sum(e.uses) AS uses, sum(e.successes) AS successes
ORDER BY environment, zone, stage
