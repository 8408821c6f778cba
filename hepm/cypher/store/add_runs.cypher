// Store runs.
// Params:  $space string, $namespace string, $rows list of maps, each with the columns of a run
// Index:   trajectory_uid
UNWIND $rows AS row
CREATE (t:Trajectory)
SET t = row {.id, .digest, .environment, .task, .task_uid, .model, .user, .reward, .success, .steps, .ended_at, .source, .day,
             .sequence, .said, .seq, .counted, .record, .said_vector,
             uid: row.run_uid, namespace: $namespace, space: $space, tools: row.called,
             token: CASE WHEN row.token <> '' THEN row.token END, level: CASE WHEN row.level <> '' THEN row.level END,
             arm: CASE WHEN row.arm <> '' THEN row.arm END, trial: CASE WHEN row.trial <> '' THEN row.trial END,
             refused: CASE WHEN row.refused <> '' THEN row.refused END, refusals: CASE WHEN row.refused <> '' THEN 1 END}
