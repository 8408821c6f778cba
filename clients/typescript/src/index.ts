export type * from "./api.js";
export { Hepm, type CallOptions, type Gives, type HepmOptions, type Operation, type Outcome, type Takes } from "./client.js";
export { HepmError, RefusedError, TimedOutError, UnreachableError } from "./errors.js";
export { Session, type About, type Message } from "./session.js";
