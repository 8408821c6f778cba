// Version 13: words of short texts are facts of a run, too. Nothing is indexed anew; older runs get them on opening.
