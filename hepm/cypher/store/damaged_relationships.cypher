// Relationships between nodes of hepm, with properties that their type has otherwise (see damaged_nodes).
// Params:  $model map of maps of maps {types, least}, $most int
// Returns: type string, names list of strings, held list of strings, owner string, namespace string
MATCH (a)-[r]->(b)
WHERE $model[type(r)] IS NOT NULL AND a.space IS NOT NULL AND (b.space IS NOT NULL OR b.uid IS NOT NULL)
WITH a, r, b, $model[type(r)] AS properties
WITH a, r, b, [name IN keys(properties) WHERE
    NOT valueType(r[name]) IN properties[name].types
    OR coalesce(r[name] < properties[name].least, false)
    OR coalesce(properties[name].least IS NOT NULL AND r[name] <> r[name], false)] AS names
WHERE size(names) > 0
RETURN type(r) AS type, names,
       [name IN names | CASE WHEN r[name] IS NULL THEN null WHEN r[name] IS :: LIST<ANY> THEN 'a list'
                        ELSE left(toStringOrNull(r[name]), 60) END] AS held,
       coalesce(toStringOrNull(coalesce(a.name, a.id, a.run)), '?') + ' -> ' +
         coalesce(toStringOrNull(coalesce(b.name, b.id)), '?') AS owner,
       toStringOrNull(a.namespace) AS namespace
LIMIT $most
