// Version 15: times, the time that a system prompt states, and sums of money are facts of a run, too. Older runs get them on opening.
