// Wait until new indexes have read what is there.
// Params:  $seconds int
CALL db.awaitIndexes($seconds)
