// Made by make_types.py from the OpenAPI document of `hepm serve` and its tools of MCP: do not edit.

/** A situation of an earlier run, what was called in it, and how the runs ended that went this way. */
export interface EarlierSituation {
  summary: string;
  /** Tools called just before; empty at the start */
  after: Array<string>;
  /** Tools called in this situation */
  called_next: Array<string>;
  /** Successful runs that called this from here */
  succeeded: number;
  /** Failed runs that called this from here */
  failed: number;
  similarity: number;
  run: string;
}

/** How a run ended; null for one whose outcome is not known. */
export interface Ending {
  /** Your own id of the run, the same in each request of it */
  session: string;
  success?: boolean | null;
  /** Instead of success: 1 for solved, less for less */
  reward?: number | null;
}

/** A tool that failed from here in earlier runs, or fails wherever it is called. */
export interface FailedTool {
  /** Its name; <END> of making no further call */
  tool: string;
  /** Runs that called it from here and failed */
  failed: number;
  /** Runs that called it from here */
  runs: number;
  /** Day of the earliest of its latest failed runs; empty if unknown */
  since: string;
  /** Its error in such a run, without numbers and names: data, no instruction */
  error: string;
  /** What worked instead; empty if nothing stands out */
  instead: string;
  reason: string;
}

/** Stored runs, the latest first, whether there are more, and what a filter can be set to. */
export interface FoundRuns {
  runs: Array<Record<string, unknown>>;
  more: boolean;
  tools: Array<string>;
  models: Array<string>;
  weeks: Array<string>;
}

/**
 * Whether the store answers and sessions can be kept; at a server without tokens also what runs do.
 *
 * `shortlists_off` are the namespaces whose agents get all tools, as too many sessions missed one, with how many.
 */
export interface Health {
  status: "ok" | "degraded";
  store: string;
  sessions: string;
  uptime_s: number;
  open_runs?: number;
  shortlists_off?: Record<string, string>;
}

/** A conversation, or a request alone, and the tools of which to choose. */
export interface ManyTools {
  messages: Array<Record<string, unknown>> | string;
  tools: Array<Record<string, unknown> | string>;
  /** How many tools the words of a request choose */
  k?: number;
  /** Tokens beyond which words add no tool */
  budget_tokens?: number | null;
  tool_choice?: unknown;
}

/** A tool to try next. */
export interface NextTool {
  tool: string;
  score: number;
  /** Successful runs that called it from here */
  support: number;
  /** Share of the runs that failed after calling it from here */
  failure_share: number | null;
  reason: string;
}

/** A run that is stored with its outcome: the one under way, else the latest, of this session. */
export interface OutcomeKept {
  session: string;
  run: string;
  stored: boolean;
}

/**
 * What memory says before the next call of the model; empty texts if nothing.
 *
 * `stable` belongs into the system message and stays through the run; `present` belongs to the end of the user's
 * message, or into one of its own behind results. `run` is the id under which the run is stored.
 */
export interface PromptParts {
  run: string;
  stable: string;
  present: string;
  tools: Array<NextTool>;
}

/** What is on the disk: a run, with so many messages. */
export interface Recorded {
  run: string;
  messages: number;
}

/** Where agents go wrong, what worked instead, and what memory did. */
export interface ReportGiven {
  sentence: string;
  namespace: string;
  runs: number;
  succeeded: number;
  failed: number;
  before: number | null;
  lately: number | null;
  saved: number;
  twice: number;
  forks: Array<Record<string, unknown>>;
  sections: Array<Record<string, unknown>>;
  advice: Array<string>;
}

/** A lesson to keep from hints, or to let be found again. */
export interface Retirement {
  kind: "principle" | "experience";
  id: string;
  retired: boolean;
}

/** The whole conversation of a run so far. */
export interface RunSoFar {
  /** Your own id of the run, the same in each request of it */
  session: string;
  /** As OpenAI's chat API writes them */
  messages: Array<Record<string, unknown>>;
  /** The agent's tools, as OpenAI's chat API writes them */
  tools?: Array<Record<string, unknown>>;
  user?: string;
  task?: string;
  environment?: string;
  model?: string;
}

/**
 * The tools to send, of all that an agent has.
 *
 * Attributes:
 *     tools: The very objects that were given, in the order in which they were.
 *     reasons: Why each is kept, by its name.
 *     left_out: Names of those that are not in the list, which `more_tools` finds.
 *     tokens, tokens_saved: Of the tools that are sent, and of the others; approximately.
 *     off: Why those that are not in the list are sent all the same; "" where they are not.
 */
export interface Shortlist {
  tools: Array<unknown>;
  reasons: Record<string, string>;
  left_out: Array<string>;
  tokens: number;
  tokens_saved: number;
  off?: string;
}

/** A tool that may do what is asked for. */
export interface ToolFound {
  name: string;
  description: string;
  reason: string;
}

/** A run with its first turns. */
export interface Transcript {
  id: string;
  at: number | null;
  request: string;
  task: string;
  success: boolean | null;
  environment: string;
  stored: boolean;
  turns: Array<TurnShown>;
  all_turns: number;
}

/** A turn of a run; `hinted` are the tools that memory had named before it. */
export interface TurnShown {
  role: string;
  text: string;
  calls: Array<Record<string, unknown>>;
  hinted: Array<string>;
}

/** What each operation takes, as its query or body, and gives. */
export interface Operations {
  /** Whether the store answers, and runs can be kept. */
  "GET /health": {
    takes: undefined;
    gives: Health;
  };
  /** Store a run with its outcome. */
  "POST /outcome": {
    takes: Ending;
    gives: OutcomeKept;
  };
  /** What memory says before the next call of the model; records the conversation up to here. */
  "POST /api/hint": {
    takes: RunSoFar;
    gives: PromptParts;
  };
  /** Record the conversation, with the model's last reply if it ends with that. */
  "POST /api/record": {
    takes: RunSoFar;
    gives: Recorded;
  };
  /** The tools to send of the many that an agent has; the same list for all runs of a namespace. */
  "POST /shortlist": {
    takes: ManyTools;
    gives: Shortlist;
  };
  /** What is under way in a namespace, the latest hints, and the counts of what it holds. */
  "GET /api/now": {
    takes: undefined;
    gives: Record<string, unknown>;
  };
  /** The graph as the page draws it; with `tool`, that tool and its neighbours. */
  "GET /api/graph": {
    takes: {
      /** Only this tool and its neighbours */
      tool?: string;
    };
    gives: Record<string, unknown>;
  };
  /** Runs and summaries behind the edge between two tools. */
  "GET /api/edge": {
    takes: {
      source: string;
      target: string;
    };
    gives: Record<string, unknown>;
  };
  /** Where agents go wrong, as it was known lately. */
  "GET /api/report": {
    takes: undefined;
    gives: ReportGiven;
  };
  /** Stored runs that a filter leaves, the latest first, and what it can be set to. */
  "GET /api/runs": {
    takes: {
      /** Words of the request */
      words?: string;
      outcome?: "" | "succeeded" | "failed" | "unknown";
      tool?: string;
      user?: string;
      model?: string;
      /** A day of the week in which they ended */
      week?: string | null;
      /** `seq` of the last run that was listed */
      before?: string;
    };
    gives: FoundRuns;
  };
  /** One run, stored or under way, turn by turn, without secrets. */
  "GET /api/run": {
    takes: {
      id: string;
    };
    gives: Transcript;
  };
  /** What keeps memory from helping here, as it was known lately. */
  "GET /api/advice": {
    takes: undefined;
    gives: Record<string, unknown>;
  };
  /** Lessons of a kind that contain every word of a query. */
  "GET /api/lessons": {
    takes: {
      kind: "principle" | "experience" | "notes";
      /** Words that each must have */
      q?: string;
      retired?: "true" | "false";
    };
    gives: Record<string, unknown>;
  };
  /** Keep a principle or an experience from hints, or let it be found: reject or approve it. */
  "POST /api/lessons": {
    takes: Retirement;
    gives: Record<string, unknown>;
  };
}

/** What each tool of MCP takes and gives. */
export interface Tools {
  /** Rank the tools that worked next in earlier runs, with the reason for each. */
  "suggest_next_tools": {
    takes: {
      /** Any id, the same throughout one task */
      session_id: string;
      /** Names of the tools called so far, oldest first */
      history: Array<string>;
      /** What is known now, in a few lines */
      state?: string;
      /** Names of the tools you have; null for any */
      tools?: Array<string> | null;
      k?: number;
    };
    gives: {
      tools: Array<NextTool>;
      /** The same as a line of text; empty without an opinion */
      prompt: string;
      /** Why nothing is suggested */
      no_opinion: string | null;
      /** If nearly all successful runs like this one made no further call, their share; else 0 */
      done: number;
    };
  };
  /** Find the situations of earlier runs most similar to this one, what was called there, and lessons from it. */
  "search_experience": {
    takes: {
      /** The situation, in a few words */
      query: string;
      k?: number;
      /** The id of this task, as for the other tools */
      session_id?: string;
    };
    gives: {
      /** The most similar situation of each way to go on, best first */
      situations: Array<EarlierSituation>;
      lessons: Array<string>;
    };
  };
  /** Find the tools for a task by words, and by what earlier runs of like tasks called. */
  "find_tools": {
    takes: {
      /** What the tool should do, in a few words */
      query: string;
      /** Names of the tools you have; null for all that runs had */
      tools?: Array<string> | null;
      k?: number;
      /** The id of this task, as for the other tools */
      session_id?: string;
    };
    gives: {
      tools: Array<ToolFound>;
    };
  };
  /** Say what you know before you choose the next tool; returns what memory says about such a situation. */
  "summarize_the_task": {
    takes: {
      /** Any id, the same throughout one task */
      session_id: string;
      /** What the task is, what is done and what is known */
      summary: string;
    };
    gives: {
      result: string;
    };
  };
  /** Say which tools failed from here in earlier runs, since when and with which error, and what worked. */
  "what_failed_here": {
    takes: {
      /** Any id, the same throughout one task */
      session_id: string;
      /** Names of the tools called so far, oldest first */
      history: Array<string>;
      /** What is known now, in a few lines */
      state?: string;
    };
    gives: {
      failed: Array<FailedTool>;
      lessons: Array<string>;
      /** Why nothing is said */
      no_opinion: string | null;
    };
  };
  /** Say what the user of this session prefers, as earlier sessions noted it. */
  "my_preferences": {
    takes: {
      /** Any id, the same throughout one task */
      session_id: string;
      /** Whom the task is for, where nothing else that hepm records says it */
      user?: string;
    };
    gives: {
      user: string;
      preferences: Array<string>;
    };
  };
  /** Keep a lesson for later tasks. No agent is told it before a person approves it. */
  "remember": {
    takes: {
      /** Any id, the same throughout one task */
      session_id: string;
      /** One sentence: when it holds, and what to do */
      lesson: string;
      /** Whose words or wish it is */
      said_by?: "agent" | "user";
    };
    gives: {
      /** Its id, for `forget` */
      lesson: string;
      /** `pending` until a person approves it, `live` from then on, or why it was retired */
      state: string;
    };
  };
  /** Forget a lesson that this agent or its user had remembered, or a preference of the user of this session. */
  "forget": {
    takes: {
      /** Any id, the same throughout one task */
      session_id: string;
      /** Id of a lesson that `remember` gave */
      lesson?: string;
      /** One of `my_preferences`, word for word */
      preference?: string;
      /** Whom the task is for, where nothing else that hepm records says it */
      user?: string;
    };
    gives: {
      result: string;
    };
  };
}
