// Version 17: how a run ended is kept behind its last call. Older runs get that on opening.
