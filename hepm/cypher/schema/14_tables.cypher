// Version 14: rows of tables, last items, ages and deeper keys are facts of a run, too. Older runs get them on opening.
