/**
 * Memory for the AI SDK (package `ai`, 5 to 7) as middleware of a language model:
 *
 *     const model = wrapLanguageModel({ model: openai("gpt-5"), middleware: remember(hepm, { session: "ticket-7" }) });
 */
import type { PromptParts } from "./api.js";
import type { Hepm } from "./client.js";
import { HepmError } from "./errors.js";
import { Session, textOf, type About, type Message } from "./session.js";

export interface RememberOptions extends Omit<About, "tools" | "model"> {
  /** Your own id of the run. A model that serves several runs gets it by call: `providerOptions: { hepm: { session } }`. */
  session?: string;
}

// What is read of the SDK's types. They differ from version to version, and none is needed here at run time.
interface Part {
  type: string;
  text?: string;
  toolCallId?: string;
  toolName?: string;
  input?: unknown;
  output?: unknown;
}
interface PromptMessage {
  role: string;
  content: string | Part[];
}
interface Params {
  prompt: unknown[];
  tools?: unknown[];
  providerOptions?: Record<string, Record<string, unknown> | undefined>;
  abortSignal?: AbortSignal;
}

/** Middleware that adds to each request what memory says, and records the run. End the run with `hepm.outcome`. */
export function remember(hepm: Hepm, options: RememberOptions = {}) {
  const { session: named, ...about } = options;
  // By the request as the model gets it: its run, with the conversation as the agent knows it, without hints.
  const underWay = new WeakMap<object, Session>();

  async function transformParams<P extends Params>({ params, model }: { params: P; model?: unknown }): Promise<P> {
    const name = params.providerOptions?.["hepm"]?.["session"] ?? named;
    if (typeof name !== "string" || !name) {
      throw new HepmError('hepm knows no session of this call: give remember() a session, or the call providerOptions: { hepm: { session: "…" } }');
    }
    const known: About = { ...about, tools: toolsOf(params.tools), model: (model as { modelId?: string } | undefined)?.modelId ?? "" };
    const session = new Session(hepm, name, known);
    const prompt = params.prompt as PromptMessage[];
    const hint = await session.hint(messagesOf(prompt), { signal: params.abortSignal });
    const changed = { ...params, prompt: withHint(prompt, hint) };
    underWay.set(changed, session);
    return changed;
  }

  async function replied(params: Params, content: Part[]): Promise<void> {
    const session = underWay.get(params);
    const message = replyOf(content);
    if (session && message) await session.record([...session.messages, message], { signal: params.abortSignal });
  }

  return {
    specificationVersion: "v3" as const,
    transformParams,

    async wrapGenerate<R>({ doGenerate, params }: { doGenerate: () => PromiseLike<R>; params: Params }): Promise<R> {
      const result = await doGenerate();
      await replied(params, (result as { content?: Part[] }).content ?? []);
      return result;
    },

    async wrapStream<R>({ doStream, params }: { doStream: () => PromiseLike<R>; params: Params }): Promise<R> {
      const result = (await doStream()) as R & { stream: ReadableStream<Part & { delta?: string }> };
      const content: Part[] = [];
      const copied = new TransformStream<Part & { delta?: string }, Part>({
        transform(part, controller) {
          if (part.type === "text-delta") content.push({ type: "text", text: part.delta ?? "" });
          else if (part.type === "tool-call") content.push(part);
          controller.enqueue(part);
        },
        // Before the end, so that what follows the stream finds the reply recorded.
        flush: () => replied(params, content),
      });
      return { ...result, stream: result.stream.pipeThrough(copied) };
    },
  };
}

function toolsOf(tools: unknown[] = []): NonNullable<About["tools"]> {
  const known = tools as { type: string; name?: string; description?: string; inputSchema?: unknown }[];
  return known
    .filter(({ name }) => name)
    .map(({ name, description, inputSchema }) => ({ type: "function", function: { name, description, parameters: inputSchema } }));
}

/** The conversation as OpenAI chat messages. */
function messagesOf(prompt: PromptMessage[]): Message[] {
  return prompt.flatMap(({ role, content }): Message[] => {
    if (typeof content === "string") return [{ role, content }];
    const results = content.filter((part) => part.type === "tool-result").map(resultOf);
    if (role === "tool") return results;
    if (role !== "assistant") return [{ role, content: textIn(content) }];
    // Results of tools that the provider runs stand in the model's own message.
    const said = replyOf(content);
    return said ? [said, ...results] : results;
  });
}

/** What a model said as a chat message; undefined if that is nothing. */
function replyOf(content: Part[]): Message | undefined {
  const calls = content
    .filter((part) => part.type === "tool-call")
    .map((part) => ({ id: part.toolCallId, type: "function", function: { name: part.toolName, arguments: textOf(part.input ?? {}) } }));
  const text = textIn(content);
  if (!calls.length && !text) return undefined;
  return { role: "assistant", content: text, ...(calls.length ? { tool_calls: calls } : {}) };
}

function resultOf({ toolCallId = "", output }: Part): Message {
  const { type, value, reason } = (output ?? {}) as { type?: string; value?: unknown; reason?: string };
  const result = { role: "tool", tool_call_id: toolCallId };
  if (type === "execution-denied") return { ...result, content: reason ?? "denied", refused: true };
  const content = type === "content" ? textIn(value as Part[]) : textOf(value ?? "");
  return { ...result, content, is_error: type?.startsWith("error-") ?? false };
}

function textIn(content: Part[]): string {
  return content
    .filter((part) => part.type === "text")
    .map((part) => part.text)
    .join("");
}

/** A copy of a prompt with what memory says: the first part with the system message, the other at the end. */
function withHint(prompt: PromptMessage[], { stable, present }: PromptParts): PromptMessage[] {
  const changed = [...prompt];
  const first = changed.findIndex(({ role }) => role === "system");
  if (stable && first >= 0) changed[first] = added(changed[first], stable);
  else if (stable) changed.unshift({ role: "system", content: stable });
  if (!present) return changed;
  const last = changed.length - 1;
  if (changed[last]?.role === "user") changed[last] = added(changed[last], present);
  else changed.push({ role: "user", content: [{ type: "text", text: present }] });
  return changed;
}

function added(message: PromptMessage | undefined, text: string): PromptMessage {
  const { role = "user", content = [] } = message ?? {};
  return { ...message, role, content: typeof content === "string" ? `${content}\n\n${text}` : [...content, { type: "text", text }] };
}
