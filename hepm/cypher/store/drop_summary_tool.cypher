// Delete the node of the agent's own summary tool: no edge and no run leads to it.
// Params:  $tool_uid string
// Index:   tool_uid
MATCH (t:Tool {uid: $tool_uid})
DETACH DELETE t
