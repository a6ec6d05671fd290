/** Names and numbers that both ends of the wire must agree on. */

/** Headers of ours; Node and browsers compare them without regard to case. */
export const HEADER = {
  /** Which namespace a token for all of them means; default: `default`. */
  namespace: "perdure-namespace",
  /** Proves that the caller is the session it names. */
  sessionKey: "perdure-session-key",
  /** The lease token of the attempt whose files are written or read. */
  lease: "perdure-lease",
  /** Which attempt a log belongs to. */
  attempt: "perdure-attempt",
  /** Where the next page of a log begins. */
  logNext: "perdure-log-next",
  /** Of every reply; a log of the server names it too. */
  requestId: "perdure-request-id",
  /** Of an error in the form of another system, whose body has no place for our code. */
  errorCode: "perdure-error-code",
} as const;

export const API_VERSION = 1;

export const LIMIT = {
  /** A held request is answered within this time, whatever happens. */
  waitMs: 30_000,
  submitMany: 10_000,
  /** Different retry policies of one such request. */
  policies: 1_000,
  claim: 500,
  reports: 1_000,
  held: 100_000,
  waitJobs: 1_000,
  events: 1_000,
  attempts: 100,
  workers: 200,
  /** Attempts of a page of outputs. */
  outputs: 100,
  queues: 1_000,
  tokens: 1_000,
  jobs: 1_000,
} as const;
