// The live lessons most similar to a vector, over all namespaces: the index knows none. Scores are (1 + cosine) / 2.
// Params:  $vector list of floats, $candidates int, $space string
// Returns: id string, seq int, vector bytes
// Index:   lesson_embedding
CALL db.index.vector.queryNodes('lesson_embedding', $candidates, $vector) YIELD node AS l, score
WITH l, score WHERE l.space = $space AND l.live
RETURN l.id AS id, l.seq AS seq, l.vector AS vector ORDER BY score DESC, seq
