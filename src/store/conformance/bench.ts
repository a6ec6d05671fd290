/** The store under test, with short forms of its verbs. Each test gets a new store; all opened stores are audited and
 *  closed after it. */
import type { Command } from "../../core/job/command.ts";
import type { ClaimedJob, NewSession, Report, ReportedOutcome, SettleAnswer } from "../../core/worker-protocol.ts";
import type {
  AmendAnswer,
  ClaimAnswer,
  ClaimRequest,
  ExpiredJob,
  InsertAnswer,
  JobRow,
  RenewRequest,
  Store,
} from "../store.ts";
import { audit } from "./audit.ts";
import {
  decideAt,
  decideCommandAt,
  done,
  type JobParts,
  LEASE,
  newJob,
  newSession,
  overdue,
  type ReportParts,
  reaped,
  reportOf,
  T0,
} from "./kit.ts";

export interface Made {
  readonly store: Store;
  /** Reopens the same data after `store` was closed. Missing if data ends with the store. */
  readonly reopen?: () => Promise<Store>;
  /** Another connection to the same data. */
  readonly second?: () => Promise<Store>;
  /** Deletes the row of a session directly. Missing if the data is not reachable from outside. */
  readonly dropSession?: (id: string) => Promise<void>;
  /** Counts the rows of policies directly. Missing if the data is not reachable from outside. */
  readonly policyCount?: () => Promise<number>;
  /** Called when all of them are closed. */
  readonly closed?: () => Promise<void>;
}
export type MakeStore = () => Promise<Made>;

export class Bench {
  readonly #make: MakeStore;
  #made: Made | null = null;
  #store: Store | null = null;
  readonly #others: Store[] = [];

  constructor(make: MakeStore) {
    this.#make = make;
  }

  async begin(): Promise<void> {
    this.#made = await this.#make();
    this.#store = this.#made.store;
  }

  async end(): Promise<void> {
    try {
      await audit(this.store);
    } finally {
      for (const store of [this.store, ...this.#others.splice(0)]) await store.close();
      await this.#made?.closed?.();
    }
  }

  get store(): Store {
    return this.#store as Store;
  }
  get canReopen(): boolean {
    return this.#made?.reopen !== undefined;
  }
  get hasSecond(): boolean {
    return this.#made?.second !== undefined;
  }

  get canDropSession(): boolean {
    return this.#made?.dropSession !== undefined;
  }
  async dropSession(id: string): Promise<void> {
    await this.#made?.dropSession?.(id);
  }

  /** Null if the data is not reachable from outside. */
  async policyCount(): Promise<number | null> {
    return (await this.#made?.policyCount?.()) ?? null;
  }

  async reopen(): Promise<void> {
    await this.store.close();
    this.#store = (await this.#made?.reopen?.()) as Store;
  }
  async second(): Promise<Store> {
    return this.also((await this.#made?.second?.()) as Store);
  }
  /** A separate, empty store. */
  async another(): Promise<Store> {
    return this.also((await this.#make()).store);
  }
  also(store: Store): Store {
    this.#others.push(store);
    return store;
  }

  // The verbs.

  /** Stores one job and returns its id. */
  async submit(parts: JobParts = {}): Promise<string> {
    const [answer] = await this.insert([parts], parts.at);
    if (answer?.status !== "inserted") throw new Error(`not inserted: ${JSON.stringify(answer)}`);
    return answer.id;
  }
  insert(jobs: readonly JobParts[], now = T0): Promise<InsertAnswer[]> {
    return this.store.insert(
      jobs.map((parts) => newJob({ at: now, ...parts })),
      now,
    );
  }

  async open(parts: Partial<NewSession> = {}, now = T0): Promise<string> {
    const session = newSession(parts);
    await this.store.sessions.open(session, now);
    return session.id;
  }
  async endSession(id: string, now: number, why: "stopped" | "gone" = "stopped"): Promise<void> {
    await this.store.sessions.close(id, now, why);
  }
  async claimAnswer(
    session: string,
    limit: number,
    now: number,
    claimId: string | null = null,
    parts: Pick<ClaimRequest, "room"> = {},
  ): Promise<ClaimAnswer> {
    const [answer] = await this.store.claim([{ session, limit, claimId, ...parts }], now);
    return answer as ClaimAnswer;
  }
  async claim(session: string, limit = 1, now = T0): Promise<ClaimedJob[]> {
    return (await this.claimAnswer(session, limit, now)).jobs;
  }
  /** Claims exactly one. */
  async take(session: string, now = T0): Promise<ClaimedJob> {
    const [job] = await this.claim(session, 1, now);
    if (job === undefined) throw new Error("nothing to claim");
    return job;
  }
  /** A job claimed by a session of its own. */
  async running(parts: JobParts = {}, now = parts.at ?? T0): Promise<{ job: ClaimedJob; session: string }> {
    const id = await this.submit(parts);
    const { namespace, kind, labels } = newJob(parts);
    const session = await this.open({ namespace, kinds: [kind], labels }, now);
    const job = await this.take(session, now);
    if (job.id !== id) throw new Error(`claimed ${job.id} instead of ${id}`);
    return { job, session };
  }

  async renew(session: string, held: RenewRequest["held"], now: number, parts: Partial<RenewRequest> = {}) {
    const [answer] = await this.store.renew([{ session, held, ...parts }], now);
    return answer as NonNullable<typeof answer>;
  }
  settle(reports: readonly Report[], now: number): Promise<SettleAnswer[]> {
    return this.store.settle(reports, now, decideAt(now));
  }
  async settleOne(report: Report, now: number): Promise<SettleAnswer> {
    return (await this.settle([report], now))[0] as SettleAnswer;
  }
  async report(
    job: ClaimedJob,
    outcome: ReportedOutcome = done(),
    now = T0,
    parts: ReportParts = {},
  ): Promise<SettleAnswer> {
    return this.settleOne(reportOf(job, outcome, parts), now);
  }
  async amend(id: string, command: Command, now = T0): Promise<AmendAnswer> {
    const [answer] = await this.store.amend([{ jobId: id, command }], now, decideCommandAt(now));
    return answer as AmendAnswer;
  }

  /** What an engine does each second except its beat: settles everything that expired. */
  async sweep(now: number): Promise<{ found: ExpiredJob[]; answers: SettleAnswer[] }> {
    const found = await this.store.expired({ now, limit: 1_000 });
    const reports = found.map((job) => (job.why === "lost" ? reaped(job) : overdue(job, job.why)));
    return { found, answers: await this.settle(reports, now) };
  }
  beat(now: number, clockJumpMs = 0, engine = "engine-1") {
    return this.store.beat({ time: () => ({ now }), maxGapMs: 3_000, holdMs: LEASE, clockJumpMs, engine });
  }
  /** Beats each second like a live engine, and sweeps. */
  async awake(from: number, to: number): Promise<void> {
    for (let now = from; now <= to; now += 1_000) {
      await this.beat(now);
      await this.sweep(now);
    }
  }

  async row(id: string): Promise<JobRow> {
    const [row] = await this.store.jobs([id]);
    if (!row) throw new Error(`no job ${id}`);
    return row;
  }
  async names(id: string): Promise<string[]> {
    return (await this.store.events.page({ after: 0, limit: 1_000, jobId: id })).events.map((event) => event.name);
  }
}
