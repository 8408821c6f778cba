// Name the embedder.
// Params:  $embedder string, $dimensions int
// Index:   memory_key
MATCH (m:Memory {key: 'memory'}) SET m.embedder = $embedder, m.dimensions = $dimensions
