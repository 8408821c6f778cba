// Add to the counts of tools; of two descriptions the longer stays. The start gets a label for Browser's styles.
// Params:  $namespace string, $space string, $start string, $rows list of maps {uid, name, calls, errors, description, parameters}
// Index:   tool_uid
UNWIND $rows AS row
MERGE (t:Tool {uid: row.uid})
ON CREATE SET t.namespace = $namespace, t.space = $space, t.name = row.name, t.calls = 0, t.errors = 0,
              t.description = '', t.parameters = '{}'
SET t.calls = t.calls + row.calls,
    t.errors = t.errors + row.errors,
    t.description = CASE WHEN size(row.description) > size(t.description)
                           OR (size(row.description) = size(t.description) AND row.description > t.description)
                         THEN row.description ELSE t.description END,
    t.parameters = CASE WHEN size(row.parameters) > size(t.parameters)
                          OR (size(row.parameters) = size(t.parameters) AND row.parameters > t.parameters)
                        THEN row.parameters ELSE t.parameters END
FOREACH (_ IN CASE WHEN row.name = $start THEN [1] ELSE [] END | SET t:Start)
