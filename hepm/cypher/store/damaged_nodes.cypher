// Nodes of hepm with properties that their label has otherwise: of another type, missing, below their least value, or
// vectors of another size. A node is hepm's if it has two of the properties that all of its label have.
// Params:  $model map of maps of maps {types, least, size}, $own map of lists of strings, $most int
// Returns: label string, names list of strings, held list of strings, owner string, namespace string
MATCH (n)
UNWIND [label IN labels(n) WHERE $model[label] IS NOT NULL] AS label
WITH n, label, $model[label] AS properties
WHERE size([name IN $own[label] WHERE n[name] IS NOT NULL]) >= 2
WITH n, label, [name IN keys(properties) WHERE
    CASE
      WHEN properties[name].size IS NOT NULL THEN
        CASE WHEN n[name] IS NULL THEN false
             WHEN NOT n[name] IS :: LIST<ANY> THEN true
             ELSE size(n[name]) <> properties[name].size END
      ELSE NOT valueType(n[name]) IN properties[name].types
           OR coalesce(n[name] < properties[name].least, false)
           OR coalesce(properties[name].least IS NOT NULL AND n[name] <> n[name], false)
    END] AS names
WHERE size(names) > 0
RETURN label, names,
       [name IN names | CASE WHEN n[name] IS NULL THEN null WHEN n[name] IS :: LIST<ANY> THEN 'a list'
                        ELSE left(toStringOrNull(n[name]), 60) END] AS held,
       toStringOrNull(coalesce(n.id, n.name, n.run, n.key, n.revision)) AS owner,
       toStringOrNull(n.namespace) AS namespace
LIMIT $most
