/** Reports of a session over HTTP. Reports of one tick, or of the time in which a call is in progress, are sent together in the
 *  next call. A call is repeated until it is answered; the ids of the reports make that harmless. If the server refuses a call
 *  as a whole, it is split in halves until only the faulty report is refused. Texts are cut to the limits of the protocol. */

import { LIMIT, toWireUsage } from "../../contract/wire.ts";
import type { ReportWire } from "../../contract/worker-schemas.ts";
import { type Failure, failure } from "../../core/decision/failure.ts";
import { PerdureError } from "../../core/errors.ts";
import {
  MAX_JOB_BODY_BYTES,
  type Report,
  type ReportedOutcome,
  type SettleAnswer,
} from "../../core/worker-protocol.ts";
import { isOver } from "../../lib/text.ts";
import { isForbidden, isGone, mayPass } from "../../wire/repeat.ts";
import { WireError } from "../../wire/wire-error.ts";
import { inSession, type LinkParts, type LinkSession, untilAnswered } from "./link-parts.ts";

const MAX_TEXT = 100_000;
const MAX_NAME = 1_000;
const MAX_CODE = 2_147_483_647;

function reportText({ jobId, attempt, from, outcome, usage, progress, log }: Report): string {
  if (from.kind !== "worker") throw new Error(`a worker does not report as ${from.kind}`);
  const { token, reportId } = from;
  const wire: ReportWire = { jobId, attempt, token, reportId, outcome: wireOutcome(outcome) };
  if (usage !== null) wire.usage = toWireUsage(usage);
  if (progress) wire.progress = progress;
  if (log) wire.log = log;
  return JSON.stringify(wire);
}

function wireOutcome(outcome: ReportedOutcome): ReportWire["outcome"] {
  switch (outcome.kind) {
    case "completed":
      if (outcome.result !== null && isOver(outcome.result, MAX_JOB_BODY_BYTES)) {
        return { kind: "failed", failure: tooLarge() };
      }
      return { kind: outcome.kind, result: outcome.result };
    case "waiting":
      return { kind: outcome.kind, children: [...outcome.children] };
    case "failed":
    case "timeout":
      return { kind: outcome.kind, failure: wireFailure(outcome.failure) };
    case "interrupted":
    case "released":
    case "lost":
      return { kind: outcome.kind };
    default:
      throw new Error(`a worker does not report ${outcome.kind}`);
  }
}

/** A result that the server would refuse is not sent. */
function tooLarge(): Failure {
  const message = `the result is over the limit of ${MAX_JOB_BODY_BYTES} bytes`;
  return failure({ kind: "result", class: "logical", message });
}

function wireFailure(cause: Failure): Failure {
  const short = (text: string | null) => (text === null ? null : text.slice(0, MAX_NAME));
  return {
    kind: cause.kind,
    class: cause.class,
    message: cause.message.slice(0, MAX_TEXT),
    name: short(cause.name),
    code: short(cause.code),
    signal: short(cause.signal),
    exitCode: within(cause.exitCode, -MAX_CODE - 1, MAX_CODE),
    status: within(cause.status, 0, 9_999),
    retryAfterMs: cause.retryAfterMs,
    stack: cause.stack === null ? null : cause.stack.slice(0, MAX_TEXT),
  };
}

/** Null if the value is not an integer in the range. */
function within(value: number | null, least: number, most: number): number | null {
  return value !== null && Number.isInteger(value) && value >= least && value <= most ? value : null;
}

interface QueuedReport {
  readonly text: string;
  readonly resolve: (answer: SettleAnswer) => void;
  readonly reject: (error: unknown) => void;
}

/** Limit of one call; a single report may be larger. */
const MAX_BYTES = 4 * MAX_JOB_BODY_BYTES;
const STALE: SettleAnswer = Object.freeze({ status: "stale", recorded: null });

export class ReportQueue {
  readonly #parts: LinkParts;
  readonly #session: LinkSession;
  readonly #isCurrent: () => boolean;
  #waiting: QueuedReport[] = [];
  #isSending = false;

  constructor(parts: LinkParts, session: LinkSession, isCurrent: () => boolean) {
    this.#parts = parts;
    this.#session = session;
    this.#isCurrent = isCurrent;
  }

  report(report: Report): Promise<SettleAnswer> {
    const text = reportText(report);
    return new Promise((resolve, reject) => {
      this.#waiting.push({ text, resolve, reject });
      if (this.#isSending) return;
      this.#isSending = true;
      this.#parts.clock.tick(() => void this.#sendAll());
    });
  }

  async #sendAll(): Promise<void> {
    while (this.#waiting.length > 0) await this.#send(this.#take());
    this.#isSending = false;
  }

  #take(): QueuedReport[] {
    let count = 0;
    let bytes = 0;
    for (const { text } of this.#waiting) {
      bytes += text.length > 1_000 ? Buffer.byteLength(text) : 3 * text.length; // at most three bytes per character
      if (count > 0 && (count === LIMIT.reports || bytes > MAX_BYTES)) break;
      count += 1;
    }
    if (count === this.#waiting.length) {
      const all = this.#waiting;
      this.#waiting = [];
      return all;
    }
    return this.#waiting.splice(0, count);
  }

  async #send(batch: readonly QueuedReport[]): Promise<void> {
    const { closed } = this.#parts;
    const body = `{"reports":[${batch.map((each) => each.text).join(",")}]}`;
    try {
      const shouldRetry = (error: unknown) => mayPass(error) && !this.#isOfAnotherStore(error);
      const options = { signal: closed, shouldRetry };
      const answers = await untilAnswered(this.#parts, () => this.#post(body, batch.length), options);
      for (let i = 0; i < batch.length; i++) (batch[i] as QueuedReport).resolve(answers[i] as SettleAnswer);
    } catch (error) {
      if (closed.aborted || !(error instanceof PerdureError)) for (const each of batch) each.reject(error);
      else if (isGone(error) || this.#isOfAnotherStore(error)) for (const each of batch) each.resolve(STALE);
      else if (batch.length === 1) batch[0]?.resolve({ status: "refused", code: error.code, message: error.message });
      else {
        const half = batch.length >> 1;
        await this.#send(batch.slice(0, half));
        await this.#send(batch.slice(half));
      }
    }
  }

  /** The key of this session is refused although the token has opened a newer session: the server has another store by now. */
  #isOfAnotherStore(error: unknown): boolean {
    return isForbidden(error) && !this.#isCurrent();
  }

  async #post(body: string, count: number): Promise<readonly SettleAnswer[]> {
    const { answers } = await inSession<{ answers: SettleAnswer[] }>(
      this.#parts,
      this.#session,
      "reportAttempts",
      body,
      {
        signal: this.#parts.closed,
      },
    );
    if (Array.isArray(answers) && answers.length === count) return answers;
    throw new WireError("internal", `the server's reply does not have ${count} answers`, { mayBeDone: true });
  }
}
