/** Reports of a session over HTTP. Those that come in one tick, or while a call is under way, go together in the next; a
 *  call is repeated as it is until it is answered, and the ids of the reports make that harmless.
 *
 *  A call that the server refuses as a whole is split in halves, so that only the guilty report is refused. */
import { LIMIT } from "../../contract/wire.ts";
import { PerdureError } from "../../core/errors.ts";
import type { Report, SettleAnswer } from "../../core/work.ts";
import { inSession, type LinkParts, type OpenSession, untilAnswered } from "./link-parts.ts";
import { reportText } from "./report-text.ts";
import { isGone, mayPass, WireError } from "./wire-error.ts";

interface Waiting {
  readonly text: string;
  readonly resolve: (answer: SettleAnswer) => void;
  readonly reject: (error: unknown) => void;
}

/** Of one call; a single report may be larger. A character is at most three bytes. */
const MAX_BYTES = 4 * 1_048_576;
const STALE: SettleAnswer = Object.freeze({ status: "stale", recorded: null });

export class ReportQueue {
  readonly #parts: LinkParts;
  readonly #session: OpenSession;
  readonly #isCurrent: () => boolean;
  #waiting: Waiting[] = [];
  #isSending = false;

  constructor(parts: LinkParts, session: OpenSession, isCurrent: () => boolean) {
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
      process.nextTick(() => void this.#sendAll());
    });
  }

  async #sendAll(): Promise<void> {
    while (this.#waiting.length > 0) await this.#send(this.#take());
    this.#isSending = false;
  }

  #take(): Waiting[] {
    let count = 0;
    let bytes = 0;
    for (const { text } of this.#waiting) {
      bytes += text.length > 1_000 ? Buffer.byteLength(text) : 3 * text.length;
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

  async #send(batch: readonly Waiting[]): Promise<void> {
    const { closed } = this.#parts;
    const body = `{"reports":[${batch.map((each) => each.text).join(",")}]}`;
    try {
      const isWorthWaiting = (error: unknown) => mayPass(error) && !this.#isOfAnotherStore(error);
      const options = { signal: closed, isWorthWaiting };
      const answers = await untilAnswered(this.#parts, () => this.#ask(body, batch.length), options);
      for (let i = 0; i < batch.length; i++) (batch[i] as Waiting).resolve(answers[i] as SettleAnswer);
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

  /** Our token opened a session since, and the key of this one is refused: the store behind the server is another one. */
  #isOfAnotherStore(error: unknown): boolean {
    return error instanceof WireError && error.code === "forbidden" && !this.#isCurrent();
  }

  async #ask(body: string, count: number): Promise<readonly SettleAnswer[]> {
    const reply = await inSession<{ answers: SettleAnswer[] }>(this.#parts, this.#session, "reportAttempts", body, {
      signal: this.#parts.closed,
    });
    const { answers } = reply.body;
    if (Array.isArray(answers) && answers.length === count) return answers;
    throw new WireError("internal", `the server answered ${count} reports with something else`, { mayBeDone: true });
  }
}
