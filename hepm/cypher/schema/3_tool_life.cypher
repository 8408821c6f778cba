// Version 3: whether the calls of runs to a tool failed, in the order in which the runs ended.
CREATE INDEX took_outcome IF NOT EXISTS FOR ()-[p:TOOK]-() ON (p.called, p.ended, p.seq);
