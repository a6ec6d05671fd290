/** Lanes, policies and sessions are stored once and named by small numbers. This is the cache of what the numbers
 *  mean. Rows are never changed after they are written, and numbers never used again, so what is cached stays true; what another
 *  process added is read when it is first met. Only lanes of single runs are ever deleted. Lanes and policies are stored in transactions of their own, before the jobs that name
 *  them: one that no job names after all does no harm. */
import { PerdureError } from "../../core/errors.ts";
import type { Policy } from "../../core/policy.ts";
import { policyFromJson } from "../../core/resolve-policy.ts";
import { isRunQueue } from "../../core/run-queue.ts";
import { type Lane, labelText, laneName, type NewLane } from "../lane.ts";
import { ints, texts } from "./arrays.ts";
import type { Connection, Connections } from "./connections.ts";
import type { Context } from "./context.ts";
import type { Row, Statement } from "./driver.ts";

const MAX_SESSIONS = 10_000;
const MANY_RUNS = 100;

export class Interned {
  readonly #db: Connections;
  readonly #lanes = new Map<number, Lane>();
  readonly #laneNos = new Map<string, number>();
  #lastLane = 0;
  #dropped = 0;
  /** Jobs come in runs of the same lane, and the name of one is dear. */
  #lastAsked: { readonly lane: NewLane; readonly no: number } | null = null;
  readonly #policies = new Map<number, Policy>();
  readonly #policyNos = new Map<string, number>();
  readonly #sessionIds = new Map<number, string>();
  readonly #sql: Record<
    | "lanesAfter"
    | "lanesOfQueues"
    | "lanesLeft"
    | "lockLanes"
    | "addLanes"
    | "addPolicies"
    | "policiesByHash"
    | "policiesByNo"
    | "sessionsByNo",
    Statement
  >;

  constructor(db: Connections, sql: Context["sql"]) {
    this.#db = db;
    this.#sql = {
      lanesAfter: sql("lanes", "select no, namespace, queue, kind, labels from $s.lane where no > $1 order by no"),
      lanesOfQueues: sql(
        "lanes_queues",
        "select no, namespace, queue, kind, labels from $s.lane where queue = any ($1::text[]) and queue ~ '^run-'",
      ),
      lanesLeft: sql("lanes_left", "select no from $s.lane where no = any ($1::int[])"),
      // One at a time: numbers are committed in their order, so that "after the last" misses none.
      lockLanes: sql("lock_lanes", "lock table $s.lane in share row exclusive mode"),
      addLanes: sql(
        "add_lanes",
        `insert into $s.lane (namespace, queue, kind, labels)
         select * from unnest($1::text[], $2::text[], $3::text[], $4::text[]) on conflict do nothing`,
      ),
      addPolicies: sql(
        "add_policies",
        `insert into $s.policy (hash, body) select * from unnest($1::text[], $2::text[]) as u (hash, body)
         order by hash on conflict do nothing`,
      ),
      policiesByHash: sql("policies_by_hash", "select no, hash from $s.policy where hash = any ($1::text[])"),
      policiesByNo: sql("policies_by_no", "select no, body from $s.policy where no = any ($1::int[])"),
      sessionsByNo: sql("sessions_by_no", "select no, id from $s.session where no = any ($1::int[])"),
    };
  }

  get lastLane(): number {
    return this.#lastLane;
  }
  /** Changes whenever the set of lanes may have. */
  get laneVersion(): number {
    return this.#dropped * 1e9 + this.#lastLane;
  }
  allLanes(): IterableIterator<Lane> {
    return this.#lanes.values();
  }
  lane(no: number): Lane {
    return this.#lanes.get(no) ?? missing("lane", no);
  }
  policy(no: number): Policy {
    return this.#policies.get(no) ?? missing("policy", no);
  }
  sessionId(no: number): string {
    return this.#sessionIds.get(no) ?? "ses_pruned";
  }
  laneNo(lane: NewLane): number {
    const last = this.#lastAsked;
    if (last !== null && isSameLane(last.lane, lane)) return last.no;
    const no = this.#laneNos.get(laneName(lane)) as number;
    if (no !== undefined && !isRunQueue(lane.queue)) this.#lastAsked = { lane, no };
    return no;
  }
  policyNo(hash: string): number {
    return this.#policyNos.get(hash) as number;
  }
  knowSession(no: number, id: string): void {
    if (this.#sessionIds.size >= MAX_SESSIONS) this.#sessionIds.clear();
    this.#sessionIds.set(no, id);
  }

  /** Reads the lanes that were added since. */
  async readLanes(): Promise<void> {
    for (const row of await this.#db.read(this.#sql.lanesAfter, [this.#lastLane])) this.#learnLane(row);
  }

  /** Stores the lanes and policies of new jobs where they are new too. */
  async store(jobs: readonly (NewLane & { readonly policyHash: string; readonly policy: Policy })[]): Promise<void> {
    const lanes = new Map<string, NewLane>();
    const policies = new Map<string, Policy>();
    let last: NewLane | null = null;
    for (const job of jobs) {
      if (!this.#policyNos.has(job.policyHash)) policies.set(job.policyHash, job.policy);
      if (isRunQueue(job.queue)) continue; // run-lanes.ts sees to it
      if (last !== null && isSameLane(last, job)) continue;
      last = job;
      if (this.#lastAsked !== null && isSameLane(this.#lastAsked.lane, job)) continue;
      const name = laneName(job);
      if (!this.#laneNos.has(name)) lanes.set(name, job);
    }
    if (lanes.size > 0) await this.#storeLanes([...lanes.values()]);
    if (policies.size > 0) await this.#storePolicies(policies);
  }

  async #storeLanes(lanes: readonly NewLane[]): Promise<void> {
    await this.readLanes();
    const fresh = lanes.filter((lane) => !this.#laneNos.has(laneName(lane)));
    if (fresh.length > 0) await this.#addLanes(fresh);
  }

  /** Stores lanes of single runs that are not there. Whatever is cached of them is read anew: they may have been deleted, and
   *  may be again before they are held. */
  async storeRunLanes(lanes: readonly NewLane[]): Promise<void> {
    const queues = texts([...new Set(lanes.map(({ queue }) => queue))]);
    for (const lane of lanes) this.#laneNos.delete(laneName(lane));
    for (const row of await this.#db.read(this.#sql.lanesOfQueues, [queues])) {
      this.#learnLane(row, false); // others before it may be unknown yet
    }
    const names = new Map(lanes.map((lane) => [laneName(lane), lane]));
    const fresh = [...names].filter(([name]) => !this.#laneNos.has(name)).map(([, lane]) => lane);
    if (fresh.length > 0) await this.#addLanes(fresh);
  }

  /** Forgets lanes of single runs that were deleted, by whomever. Their numbers are never used again, so that to keep one does
   *  no harm: they are looked for when there are many. */
  async dropLanes(): Promise<void> {
    const runs = [...this.#lanes.values()].filter(({ queue }) => isRunQueue(queue));
    if (runs.length < MANY_RUNS) return;
    const asked = ints(runs.map(({ no }) => no));
    const left = new Set((await this.#db.read(this.#sql.lanesLeft, [asked])).map(([no]) => no));
    this.#dropped += 1;
    for (const lane of runs.filter(({ no }) => !left.has(no))) {
      this.#lanes.delete(lane.no);
      if (this.#laneNos.get(laneName(lane)) === lane.no) this.#laneNos.delete(laneName(lane));
    }
  }

  async #addLanes(fresh: readonly NewLane[]): Promise<void> {
    const column = (pick: (lane: NewLane) => string) => texts(fresh.map(pick));
    const labels = column((lane) => labelText(lane.labels));
    const names = [column((lane) => lane.namespace), column((lane) => lane.queue), column((lane) => lane.kind), labels];
    await this.#db.transaction(
      async (connection) => {
        await connection.ask(this.#sql.lockLanes);
        await connection.ask(this.#sql.addLanes, names);
      },
      { repeat: true },
    );
    await this.readLanes();
  }

  async #storePolicies(policies: ReadonlyMap<string, Policy>): Promise<void> {
    const hashes = texts([...policies.keys()]);
    const bodies = texts([...policies.values()].map((policy) => JSON.stringify(policy)));
    await this.#db.write(this.#sql.addPolicies, [hashes, bodies], { repeat: true });
    for (const [no, hash] of await this.#db.read(this.#sql.policiesByHash, [hashes])) {
      this.#policyNos.set(hash as string, no as number);
    }
  }

  /** The number of a policy, stored within a transaction where it is new. Not cached: it may be rolled back. */
  async policyWithin(ask: Connection["ask"], hash: string, policy: Policy): Promise<number> {
    const known = this.#policyNos.get(hash);
    if (known !== undefined) return known;
    await ask(this.#sql.addPolicies, [texts([hash]), texts([JSON.stringify(policy)])]);
    const [[no] = []] = await ask(this.#sql.policiesByHash, [texts([hash])]);
    return no as number;
  }

  /** Makes sure that what these rows name can be told. Within a transaction over its own connection: one that holds a
   *  connection must not wait for another. */
  async learn(
    lanes: Iterable<number>,
    policies: Iterable<number>,
    sessions: Iterable<number | null>,
    ask: Connection["ask"] = (statement, values) => this.#db.read(statement, values),
  ): Promise<void> {
    for (const lane of lanes) {
      if (this.#lanes.has(lane)) continue;
      for (const row of await ask(this.#sql.lanesAfter, [this.#lastLane])) this.#learnLane(row);
      break;
    }
    const unknown = new Set([...policies].filter((no) => !this.#policies.has(no)));
    if (unknown.size > 0) {
      for (const [no, body] of await ask(this.#sql.policiesByNo, [ints([...unknown])])) {
        this.#policies.set(no as number, policyFromJson(body as string));
      }
    }
    const unmet = new Set([...sessions].filter((no): no is number => no !== null && !this.#sessionIds.has(no)));
    if (unmet.size > 0) {
      for (const [no, id] of await ask(this.#sql.sessionsByNo, [ints([...unmet])])) {
        this.knowSession(no as number, id as string);
      }
    }
  }

  #learnLane([no, namespace, queue, kind, text]: Row, isNext = true): void {
    const labels = JSON.parse(text as string) as Record<string, string>;
    const lane = { no, namespace, queue, kind, labels } as Lane;
    this.#lanes.set(lane.no, lane);
    this.#laneNos.set(laneName(lane), lane.no);
    if (isNext) this.#lastLane = Math.max(this.#lastLane, lane.no);
  }
}

function isSameLane(a: NewLane, b: NewLane): boolean {
  return a.kind === b.kind && a.queue === b.queue && a.namespace === b.namespace && a.labels === b.labels;
}

function missing(what: string, no: number): never {
  throw new PerdureError("store_io", `the database names ${what} ${no}, which is not there: restore a backup`);
}
