// Nodes whose space is not that of the namespace they name; `known` if there is a namespace of that name.
// Params:  $labels list of strings, $most int
// Returns: label string, known boolean, owner string, namespace string, space string
// Index:   namespace_space
MATCH (n)
UNWIND [label IN labels(n) WHERE label IN $labels] AS label
WITH n, label
WHERE n.uid IS NOT NULL AND n.space IS :: STRING NOT NULL AND n.namespace IS :: STRING NOT NULL
  AND NOT EXISTS { MATCH (s:Namespace {space: n.space}) WHERE s.name = n.namespace OR NOT s.name IS :: STRING NOT NULL }
RETURN label, EXISTS { MATCH (s:Namespace) WHERE s.name = n.namespace } AS known,
       toStringOrNull(coalesce(n.id, n.name)) AS owner, n.namespace AS namespace, n.space AS space
LIMIT $most
