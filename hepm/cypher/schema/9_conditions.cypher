// Version 9: experiences and principles say when they hold, and how many runs did what they are about. Those of before say
// nothing of it.
MATCH (l:Experience|Principle) WHERE l.condition IS NULL
SET l.preconditions = coalesce(l.preconditions, []), l.first_turn = coalesce(l.first_turn, 0),
    l.last_turn = coalesce(l.last_turn, 0), l.after = [], l.says = [], l.facts = [], l.only_user = '', l.condition = '',
    l.tried = 0, l.worked = 0;
