/** Cache of lanes, policies and sessions, which are stored once and referred to by small numbers. Numbers are never
 *  reused, so cached values stay valid; values that another process added are read on first use, and deleted ones
 *  (`../interned-names.ts`) are found missing when they are used again. Lanes and policies are stored in their own
 *  transactions before the jobs that refer to them: an unused one does no harm. */
import { PerdureError } from "../../core/errors.ts";
import { isRunQueue } from "../../core/names.ts";
import type { Policy } from "../../core/policy/policy.ts";
import { policyFromJson } from "../../core/policy/resolve-policy.ts";
import { isFresh, type KnownName, PolicyMemory } from "../interned-names.ts";
import type { InternedValues } from "../job-row.ts";
import { type Lane, labelText, laneName, type NewLane } from "../lane.ts";
import { bigints, ints, texts } from "./arrays.ts";
import type { PgConnection, PgConnections } from "./connections.ts";
import type { MakeStatement, PgRow, PgStatement } from "./driver.ts";

const MAX_SESSIONS = 10_000;
/** How many policy hashes are cached. */
const MAX_HASHES = 10_000;

/** A lane, and whose quota it counts for if it is new. */
type OwnedLane = NewLane & { readonly owner?: string | null };
type NamedJob = OwnedLane & { readonly policyHash: string; readonly policy: Policy };

export class PostgresInterned {
  readonly #db: PgConnections;
  readonly #lanes = new Map<number, Lane>();
  readonly #laneNos = new Map<string, KnownName>();
  /** Deleted, but still cached: a row of a deleted job may still be in use. */
  #gone = new Set<number>();
  #lastLane = 0;
  #dropped = 0;
  /** Consecutive jobs often have the same lane, and building a lane's name is expensive. */
  #lastAsked: { readonly lane: NewLane; readonly known: KnownName } | null = null;
  readonly #policies = new PolicyMemory();
  readonly #policyNos = new Map<string, KnownName>();
  readonly #sessionIds = new Map<number, string>();
  readonly #sql: Record<
    | ("lanesAfter" | "lanesOfQueues" | "laneNumbers" | "lockLanes" | "addLanes" | "touchLanes")
    | ("addPolicies" | "policiesByNo" | "sessionsByNo"),
    PgStatement
  >;

  constructor(db: PgConnections, sql: MakeStatement) {
    this.#db = db;
    this.#sql = {
      lanesAfter: sql("lanes", "select no, namespace, queue, kind, labels from $s.lane where no > $1 order by no"),
      lanesOfQueues: sql(
        "lanes_queues",
        "select no, namespace, queue, kind, labels from $s.lane where queue = any ($1::text[]) and queue ~ '^run-'",
      ),
      laneNumbers: sql("lane_numbers", "select no from $s.lane where no <= $1"),
      // One at a time: numbers are committed in order, so that reading "after the last" misses none.
      lockLanes: sql("lock_lanes", "lock table $s.lane in share row exclusive mode"),
      addLanes: sql(
        "add_lanes",
        `insert into $s.lane (namespace, queue, kind, labels, owner, used_at)
         select *, $6::bigint from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[])
         on conflict (namespace, queue, kind, labels) do update set used_at = excluded.used_at`,
      ),
      // Locked in the order of their numbers, as everywhere.
      touchLanes: sql(
        "touch_lanes",
        `with mine as materialized (select no from $s.lane where no = any ($1::int[]) order by no for no key update)
         update $s.lane l set used_at = $2::bigint from mine where l.no = mine.no returning l.no`,
      ),
      addPolicies: sql(
        "add_policies",
        `insert into $s.policy (hash, body, used_at)
         select hash, body, at from unnest($1::text[], $2::text[], $3::bigint[]) as u (hash, body, at) order by hash
         on conflict (hash) do update set used_at = excluded.used_at returning no, hash`,
      ),
      policiesByNo: sql("policies_by_no", "select no, body from $s.policy where no = any ($1::int[])"),
      sessionsByNo: sql("sessions_by_no", "select no, id from $s.session where no = any ($1::int[])"),
    };
  }

  get lastLane(): number {
    return this.#lastLane;
  }
  /** Changes whenever the set of lanes may have changed. */
  get laneVersion(): number {
    return this.#dropped * 1e9 + this.#lastLane;
  }
  allLanes(): IterableIterator<Lane> {
    return this.#lanes.values();
  }
  lane(no: number): Lane {
    return this.#lanes.get(no) ?? missing("lane", no);
  }
  sessionId(no: number): string {
    return this.#sessionIds.get(no) ?? "ses_pruned";
  }
  /** Null if it is not cached. */
  laneNoOrNull(lane: NewLane): number | null {
    return this.#knownLane(lane)?.no ?? null;
  }
  laneNo(lane: NewLane): number {
    return (this.#knownLane(lane) as KnownName).no;
  }
  #knownLane(lane: NewLane): KnownName | undefined {
    const last = this.#lastAsked;
    if (last !== null && isSameLane(last.lane, lane)) return last.known;
    const known = this.#laneNos.get(laneName(lane));
    if (known !== undefined && !isRunQueue(lane.queue)) this.#lastAsked = { lane, known };
    return known;
  }
  knowSession(no: number, id: string): void {
    if (this.#sessionIds.size >= MAX_SESSIONS) this.#sessionIds.clear();
    this.#sessionIds.set(no, id);
  }

  /** Reads the lanes that were added since. */
  async readLanes(): Promise<void> {
    for (const row of await this.#db.read(this.#sql.lanesAfter, [this.#lastLane])) this.#learnLane(row);
  }

  /** Stores new lanes and policies of new jobs, and notes that the others are in use. Returns the numbers of the
   *  policies by hash: the cache of them may be evicted meanwhile. */
  async store(jobs: readonly NamedJob[], now: number): Promise<ReadonlyMap<string, number>> {
    const lanes: OwnedLane[] = [];
    const numbers = new Map<string, number>();
    const policies = new Map<string, Policy>();
    let last: NewLane | null = null;
    for (const job of jobs) {
      if (!numbers.has(job.policyHash)) {
        const policy = this.#policyNos.get(job.policyHash);
        if (policy !== undefined && isFresh(policy, now)) numbers.set(job.policyHash, policy.no);
        else policies.set(job.policyHash, job.policy);
      }
      if (isRunQueue(job.queue)) continue; // stored by run-lanes.ts
      if (last !== null && isSameLane(last, job)) continue;
      last = job;
      const known = this.#knownLane(job);
      if (known === undefined || !isFresh(known, now)) lanes.push(job);
    }
    if (lanes.length > 0) await this.#storeLanes(lanes, now);
    if (policies.size > 0) for (const [hash, no] of await this.#storePolicies(policies, now)) numbers.set(hash, no);
    return numbers;
  }

  async #storeLanes(lanes: readonly OwnedLane[], now: number): Promise<void> {
    if (lanes.some((lane) => this.#knownLane(lane) === undefined)) await this.readLanes();
    const fresh = new Map<string, OwnedLane>();
    const stale = new Map<number, OwnedLane>();
    for (const lane of lanes) {
      const known = this.#laneNos.get(laneName(lane));
      if (known === undefined) fresh.set(laneName(lane), lane);
      else stale.set(known.no, lane);
    }
    if (stale.size > 0) for (const lane of await this.#touchLanes(stale, now)) fresh.set(laneName(lane), lane);
    if (fresh.size > 0) await this.#addLanes([...fresh.values()], now);
  }

  /** Notes that these are in use; returns those that were deleted. */
  async #touchLanes(lanes: ReadonlyMap<number, OwnedLane>, now: number): Promise<OwnedLane[]> {
    const rows = await this.#db.write(this.#sql.touchLanes, [ints([...lanes.keys()]), now], { repeat: true });
    const left = new Set(rows.map(([no]) => no as number));
    const gone: OwnedLane[] = [];
    for (const [no, lane] of lanes) {
      const known = this.#laneNos.get(laneName(lane));
      if (left.has(no) && known?.no === no) known.touchedAt = now;
      else gone.push(lane);
    }
    return gone;
  }

  /** Stores missing lanes of single runs. Their cache entries are read again: they may have been deleted, and may be
   *  again before they are locked. */
  async storeRunLanes(lanes: readonly OwnedLane[], now: number): Promise<void> {
    const queues = texts([...new Set(lanes.map(({ queue }) => queue))]);
    const names = new Map(lanes.map((lane) => [laneName(lane), lane]));
    const before = new Map([...names.keys()].map((name) => [name, this.#laneNos.get(name)?.no]));
    const rows = await this.#db.read(this.#sql.lanesOfQueues, [queues]);
    // Other calls may use or re-create lanes meanwhile: only lanes known before this call and deleted are dropped.
    const found = new Set(rows.map(([no]) => no as number));
    for (const [name, no] of before) {
      if (no !== undefined && !found.has(no) && this.#laneNos.get(name)?.no === no) this.#laneNos.delete(name);
    }
    for (const row of rows) this.#learnLane(row, false); // lanes with lower numbers may not be cached yet
    const fresh = [...names].filter(([name]) => !this.#laneNos.has(name)).map(([, lane]) => lane);
    if (fresh.length > 0) await this.#addLanes(fresh, now);
  }

  /** Drops deleted lanes from the cache. Keeping one only costs memory. */
  async dropLanes(): Promise<void> {
    const last = this.#lastLane;
    const left = new Set((await this.#db.read(this.#sql.laneNumbers, [last])).map(([no]) => no as number));
    const gone = [...this.#lanes.values()].filter(({ no }) => no <= last && !left.has(no));
    const before = this.#gone;
    this.#gone = new Set(gone.map(({ no }) => no));
    if (gone.length === 0) return;
    this.#dropped += 1;
    this.#lastAsked = null;
    for (const lane of gone) {
      if (this.#laneNos.get(laneName(lane))?.no === lane.no) this.#laneNos.delete(laneName(lane));
      if (before.has(lane.no)) this.#lanes.delete(lane.no);
    }
  }

  async #addLanes(lanes: readonly OwnedLane[], now: number): Promise<void> {
    const column = (pick: (lane: OwnedLane) => string | null) => texts(lanes.map(pick));
    const labels = column((lane) => labelText(lane.labels));
    const names = [column((lane) => lane.namespace), column((lane) => lane.queue), column((lane) => lane.kind), labels];
    await this.#db.transaction(
      async (connection) => {
        await connection.ask(this.#sql.lockLanes);
        await connection.ask(this.#sql.addLanes, [...names, column((lane) => lane.owner ?? null), now]);
      },
      { repeat: true },
    );
    this.#lastAsked = null;
    await this.readLanes();
    for (const lane of lanes) {
      const known = this.#laneNos.get(laneName(lane));
      if (known !== undefined) known.touchedAt = now;
    }
  }

  async #storePolicies(policies: ReadonlyMap<string, Policy>, now: number): Promise<Map<string, number>> {
    const values = policyValues(policies, now);
    const rows = await this.#db.write(this.#sql.addPolicies, values, { repeat: true });
    if (this.#policyNos.size + rows.length > MAX_HASHES) this.#policyNos.clear();
    for (const [no, hash] of rows) this.#policyNos.set(hash as string, { no: no as number, touchedAt: now });
    return new Map(rows.map(([no, hash]) => [hash as string, no as number]));
  }

  /** The number of a policy, stored within a transaction if it is new. Not cached: it may be rolled back. */
  async policyWithin(ask: PgConnection["ask"], hash: string, policy: Policy, now: number): Promise<number> {
    const known = this.#policyNos.get(hash);
    if (known !== undefined && isFresh(known, now)) return known.no;
    const [[no] = []] = await ask(this.#sql.addPolicies, policyValues(new Map([[hash, policy]]), now));
    return no as number;
  }

  /** Loads the lanes, policies and sessions that these rows refer to. Within a transaction over its own connection: the
   *  holder of a connection must not wait for another. Policies are returned, because the cache may evict them. */
  async learn(
    lanes: Iterable<number>,
    policies: Iterable<number>,
    sessions: Iterable<number | null>,
    ask: PgConnection["ask"] = (statement, values) => this.#db.read(statement, values),
  ): Promise<InternedValues> {
    for (const lane of lanes) {
      if (this.#lanes.has(lane)) continue;
      for (const row of await ask(this.#sql.lanesAfter, [this.#lastLane])) this.#learnLane(row);
      break;
    }
    const found = new Map<number, Policy>();
    const unknown = new Set<number>();
    for (const no of policies) {
      if (found.has(no)) continue;
      const policy = this.#policies.get(no);
      if (policy === undefined) unknown.add(no);
      else found.set(no, policy);
    }
    if (unknown.size > 0) {
      for (const [no, body] of await ask(this.#sql.policiesByNo, [ints([...unknown])])) {
        const policy = policyFromJson(body as string);
        this.#policies.set(no as number, policy, body as string);
        found.set(no as number, policy);
      }
    }
    const unmet = new Set([...sessions].filter((no): no is number => no !== null && !this.#sessionIds.has(no)));
    if (unmet.size > 0) {
      for (const [no, id] of await ask(this.#sql.sessionsByNo, [ints([...unmet])])) {
        this.knowSession(no as number, id as string);
      }
    }
    return {
      lane: (no) => this.lane(no),
      policy: (no) => found.get(no) ?? missing("policy", no),
      sessionId: (no) => this.sessionId(no),
    };
  }

  #learnLane([no, namespace, queue, kind, text]: PgRow, isNext = true): void {
    const labels = JSON.parse(text as string) as Record<string, string>;
    const lane = { no, namespace, queue, kind, labels } as Lane;
    this.#lanes.set(lane.no, lane);
    // A lane that was deleted and stored again has a higher number; a late answer may have the old one. This process
    // has not used it yet.
    const known = this.#laneNos.get(laneName(lane));
    if (known === undefined || known.no < lane.no) {
      this.#laneNos.set(laneName(lane), { no: lane.no, touchedAt: Number.NEGATIVE_INFINITY });
    }
    if (isNext) this.#lastLane = Math.max(this.#lastLane, lane.no);
  }
}

function policyValues(policies: ReadonlyMap<string, Policy>, now: number) {
  const bodies = [...policies.values()].map((policy) => JSON.stringify(policy));
  return [texts([...policies.keys()]), texts(bodies), bigints(bodies.map(() => now))];
}

function isSameLane(a: NewLane, b: NewLane): boolean {
  return a.kind === b.kind && a.queue === b.queue && a.namespace === b.namespace && a.labels === b.labels;
}

function missing(what: string, no: number): never {
  throw new PerdureError("store_io", `the database refers to ${what} ${no}, which does not exist; restore a backup`);
}
