// Delete answers about runs that are gone.
// Params:  $space string
// Index:   answer_step, trajectory_uid
MATCH (a:Answer) WHERE a.space = $space AND a.step IS NOT NULL AND a.run_uid IS NOT NULL
  AND NOT EXISTS { MATCH (:Trajectory {uid: a.run_uid}) }
DETACH DELETE a
