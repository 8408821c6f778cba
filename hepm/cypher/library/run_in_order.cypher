// Which tools did one run call, in order, and how did it end?
// Params:  $namespace string, $trajectory string
// Returns: tools list of strings, success boolean, reward float, steps int, environment string, task string, model string, said string
MATCH (t:Trajectory {namespace: $namespace, id: $trajectory})
RETURN t.tools AS tools, t.success AS success, t.reward AS reward, t.steps AS steps, t.environment AS environment,
       t.task AS task, t.model AS model, t.said AS said
