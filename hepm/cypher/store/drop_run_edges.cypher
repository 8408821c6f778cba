// Forget which edges some runs took.
// Params:  $uids list of strings
// Index:   trajectory_uid
UNWIND $uids AS uid
MATCH (:Trajectory {uid: uid})-[p:TOOK]->()
DELETE p
