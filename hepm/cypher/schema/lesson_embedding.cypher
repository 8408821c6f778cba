// The vector index over lessons; made when the embedder, and so the dimensions, are known.
// Params:  $options map {indexConfig}
CREATE VECTOR INDEX lesson_embedding IF NOT EXISTS FOR (l:Lesson) ON (l.embedding) OPTIONS $options
