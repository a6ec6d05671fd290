/** The reaper searches every second (more often with a short lease) for attempts whose session is silent and for jobs that
 *  waited too long, and settles them. Any number of engines may reap at once: each settle checks again under the row's
 *  lock, so they only waste time. It promises that a lost attempt is settled within lease + 2 s while any engine is awake.
 *  It does not promise that the work of a silent worker has stopped.
 *
 *  A lost command with a complete verdict is settled by that, in the background: listing its files may take long. */
import { exec } from "../core/input/builtin.ts";
import type { Report, SettleAnswer } from "../core/worker-protocol.ts";
import { limiter } from "../lib/limiter.ts";
import type { ExpiredJob } from "../store/store.ts";
import { BackgroundService } from "./background-service.ts";
import { DEFAULTS } from "./limits.ts";
import { lostReport, lostVerdict } from "./lost-attempts.ts";
import { notifyObserver } from "./observer.ts";
import type { EngineParts } from "./parts.ts";
import { settle, settledAttempts } from "./settle.ts";

const BATCH = 1_000;
/** Settled in one call. On SQLite a call is one turn of the event loop, and other writers wait for it. */
const SETTLED_AT_ONCE = 250;
/** A row that cannot be settled is skipped for a while, so that many of them never hide the others. */
const SKIP_MS = 60_000;
const READ_AT_ONCE = 8;
const VERDICTS_AT_ONCE = 4;

export class Reaper extends BackgroundService {
  readonly #parts: EngineParts;
  readonly #skippedUntil = new Map<string, number>();
  /** Attempts that are being settled by their verdicts. */
  readonly #byVerdict = new Map<string, Promise<void>>();
  readonly #inTurn = limiter(VERDICTS_AT_ONCE);
  #last: { now: number; monotonic: number } | null = null;

  constructor(parts: EngineParts) {
    super(parts, Math.min(DEFAULTS.reapEvery, parts.reapEveryMs ?? DEFAULTS.reapEvery, parts.leaseMs / 6), "reaper");
    this.#parts = parts;
  }

  override async runOnce(): Promise<void> {
    const { store, clock, leaseMs, name, process, isOver } = this.#parts;
    const now = clock.now();
    const { heldUntil } = await store.beat({
      time: () => ({ now: clock.now() }),
      // Leases are renewed every third of their time, so two thirds are left when a silence begins: a silence that could use
      // them up must be noticed, also with a short lease.
      maxGapMs: Math.min(DEFAULTS.maxBeatGap, leaseMs / 2),
      holdMs: leaseMs,
      clockJumpMs: this.#jump(now),
      engine: name,
      ...(process === undefined ? {} : { self: process }),
      ...(isOver === undefined ? {} : { isOver }),
    });
    this.#parts.storeState.works();
    // If two engines wake together after a sleep, the second must not reap before the first has recorded the sleep.
    if (heldUntil === Number.POSITIVE_INFINITY) return;
    await this.#endGone(now);
    for (;;) {
      const limit = BATCH + this.#skippedUntil.size + this.#byVerdict.size;
      const found = await store.expired({ now, limit });
      const fresh = found.filter(
        ({ jobId }) => (this.#skippedUntil.get(jobId) ?? 0) <= now && !this.#byVerdict.has(jobId),
      );
      for (let i = 0; i < fresh.length; i += SETTLED_AT_ONCE) {
        await this.#settle(fresh.slice(i, i + SETTLED_AT_ONCE), now);
      }
      if (found.length < limit || fresh.length === 0) break;
    }
    for (const [jobId, until] of this.#skippedUntil) if (until <= now) this.#skippedUntil.delete(jobId);
  }

  /** Ends the sessions whose process is known to have exited, so that their jobs are queued again at once. */
  async #endGone(now: number): Promise<void> {
    const { store, isGone } = this.#parts;
    if (isGone === undefined) return;
    for (const session of await store.sessions.listOpen()) {
      if (isGone(session)) await store.sessions.close(session.id, now, "gone");
    }
  }

  /** Resolves when attempts with verdicts are settled. */
  async verdictsSettled(): Promise<void> {
    await Promise.all(this.#byVerdict.values());
  }

  override async stop(): Promise<void> {
    await super.stop();
    await this.verdictsSettled();
  }

  async #settle(found: readonly ExpiredJob[], now: number): Promise<void> {
    const withVerdict = await this.#withVerdict(found);
    for (const job of withVerdict) this.#settleByVerdict(job, now);
    const rest = found.filter((job) => !withVerdict.has(job));
    const answers = await this.#end(rest.map(toReport), now);
    answers.forEach((answer, i) => {
      const job = rest[i] as ExpiredJob;
      this.#answered(job, answer, now);
    });
  }

  async #end(reports: readonly Report[], now: number): Promise<SettleAnswer[]> {
    const answers = await settle(this.#parts, reports, { at: now });
    notifyObserver(this.#parts, (observer) => {
      const reaped = settledAttempts(reports, answers);
      if (reaped.length > 0) observer.reaped?.(reaped);
    });
    return answers;
  }

  #answered({ jobId }: ExpiredJob, answer: SettleAnswer, now: number): void {
    if (answer.status === "accepted") return;
    this.#skippedUntil.set(jobId, now + (answer.status === "refused" ? SKIP_MS : 1));
    if (answer.status === "refused") this.#parts.log("error", `the reaper cannot settle ${jobId}: ${answer.message}`);
  }

  /** The lost commands among them with a complete verdict. */
  async #withVerdict(found: readonly ExpiredJob[]): Promise<ReadonlySet<ExpiredJob>> {
    const lost = found.filter(({ why }) => why === "lost");
    const complete = new Set<ExpiredJob>();
    if (this.#parts.outputs === undefined || lost.length === 0) return complete;
    const facts = await this.#parts.store.facts(lost.map(({ jobId }) => jobId));
    const inTurn = limiter(READ_AT_ONCE);
    await Promise.all(
      lost.map(async (job, i) => {
        if (facts[i]?.kind !== exec.kind) return;
        if ((await inTurn(() => lostVerdict(this.#parts, job))) !== null) complete.add(job);
      }),
    );
    return complete;
  }

  /** Settles it by its verdict. After an error the next round tries again: it is still lost. */
  #settleByVerdict(job: ExpiredJob, now: number): void {
    const settling = this.#inTurn(async () => {
      // Read again: verdicts of attempts that wait their turn are not held in memory.
      const report = await lostReport(this.#parts, job, { isCommand: true, now });
      const [answer] = (await this.#end([report], now)) as [SettleAnswer];
      this.#answered(job, answer, now);
    })
      .catch((error: unknown) => {
        if (this.stopped || this.#parts.storeState.failed(error, "rounds")) return;
        this.#parts.log("error", `the reaper cannot settle ${job.jobId}: ${String(error)}`);
      })
      .finally(() => this.#byVerdict.delete(job.jobId));
    this.#byVerdict.set(job.jobId, settling);
  }

  /** How far the wall clock moved against the monotonic one since the last round. */
  #jump(now: number): number {
    const monotonic = this.#parts.clock.monotonic();
    const last = this.#last;
    this.#last = { now, monotonic };
    return last === null ? 0 : now - last.now - (monotonic - last.monotonic);
  }
}

function toReport({ jobId, attempt, why }: ExpiredJob): Report {
  const from = why === "lost" ? ({ kind: "reaper" } as const) : ({ kind: "expiry" } as const);
  return { jobId, attempt, from, outcome: { kind: why }, usage: null, log: null };
}
