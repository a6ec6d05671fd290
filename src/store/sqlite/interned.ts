/** Cache of lanes, policies, playbooks and sessions, which are stored once and referred to by small numbers. Numbers are never
 *  reused, so cached values stay valid; values that another process added are read on first use, and deleted ones
 *  (`../interned-names.ts`) are found missing when they are used again. */
import { PerdureError } from "../../core/errors.ts";
import { isRunQueue } from "../../core/names.ts";
import type { Policy } from "../../core/policy/policy.ts";
import { policyFromJson } from "../../core/policy/resolve-policy.ts";
import { isFresh, type KnownName, PolicyMemory } from "../interned-names.ts";
import { type Lane, labelText, laneName, type NewLane } from "../lane.ts";
import type { Database, SqlStatement } from "./driver.ts";

/** How many sessions are cached: each start of a worker makes one. */
const MAX_SESSIONS = 10_000;
/** How many policy hashes are cached. */
const MAX_HASHES = 10_000;

export class SqliteInterned {
  readonly #lanes = new Map<number, Lane>();
  readonly #laneNos = new Map<string, KnownName>();
  #lastLane = 0;
  #forgotten = 0;
  /** The number of sweeps that had deleted something when the cache was last checked. */
  #swept = 0;
  readonly #policies = new PolicyMemory();
  readonly #policyNos = new Map<string, KnownName>();
  readonly #playbookNos = new Map<string, KnownName>();
  readonly #sessionIds = new Map<number, string>();
  readonly #sql: Record<
    | ("lanesAfter" | "laneByName" | "laneCount" | "laneByNo" | "addLane" | "touchLane")
    | ("policyByHash" | "addPolicy" | "policyByNo" | "touchPolicy" | "sessionByNo" | "swept")
    | ("playbookByHash" | "touchPlaybook"),
    SqlStatement
  >;

  constructor(db: Database) {
    this.#sql = {
      lanesAfter: db.prepare("select no, namespace, queue, kind, labels from lane where no > ? order by no"),
      laneByName: db.prepare("select no from lane where namespace = ? and queue = ? and kind = ? and labels = ?"),
      laneCount: db.prepare("select count(*) as count from lane"),
      laneByNo: db.prepare("select 1 from lane where no = ?"),
      addLane: db.prepare(
        "insert into lane (namespace, queue, kind, labels, used_at, owner) values (?, ?, ?, ?, ?, ?)",
      ),
      touchLane: db.prepare("update lane set used_at = ? where no = ?"),
      policyByHash: db.prepare("select no from policy where hash = ?"),
      addPolicy: db.prepare("insert into policy (hash, body, used_at) values (?, ?, ?)"),
      policyByNo: db.prepare("select body from policy where no = ?"),
      touchPolicy: db.prepare("update policy set used_at = ? where no = ?"),
      playbookByHash: db.prepare("select no from playbook where hash = ?"),
      touchPlaybook: db.prepare("update playbook set used_at = max(used_at, ?) where no = ?"),
      swept: db.prepare("select value from meta where name = 'names_swept'"),
      sessionByNo: db.prepare("select id from session where no = ?"),
    };
  }

  /** All lanes, including those that other processes added since the last call. */
  lanes(): IterableIterator<Lane> {
    this.#readLanes();
    return this.#lanes.values();
  }

  /** Changes whenever the set of lanes may have changed. */
  get laneVersion(): number {
    this.#readLanes();
    return this.#forgotten * 1e9 + this.#lastLane;
  }

  lane(no: number): Lane {
    let lane = this.#lanes.get(no);
    if (lane === undefined) {
      this.#readLanes();
      lane = this.#lanes.get(no);
    }
    if (lane === undefined) throw missing("lane", no);
    return lane;
  }

  /** Call first in a write transaction that uses names: if any process deleted some since, each is looked up again
   *  before it is used. Timestamps cannot detect it: a process may have been stopped for hours between reading the time
   *  of a job and this call. */
  dropSwept(): void {
    const swept = (this.#sql.swept.get() as { value: number } | undefined)?.value ?? 0;
    if (swept === this.#swept) return;
    this.#swept = swept;
    this.#policyNos.clear();
    this.#playbookNos.clear();
    for (const known of this.#laneNos.values()) known.touchedAt = Number.NEGATIVE_INFINITY;
  }

  /** Within a write transaction. The caller drops what was added if the transaction is rolled back. */
  internLane(lane: NewLane & { readonly owner?: string | null }, now: number): number {
    const labels = labelText(lane.labels);
    const name = JSON.stringify([lane.namespace, lane.queue, lane.kind, labels]);
    const known = this.#laneNos.get(name);
    // The lane of a single run is deleted with its last job, whenever that is.
    if (known !== undefined && isFresh(known, now) && !isRunQueue(lane.queue)) return known.no;
    const { namespace, queue, kind } = lane;
    const stored = this.#sql.laneByName.get(namespace, queue, kind, labels) as { no: number } | undefined;
    if (stored === undefined) this.#sql.addLane.run(namespace, queue, kind, labels, now, lane.owner ?? null);
    else this.#sql.touchLane.run(now, stored.no);
    this.#readLanes();
    const current = this.#laneNos.get(name) as KnownName;
    current.touchedAt = now;
    return current.no;
  }

  /** Drops deleted lanes from the cache. Keeping one only costs memory. */
  dropLanes(): void {
    this.#readLanes();
    if ((this.#sql.laneCount.get() as { count: number }).count === this.#lanes.size) return;
    this.#forgotten += 1;
    for (const lane of this.#lanes.values()) {
      if (this.#sql.laneByNo.get(lane.no) !== undefined) continue;
      this.#lanes.delete(lane.no);
      const name = laneName(lane);
      if (this.#laneNos.get(name)?.no === lane.no) this.#laneNos.delete(name);
    }
  }

  policy(no: number): Policy {
    let policy = this.#policies.get(no);
    if (policy === undefined) {
      const row = this.#sql.policyByNo.get(no) as { body: string } | undefined;
      if (row === undefined) throw missing("policy", no);
      policy = policyFromJson(row.body);
      this.#policies.set(no, policy, row.body);
    }
    return policy;
  }

  /** Within a write transaction, as for lanes. */
  internPolicy(hash: string, policy: Policy, now: number): number {
    const known = this.#policyNos.get(hash);
    if (known !== undefined && isFresh(known, now)) return known.no;
    const row = this.#sql.policyByHash.get(hash) as { no: number } | undefined;
    if (row !== undefined) this.#sql.touchPolicy.run(now, row.no);
    const no = row?.no ?? Number(this.#sql.addPolicy.run(hash, JSON.stringify(policy), now).lastInsertRowid);
    if (this.#policyNos.size >= MAX_HASHES) this.#policyNos.clear();
    this.#policyNos.set(hash, { no, touchedAt: now });
    return no;
  }

  /** The number of a stored playbook, whose use is noted; null if it does not exist. Within a write transaction, as for lanes. */
  playbookNo(hash: string, now: number): number | null {
    const known = this.#playbookNos.get(hash);
    if (known !== undefined && isFresh(known, now)) return known.no;
    const row = this.#sql.playbookByHash.get(hash) as { no: number } | undefined;
    if (row === undefined) return null;
    this.#sql.touchPlaybook.run(now, row.no);
    if (this.#playbookNos.size >= MAX_HASHES) this.#playbookNos.clear();
    this.#playbookNos.set(hash, { no: row.no, touchedAt: now });
    return row.no;
  }

  sessionId(no: number): string {
    let id = this.#sessionIds.get(no);
    if (id === undefined) {
      id = (this.#sql.sessionByNo.get(no) as { id: string } | undefined)?.id ?? "ses_pruned";
      if (this.#sessionIds.size >= MAX_SESSIONS) this.#sessionIds.clear();
      this.#sessionIds.set(no, id);
    }
    return id;
  }

  /** After a rollback: numbers assigned in that transaction may mean something else, or nothing. */
  forget(): void {
    this.#forgotten += 1;
    this.#lanes.clear();
    this.#laneNos.clear();
    this.#lastLane = 0;
    this.#policies.clear();
    this.#policyNos.clear();
    this.#playbookNos.clear();
    this.#sessionIds.clear();
  }

  #readLanes(): void {
    for (const row of this.#sql.lanesAfter.all(this.#lastLane) as (NewLane & { no: number; labels: unknown })[]) {
      const text = row.labels as unknown as string;
      const lane = { ...row, labels: JSON.parse(text) as Record<string, string> };
      this.#lanes.set(row.no, lane);
      // Not used by this process yet.
      const known = { no: row.no, touchedAt: Number.NEGATIVE_INFINITY };
      this.#laneNos.set(JSON.stringify([row.namespace, row.queue, row.kind, text]), known);
      this.#lastLane = row.no;
    }
  }
}

function missing(what: string, no: number): PerdureError {
  return new PerdureError("store_io", `the database refers to ${what} ${no}, which does not exist; restore a backup`);
}
