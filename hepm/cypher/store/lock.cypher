// Take the write lock of the memory. Writers of all processes queue here, so that they never wait for each other
// elsewhere, and revisions come in the order of commits.
// Params:  none
// Index:   memory_key
MATCH (m:Memory {key: 'memory'}) SET m.writing = true
