// Properties of nodes that hold JSON, but for the usual ones without content.
// Params:  $model map of lists of strings
// Returns: label string, name string, text string, owner string, namespace string
MATCH (n)
UNWIND [label IN labels(n) WHERE $model[label] IS NOT NULL] AS label
UNWIND $model[label] AS name
WITH n, label, name
WHERE valueType(n[name]) = 'STRING NOT NULL' AND NOT n[name] IN ['{}', '[]', 'null']
RETURN label, name, n[name] AS text,
       toStringOrNull(coalesce(n.id, n.name, n.key, n.revision)) AS owner, toStringOrNull(n.namespace) AS namespace
