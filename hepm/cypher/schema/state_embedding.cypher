// The vector index over what agents knew; made when the embedder, and so the dimensions, are known.
// Params:  $options map {indexConfig}
CREATE VECTOR INDEX state_embedding IF NOT EXISTS FOR (s:State) ON (s.embedding) OPTIONS $options
