// Runs with an outcome and those of their tasks: of each task and outcome the ones stored last. A run without a task stands alone.
// Params:  $uids list of strings, $latest int
// Returns: environment string, task string, id string
// Index:   trajectory_uid, trajectory_task
CALL {
  UNWIND $uids AS uid
  MATCH (r:Trajectory {uid: uid}) WHERE r.task = '' AND (r.success IS NOT NULL OR r.reward IS NOT NULL)
  RETURN DISTINCT r.environment AS environment, r.task AS task, r.id AS id
  UNION ALL
  UNWIND $uids AS uid
  MATCH (r:Trajectory {uid: uid}) WHERE r.task_uid IS NOT NULL
  WITH DISTINCT r.task_uid AS key
  MATCH (t:Trajectory {task_uid: key}) WHERE t.success IS NOT NULL OR t.reward IS NOT NULL
  WITH t ORDER BY t.seq DESC
  WITH t.environment AS environment, t.task AS task, t.success AS success, collect(t.id)[..$latest] AS ids
  UNWIND ids AS id
  RETURN environment, task, id
}
RETURN environment, task, id
