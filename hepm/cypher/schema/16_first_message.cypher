// Version 16: numbers behind their names, written dates and when an email was sent are facts of a run, too, and the first request is a whole message. Older runs get them on opening.
