-- Version 3: what came since a row is read in the order of arrival, not by a look at all that a namespace holds.
CREATE INDEX trajectory_arrival ON trajectory (namespace);
CREATE INDEX state_arrival ON state (namespace);
