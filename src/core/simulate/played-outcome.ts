/** The outcomes of attempts that a simulation can play: `fail`, `exit:7`, `http:503`, `lost`. Each becomes the outcome that a
 *  worker or the reaper would report, with the same message. */
import { nearest } from "../check.ts";
import { type Failure, failure } from "../decision/failure.ts";
import type { Outcome } from "../decision/outcome.ts";
import { showMs, toMs } from "../duration.ts";
import { ConfigError } from "../errors.ts";
import type { Job } from "../job/job.ts";

/** How one step of a simulation ends. */
export interface PlayedOutcome {
  /** As it was written. */
  readonly word: string;
  /** run: a worker starts it. wait: no worker does, until it expires. cancel: it is cancelled while it runs. */
  readonly kind: "run" | "wait" | "cancel";
  readonly isSuccess: boolean;
  /** `job` is the job just before that end. */
  outcome(job: Job, endsAt: number): Outcome;
}

/** For messages and help. */
export const OUTCOME_FORMS =
  "ok, fail, fail:EXITCODE, exit:EXITCODE, error:MESSAGE, http:STATUS, http:STATUS:RETRY_AFTER, timeout, lost, oom, " +
  "signal:NAME, logical, logical:REASON, budget, budget:REASON, invalid, queue-timeout, interrupted, cancel";

const MAX_WORDS = 10_000;

/** `fail,lost,ok`. A comma within a message is written `\,`. */
export function playedOutcomes(text: string, path: string): PlayedOutcome[] {
  const words = text.split(/(?<!\\),/).map((word) => word.replaceAll("\\,", ",").trim());
  if (words.length <= MAX_WORDS) return words.map((word) => playedOutcome(word, path));
  throw new ConfigError({ path, given: words.length, allowed: `a list of at most ${MAX_WORDS} outcomes` });
}

export function playedOutcome(text: string, path: string): PlayedOutcome {
  const colon = text.indexOf(":");
  const name = colon < 0 ? text : text.slice(0, colon);
  const argument = colon < 0 ? null : text.slice(colon + 1).trim();
  const word = WORDS.get(name);
  if (word === undefined) {
    const near = nearest(name, [...WORDS.keys()]);
    throw new ConfigError({ path, given: text, allowed: `one of ${OUTCOME_FORMS}`, nearest: near });
  }
  const made = word.make(argument);
  if (made === null) throw new ConfigError({ path, given: text, allowed: word.allowed });
  const isSuccess = typeof made !== "function" && made.kind === "completed";
  const outcome = typeof made === "function" ? made : () => made;
  return { word: text, kind: word.kind ?? "run", isSuccess, outcome };
}

/** An outcome, or a function where it depends on the job. */
type OutcomeOrFunction = Outcome | PlayedOutcome["outcome"];

interface OutcomeWord {
  readonly kind?: PlayedOutcome["kind"];
  readonly allowed: string;
  /** From the text after the colon, null without one. Returns null if that is not valid. */
  make(argument: string | null): OutcomeOrFunction | null;
}

const WORDS: ReadonlyMap<string, OutcomeWord> = new Map<string, OutcomeWord>([
  ["ok", alone("ok", { kind: "completed", result: null })],
  ["fail", { allowed: "fail, or fail:EXITCODE with a code from 1 to 255", make: (code) => exited(code ?? "1", 1) }],
  ["exit", { allowed: "exit:EXITCODE with a code from 0 to 255, as in exit:7", make: (code) => exited(code, 0) }],
  ["error", { allowed: "error:MESSAGE, as in error:connection reset or error:TypeError: no name", make: thrown }],
  ["http", { allowed: "http:STATUS from 100 to 599, or http:STATUS:RETRY_AFTER as in http:429:30s", make: answered }],
  ["timeout", alone("timeout", timedOut)],
  ["lost", alone("lost", lost)],
  [
    "oom",
    alone("oom", failedBy({ kind: "oom", message: "out of memory: killed by the system", ...killed("SIGKILL", 9) })),
  ],
  ["signal", { allowed: "signal:NAME, as in signal:SIGSEGV", make: signalled }],
  ["logical", { allowed: "logical, or logical:REASON", make: (reason) => logical(reason) }],
  ["budget", { allowed: "budget, or budget:REASON", make: (reason) => overBudget(reason) }],
  ["invalid", alone("invalid", failedBy({ kind: "error", class: "invalid", message: "invalid input" }))],
  ["queue-timeout", { ...alone("queue-timeout", { kind: "queue_timeout" }), kind: "wait" }],
  ["interrupted", alone("interrupted", { kind: "interrupted" })],
  ["cancel", { ...alone("cancel", { kind: "interrupted" }), kind: "cancel" }],
]);

function alone(name: string, outcome: OutcomeOrFunction): OutcomeWord {
  return { allowed: `${name} without an argument`, make: (argument) => (argument === null ? outcome : null) };
}

function failedBy(parts: Parameters<typeof failure>[0]): Outcome {
  return { kind: "failed", failure: failure(parts) };
}

function exited(text: string | null, least: number): Outcome | null {
  const exitCode = wholeIn(text, least, 255);
  if (exitCode === null) return null;
  if (exitCode === 0) return { kind: "completed", result: { exitCode } };
  return failedBy({ kind: "exit", message: `exit code ${exitCode}`, exitCode });
}

/** As errors are printed: `TypeError: x is not a function` has the name that rules match. */
function thrown(text: string | null): Outcome | null {
  if (text === null || text === "") return null;
  const [, name = "Error", message = text] = /^([A-Za-z_$][\w$]*(?:Error|Exception)): *(.+)$/s.exec(text) ?? [];
  return failedBy({ kind: "error", message, name });
}

function logical(reason: string | null): Outcome {
  return failedBy({ kind: "result", class: "logical", message: reason || "rejected by the task" });
}

function overBudget(reason: string | null): Outcome {
  return failedBy({
    kind: "result",
    class: "budget",
    message: reason || "the task reports that its budget is exceeded",
  });
}

/** As for requests without `expect`: 2xx is a success. */
function answered(text: string | null): Outcome | null {
  const [, code = "", wait] = /^(\d{3})(?::(.+))?$/.exec(text ?? "") ?? [];
  const status = wholeIn(code, 100, 599);
  const retryAfterMs = wait === undefined ? null : spanIn(wait);
  if (status === null || Number.isNaN(retryAfterMs)) return null;
  if (status >= 200 && status <= 299) {
    const result = { status_code: status, headers: {}, body: null };
    return wait === undefined ? { kind: "completed", result } : null;
  }
  return failedBy({ kind: "http", message: `HTTP ${status}`, status, retryAfterMs });
}

function timedOut({ timeoutMs }: Job): Outcome {
  const message = timeoutMs === null ? "timed out" : `timed out after ${showMs(timeoutMs)}`;
  return { kind: "timeout", failure: failure({ kind: "timeout", message }) };
}

/** Renewed until its end, which the poison guard reads. */
function lost({ worker }: Job, endsAt: number): Outcome {
  return { kind: "lost", why: "lease_expired", session: worker, renewedAt: endsAt, by: null };
}

/** Numbers of signals on Linux. */
const SIGNALS: Readonly<Record<string, number>> = {
  SIGHUP: 1,
  SIGINT: 2,
  SIGQUIT: 3,
  SIGILL: 4,
  SIGTRAP: 5,
  SIGABRT: 6,
  SIGBUS: 7,
  SIGFPE: 8,
  SIGKILL: 9,
  SIGUSR1: 10,
  SIGSEGV: 11,
  SIGUSR2: 12,
  SIGPIPE: 13,
  SIGALRM: 14,
  SIGTERM: 15,
  SIGXCPU: 24,
  SIGXFSZ: 25,
  SIGSYS: 31,
};

function signalled(text: string | null): Outcome | null {
  const upper = (text ?? "").toUpperCase();
  const name = upper.startsWith("SIG") ? upper : `SIG${upper}`;
  const number = Object.hasOwn(SIGNALS, name) ? SIGNALS[name] : undefined;
  if (number === undefined) return null;
  return failedBy({ kind: "signal", message: `signal ${name}`, ...killed(name, number) });
}

/** As shells count it. */
function killed(signal: string, number: number): Pick<Failure, "exitCode" | "signal"> {
  return { exitCode: 128 + number, signal };
}

function wholeIn(text: string | null, min: number, max: number): number | null {
  const value = /^\d{1,3}$/.test(text ?? "") ? Number(text) : -1;
  return value >= min && value <= max ? value : null;
}

/** NaN if it is not a duration. */
function spanIn(text: string): number {
  try {
    return toMs(/^\d+$/.test(text) ? `${text}s` : text, ""); // as in the header, a bare number is in seconds
  } catch {
    return Number.NaN;
  }
}
