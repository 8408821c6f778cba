// Version 19: codes of failures and comma-separated tables are read from texts. Older runs get them on opening.
