// Version 18: whole numbers of five digits and more are read from texts. Older runs get them on opening.
