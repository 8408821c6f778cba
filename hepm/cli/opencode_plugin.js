// Written by hepm init. It tells hepm what this agent does, and the agent what hepm knows.
const server = SERVER
const token = process.env[TOKEN]

export const Hepm = async ({ client, directory }) => {
  const early = new Map() // what hepm said before a call, by its id: the result is the next that the agent reads

  const tell = async (session_id, hook_event_name, more) => {
    const headers = { "content-type": "application/json" }
    if (token) headers["x-hepm-token"] = token
    const body = JSON.stringify({ session_id, hook_event_name, cwd: directory, ...more })
    try {
      const answer = await fetch(server, { method: "POST", headers, body, signal: AbortSignal.timeout(5000) })
      return (answer.ok && (await answer.json()).hookSpecificOutput) || {}
    } catch {
      return {} // the agent goes on without memory
    }
  }

  return {
    "chat.message": async ({ sessionID }, { message, parts }) => {
      const texts = parts.filter((part) => part.type === "text" && !part.synthetic)
      const prompt = texts.map((part) => part.text).join("\n")
      const { additionalContext: text } = await tell(sessionID, "UserPromptSubmit", { prompt })
      const last = parts.at(-1)
      if (text && last) parts.push({ id: `${last.id}h`, type: "text", text, synthetic: true, sessionID, messageID: message.id })
    },
    "tool.execute.before": async ({ tool, sessionID, callID }, { args }) => {
      const call = { tool_name: tool, tool_input: args, tool_use_id: callID }
      const said = await tell(sessionID, "PreToolUse", call)
      if (said.permissionDecision === "deny") throw new Error(said.permissionDecisionReason)
      if (said.additionalContext) early.set(callID, said.additionalContext)
    },
    "tool.execute.after": async ({ tool, sessionID, callID, args }, result) => {
      const call = { tool_name: tool, tool_input: args, tool_use_id: callID, tool_response: result.output }
      if (result.metadata?.exit) call.error = result.output || `exit code ${result.metadata.exit}`
      const said = await tell(sessionID, "PostToolUse", call)
      const texts = [early.get(callID), said.additionalContext].filter(Boolean)
      early.delete(callID)
      if (texts.length) result.output = [result.output, ...texts].join("\n")
    },
    event: async ({ event }) => {
      const { part, sessionID, info } = event.properties
      if (event.type === "message.part.updated" && part.type === "tool" && part.state.status === "error") {
        const call = { tool_name: part.tool, tool_input: part.state.input, tool_use_id: part.callID, error: part.state.error }
        await tell(part.sessionID, "PostToolUseFailure", call)
      } else if (event.type === "session.idle") {
        const { data } = await client.session.messages({ path: { id: sessionID } })
        const texts = (data?.at(-1)?.parts ?? []).filter((one) => one.type === "text")
        await tell(sessionID, "Stop", { last_assistant_message: texts.map((one) => one.text).join("\n") })
      } else if (event.type === "session.deleted") {
        await tell(info.id, "SessionEnd", {})
      }
    },
  }
}
