import type { Operations, Tools } from "./api.js";
import { HepmError, RefusedError, TimedOutError, UnreachableError } from "./errors.js";
import { Session, type About, type Message } from "./session.js";

export type Operation = keyof Operations;
export type Takes<O extends Operation> = Operations[O]["takes"];
export type Gives<O extends Operation> = Operations[O]["gives"];

export interface HepmOptions {
  /** Where `hepm serve` listens: `HEPM_URL`, else http://127.0.0.1:8765. */
  url?: string;
  /** A token of the server: `HEPM_TOKEN`, else none. */
  token?: string;
  /** Which memory of the server; its default if none is given. */
  namespace?: string;
  /** Milliseconds for a request with all its tries, 10,000 by default. */
  timeoutMs?: number;
  /** How often a request is sent again that may pass later (429, 503, no connection), 2 by default. */
  retries?: number;
  /** Another `fetch`, such as one with a proxy. */
  fetch?: typeof fetch;
}

export interface CallOptions {
  /** Ends the request; its reason is thrown. */
  signal?: AbortSignal | undefined;
  timeoutMs?: number | undefined;
  retries?: number | undefined;
}

/** How a run ended: either whether its task is solved, or a reward from 0 to 1. */
export type Outcome = { success: boolean | null } | { reward: number };

const FIRST_PAUSE_MS = 200;

/** A memory behind `hepm serve`. All methods throw a `HepmError`, or the reason of the signal that ended them. */
export class Hepm {
  readonly url: string;
  readonly #headers: Record<string, string>;
  readonly #timeoutMs: number;
  readonly #retries: number;
  readonly #fetch: typeof fetch;

  constructor(options: HepmOptions = {}) {
    const { url = variable("HEPM_URL") ?? "http://127.0.0.1:8765", token = variable("HEPM_TOKEN"), namespace } = options;
    if (!/^https?:\/\/[^/]/.test(url)) throw new HepmError(`${JSON.stringify(url)} is no address of hepm serve: write it as http://host:port`);
    this.url = url.replace(/\/+$/, "");
    this.#headers = {};
    if (token) this.#headers["x-hepm-token"] = token;
    if (namespace) this.#headers["x-hepm-namespace"] = namespace;
    this.#timeoutMs = options.timeoutMs ?? 10_000;
    this.#retries = options.retries ?? 2;
    this.#fetch = options.fetch ?? ((...request) => fetch(...request));
  }

  /** A run of an agent: ask it for hints, and end it with its outcome. Use one name for one run. */
  session(name: string, about: About = {}): Session {
    return new Session(this, name, about);
  }

  /** Store a run with its outcome. The same outcome may be reported again. */
  outcome(session: string, outcome: Outcome, options?: CallOptions): Promise<Gives<"POST /outcome">> {
    return this.request("POST /outcome", { session, ...outcome }, options);
  }

  /** The tools that worked next in earlier runs, best first. */
  suggest(asked: Tools["suggest_next_tools"]["takes"], options?: CallOptions): Promise<Tools["suggest_next_tools"]["gives"]> {
    return this.tool("suggest_next_tools", asked, options);
  }

  /** The situations of earlier runs most like one in words, what was called there, and lessons. */
  search(query: string, asked: Omit<Tools["search_experience"]["takes"], "query"> = {}, options?: CallOptions): Promise<Tools["search_experience"]["gives"]> {
    return this.tool("search_experience", { query, ...asked }, options);
  }

  /** The tools to send of the many that an agent has: these very objects, the same ones in every run of a namespace. */
  async shortlist<T>(
    messages: string | Message[],
    tools: T[],
    asked: Omit<Takes<"POST /shortlist">, "messages" | "tools"> = {},
    options?: CallOptions,
  ): Promise<Omit<Gives<"POST /shortlist">, "tools"> & { tools: T[] }> {
    const chosen = await this.request("POST /shortlist", { messages, tools: tools as Takes<"POST /shortlist">["tools"], ...asked }, options);
    return { ...chosen, tools: chosen.tools as T[] };
  }

  /** Where agents go wrong, and what worked instead. */
  report(options?: CallOptions): Promise<Gives<"GET /api/report">> {
    return this.request("GET /api/report", undefined, options);
  }

  /** Whether the server is well; it needs no token. */
  health(options?: CallOptions): Promise<Gives<"GET /health">> {
    return this.request("GET /health", undefined, options);
  }

  /** Call a tool of the server's MCP. */
  async tool<N extends keyof Tools>(name: N, given: Tools[N]["takes"], options?: CallOptions): Promise<Tools[N]["gives"]> {
    const call = { jsonrpc: "2.0", id: 1, method: "tools/call", params: { name, arguments: given } };
    const answer = (await this.#sent("POST /mcp", call, options)) as {
      error?: { message: string };
      result?: { isError?: boolean; content?: { text?: string }[]; structuredContent?: unknown };
    };
    const { error, result } = answer;
    if (error || !result || result.isError) throw new RefusedError(`hepm refused ${name}: ${error?.message ?? result?.content?.[0]?.text}`, 400);
    return result.structuredContent as Tools[N]["gives"];
  }

  /** Any operation of the server's OpenAPI document: `request("GET /api/runs", { outcome: "failed" })`. */
  async request<O extends Operation>(operation: O, given: Takes<O>, options?: CallOptions): Promise<Gives<O>> {
    return (await this.#sent(operation, given, options)) as Gives<O>;
  }

  async #sent(operation: string, given: object | undefined, options: CallOptions = {}): Promise<unknown> {
    const { timeoutMs = this.#timeoutMs, retries = this.#retries, signal } = options;
    const late = AbortSignal.timeout(timeoutMs);
    const ended = signal ? AbortSignal.any([signal, late]) : late;
    for (let left = retries; ; left--) {
      try {
        return await this.#once(operation, given, ended);
      } catch (error) {
        if (signal?.aborted) throw signal.reason;
        if (late.aborted) throw new TimedOutError(`no answer from ${this.url} to ${operation} within ${timeoutMs} ms`, { cause: error });
        const mayPass = error instanceof UnreachableError || (error instanceof RefusedError && error.mayPass);
        if (!mayPass || left <= 0) throw error;
        const asked = error instanceof RefusedError ? 1_000 * error.retryAfterS : 0;
        await pause(Math.max(asked, FIRST_PAUSE_MS * 2 ** (retries - left)), ended);
      }
    }
  }

  async #once(operation: string, given: object | undefined, signal: AbortSignal): Promise<unknown> {
    const [method = "GET", path = "/"] = operation.split(" ");
    let address = this.url + path;
    const headers: Record<string, string> = { ...this.#headers };
    const init: RequestInit = { method, headers, signal, redirect: "error" }; // another server must not get the token
    if (method === "GET") {
      const query = queryOf(given);
      if (query) address += `?${query}`;
    } else {
      headers["content-type"] = "application/json";
      headers["accept"] = "application/json, text/event-stream"; // both, as MCP demands
      init.body = JSON.stringify(given);
    }
    let response: Response;
    let text: string;
    try {
      response = await this.#fetch(address, init);
      text = await response.text();
    } catch (error) {
      throw new UnreachableError(`hepm does not answer at ${this.url} (${reasonOf(error)}): is hepm serve running there?`, { cause: error });
    }
    const answer = parsed(text);
    if (!response.ok) {
      const said = messageIn(answer) ?? text.slice(0, 200);
      const retryAfterS = Number(response.headers.get("retry-after")) || 0;
      throw new RefusedError(`hepm refused ${operation} (${response.status}): ${said}`, response.status, retryAfterS);
    }
    if (answer === undefined) throw new HepmError(`${address} answered ${operation} with something other than JSON: is it hepm serve?`);
    return answer;
  }
}

function variable(name: string): string | undefined {
  // Not in browsers and some edge runtimes.
  const { process } = globalThis as { process?: { env?: Record<string, string | undefined> } };
  return process?.env?.[name] || undefined;
}

function queryOf(given: object = {}): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(given)) {
    if (value !== undefined && value !== null) query.set(name, String(value));
  }
  return query.toString();
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function messageIn(answer: unknown): string | undefined {
  const message = (answer as { error?: { message?: unknown } } | undefined)?.error?.message;
  return typeof message === "string" ? message : undefined;
}

/** What Node says is in the cause: "fetch failed" alone tells nothing. */
function reasonOf(error: unknown): string {
  const { cause, message } = error as { cause?: { code?: string; message?: string }; message?: string };
  return cause?.code ?? cause?.message ?? message ?? String(error);
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = (): void => {
      clearTimeout(timer);
      reject(signal.reason);
    };
    const timer = setTimeout(() => {
      signal.removeEventListener("abort", stop);
      resolve();
    }, ms);
    if (signal.aborted) stop();
    else signal.addEventListener("abort", stop, { once: true });
  });
}
