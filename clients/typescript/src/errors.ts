/** Any failure of a request to hepm; its subclasses say of what kind. */
export class HepmError extends Error {
  override name = "HepmError";
}

/** The server refused a request. Sending it again as it is helps only where `mayPass` is true. */
export class RefusedError extends HepmError {
  override name = "RefusedError";

  constructor(
    message: string,
    /** The status of HTTP. */
    readonly status: number,
    /** Seconds after which the server asks to try again; 0 if it does not say. */
    readonly retryAfterS = 0,
  ) {
    super(message);
  }

  /** Whether the same request may be answered later: there were too many, or the store does not answer. */
  get mayPass(): boolean {
    return this.status === 429 || this.status === 503;
  }
}

/** No answer came: nothing listens at the address, or the connection broke. `cause` says why. */
export class UnreachableError extends HepmError {
  override name = "UnreachableError";
}

/** No answer came in time. What was sent may have been recorded; sending it again records it once. */
export class TimedOutError extends HepmError {
  override name = "TimedOutError";
}
