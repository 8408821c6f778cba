// Version 11: the hash of its task is on every run that has one, not only on successful ones, so that the runs of a task
// are found by the index. Nothing is indexed anew; older runs get it on opening.
