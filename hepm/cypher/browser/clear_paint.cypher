// Remove what was painted of a namespace.
// Params:  $namespace string
// Returns: cleared int
MATCH (:Tool {namespace: $namespace})-[p:MOSTLY_WELL|MOSTLY_MIXED|MOSTLY_BADLY|OFTEN_WELL|OFTEN_MIXED|OFTEN_BADLY|
                                         RARELY_WELL|RARELY_MIXED|RARELY_BADLY]->()
DELETE p
RETURN count(*) AS cleared
