// All tools but the node before the first call.
// Params:  $space string, $start string
// Returns: name string, description string, parameters string, calls int, errors int, described_at float, changed_at float, former_description string, former_parameters string, retired boolean, aliases list
// Index:   tool_space
MATCH (t:Tool {space: $space}) WHERE t.name <> $start
RETURN t.name AS name, t.description AS description, t.parameters AS parameters, t.calls AS calls, t.errors AS errors,
       coalesce(t.described_at, 0.0) AS described_at, coalesce(t.changed_at, 0.0) AS changed_at,
       coalesce(t.former_description, '') AS former_description,
       coalesce(t.former_parameters, '{}') AS former_parameters,
       t.retired IS NOT NULL AS retired, coalesce(t.aliases, []) AS aliases
