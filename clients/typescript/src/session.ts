import type { PromptParts, Recorded, RunSoFar } from "./api.js";
import type { CallOptions, Gives, Hepm, Outcome } from "./client.js";

/** A message as OpenAI's chat API writes it. */
export interface Message {
  role: string;
  content?: unknown;
  tool_calls?: Record<string, unknown>[];
  tool_call_id?: string;
  /** Whether the call failed whose result this is. */
  is_error?: boolean;
  [other: string]: unknown;
}

/** What is known of a run when it begins. */
export interface About {
  /** The agent's tools, as OpenAI's chat API writes them. */
  tools?: NonNullable<RunSoFar["tools"]>;
  user?: string;
  /** What is asked for, the same for runs that can be compared. */
  task?: string;
  environment?: string;
  model?: string;
  /** Milliseconds that a hint may take, 1,000 by default: then the agent goes on without one. */
  hintMs?: number;
  /** Called with what went wrong at a hint or a record: neither throws. By default a warning on the console. */
  onError?: (error: unknown) => void;
}

/**
 * A run of an agent with memory. Ask for a `hint` before each call of the model, and `finish` with the outcome.
 *
 * Give the conversation as messages to `hint` and `record`, or add to it with `say` and `call`. A session throws
 * nothing before its end: without memory there is no hint.
 */
export class Session {
  /** The conversation so far, as OpenAI chat messages. */
  messages: Message[] = [];
  readonly #about: Omit<RunSoFar, "session" | "messages">;
  readonly #hintMs: number;
  readonly #onError: (error: unknown) => void;
  #calls = 0;
  /** How many messages the server has. */
  #kept = 0;

  constructor(
    readonly hepm: Hepm,
    readonly name: string,
    about: About = {},
  ) {
    const { hintMs = 1_000, onError = (error) => console.warn(String(error)), ...rest } = about;
    this.#about = rest;
    this.#hintMs = hintMs;
    this.#onError = onError;
  }

  /** What memory says before the next call of the model: texts for the prompt, empty if nothing. */
  async hint(messages: Message[] = this.messages, options: CallOptions = {}): Promise<PromptParts> {
    this.messages = messages;
    const within = { timeoutMs: this.#hintMs, retries: 0, ...options };
    const nothing: PromptParts = { run: "", stable: "", present: "", tools: [] };
    return (await this.#try(() => this.#send("POST /api/hint", within), options)) ?? nothing;
  }

  /** Keep the conversation, with the model's last reply; undefined if it could not be kept, and `finish` tries again. */
  async record(messages: Message[] = this.messages, options: CallOptions = {}): Promise<Recorded | undefined> {
    this.messages = messages;
    return this.#try(() => this.#send("POST /api/record", options), options);
  }

  /** Add a message to the conversation. */
  say(role: "system" | "user" | "assistant", content: string): void {
    this.messages.push({ role, content });
  }

  /** Add a call of a tool, with its result, to the conversation. */
  call(tool: string, args: object = {}, result: unknown = "", { error = false }: { error?: boolean } = {}): void {
    const id = `call-${++this.#calls}`;
    const made = { id, type: "function", function: { name: tool, arguments: textOf(args) } };
    this.messages.push({ role: "assistant", content: "", tool_calls: [made] });
    this.messages.push({ role: "tool", tool_call_id: id, content: textOf(result), is_error: error });
  }

  /** Store the run with its outcome. This throws, and may be called again. */
  async finish(outcome: Outcome, options: CallOptions = {}): Promise<Gives<"POST /outcome">> {
    if (this.messages.length > this.#kept) await this.#send("POST /api/record", options);
    return this.hepm.outcome(this.name, outcome, options);
  }

  async #send<O extends "POST /api/hint" | "POST /api/record">(operation: O, options: CallOptions): Promise<Gives<O>> {
    const { length } = this.messages;
    const answer = await this.hepm.request(operation, { session: this.name, messages: this.messages, ...this.#about }, options);
    this.#kept = length;
    return answer;
  }

  async #try<T>(request: () => Promise<T>, { signal }: CallOptions): Promise<T | undefined> {
    try {
      return await request();
    } catch (error) {
      if (signal?.aborted) throw error;
      this.#onError(error);
      return undefined;
    }
  }
}

/** A value as text: JSON, unless it is text or JSON cannot hold it. */
export function textOf(value: unknown): string {
  if (typeof value === "string") return value;
  try {
    return JSON.stringify(value) ?? "";
  } catch {
    return String(value);
  }
}
