// Add to the counts of tools; of two descriptions the newer stays, ties by length and text, and the former one is kept.
// Each row sees what the rows before it did.
// Params:  $namespace string, $space string, $rows list of maps {tool, tool_uid, calls, errors, description, parameters, described_at}
// Index:   tool_uid
UNWIND $rows AS row
CALL (row) {
    MERGE (t:Tool {uid: row.tool_uid})
    ON CREATE SET t.namespace = $namespace, t.space = $space, t.name = row.tool, t.calls = 0, t.errors = 0,
                  t.description = '', t.parameters = '{}'
    SET t.calls = t.calls + row.calls, t.errors = t.errors + row.errors
    WITH t, coalesce(t.described_at, 0.0) AS at, t.description AS text, t.parameters AS schema
    WHERE row.description <> '' OR row.parameters <> '{}'
    WITH t, at, text, schema,
         row.description <> '' AND (text = '' OR row.described_at > at OR row.described_at = at
           AND (size(row.description) > size(text) OR size(row.description) = size(text) AND row.description > text)) AS worded,
         row.parameters <> '{}' AND (schema = '{}' OR row.described_at > at OR row.described_at = at
           AND (size(row.parameters) > size(schema) OR size(row.parameters) = size(schema) AND row.parameters > schema)) AS shaped
    FOREACH (_ IN CASE WHEN row.described_at > at AND (worded AND text <> '' AND row.description <> text
                                                       OR shaped AND schema <> '{}' AND row.parameters <> schema)
                  THEN [1] ELSE [] END |
        SET t.changed_at = row.described_at, t.former_description = text, t.former_parameters = schema)
    SET t.description = CASE WHEN worded THEN row.description ELSE text END,
        t.parameters = CASE WHEN shaped THEN row.parameters ELSE schema END,
        t.described_at = CASE WHEN row.described_at > at THEN row.described_at ELSE at END
}
