/** Lanes, policies and sessions are stored once and named by small numbers. This is the cache of what the numbers
 *  mean. Rows are never changed after they are written, and numbers never used again, so what is cached stays true; what another
 *  process added is read when it is first met. Only lanes of single runs are ever deleted. */
import { PerdureError } from "../../core/errors.ts";
import type { Policy } from "../../core/policy.ts";
import { policyFromJson } from "../../core/resolve-policy.ts";
import { isRunQueue } from "../../core/run-queue.ts";
import { type Lane, labelText, laneName, type NewLane } from "../lane.ts";
import type { Database, Statement } from "./driver.ts";

/** More sessions than this are not kept in memory: each start of a worker makes one. */
const MAX_SESSIONS = 10_000;
const MANY_RUNS = 100;

export class Interned {
  readonly #lanes = new Map<number, Lane>();
  readonly #laneNos = new Map<string, number>();
  #lastLane = 0;
  #forgotten = 0;
  readonly #policies = new Map<number, Policy>();
  readonly #policyNos = new Map<string, number>();
  readonly #sessionIds = new Map<number, string>();
  readonly #sql: Record<
    "lanesAfter" | "laneByName" | "laneByNo" | "addLane" | "policyByHash" | "addPolicy" | "policyByNo" | "sessionByNo",
    Statement
  >;

  constructor(db: Database) {
    this.#sql = {
      lanesAfter: db.prepare("select no, namespace, queue, kind, labels from lane where no > ? order by no"),
      laneByName: db.prepare("select no from lane where namespace = ? and queue = ? and kind = ? and labels = ?"),
      laneByNo: db.prepare("select 1 from lane where no = ?"),
      addLane: db.prepare("insert into lane (namespace, queue, kind, labels) values (?, ?, ?, ?)"),
      policyByHash: db.prepare("select no from policy where hash = ?"),
      addPolicy: db.prepare("insert into policy (hash, body) values (?, ?)"),
      policyByNo: db.prepare("select body from policy where no = ?"),
      sessionByNo: db.prepare("select id from session where no = ?"),
    };
  }

  /** All lanes, those that other processes added since the last call included. */
  lanes(): IterableIterator<Lane> {
    this.#readLanes();
    return this.#lanes.values();
  }

  /** Changes whenever the set of lanes may have. */
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

  /** Within a write transaction. The caller forgets what was added if that transaction is rolled back. */
  internLane(lane: NewLane): number {
    const labels = labelText(lane.labels);
    const name = JSON.stringify([lane.namespace, lane.queue, lane.kind, labels]);
    // The lane of a single run may have been deleted since we met it.
    const known = isRunQueue(lane.queue) ? this.#stored(lane, labels) : this.#laneNos.get(name);
    if (known !== undefined) return known;
    this.#readLanes();
    if (isRunQueue(lane.queue) || !this.#laneNos.has(name)) {
      this.#sql.addLane.run(lane.namespace, lane.queue, lane.kind, labels);
      this.#readLanes();
    }
    return this.#laneNos.get(name) as number;
  }

  #stored({ namespace, queue, kind }: NewLane, labels: string): number | undefined {
    return (this.#sql.laneByName.get(namespace, queue, kind, labels) as { no: number } | undefined)?.no;
  }

  /** Lanes of single runs that were deleted, by whomever. Their numbers are never used again, so that to keep one does no harm:
   *  they are looked for when there are many. */
  dropLanes(): void {
    const runs = [...this.#lanes.values()].filter(({ queue }) => isRunQueue(queue));
    if (runs.length < MANY_RUNS) return;
    this.#forgotten += 1;
    for (const lane of runs) {
      if (this.#sql.laneByNo.get(lane.no) !== undefined) continue;
      this.#lanes.delete(lane.no);
      const name = laneName(lane);
      if (this.#laneNos.get(name) === lane.no) this.#laneNos.delete(name);
    }
  }

  policy(no: number): Policy {
    let policy = this.#policies.get(no);
    if (policy === undefined) {
      const row = this.#sql.policyByNo.get(no) as { body: string } | undefined;
      if (row === undefined) throw missing("policy", no);
      policy = policyFromJson(row.body);
      this.#policies.set(no, policy);
    }
    return policy;
  }

  internPolicy(hash: string, policy: Policy): number {
    const known = this.#policyNos.get(hash);
    if (known !== undefined) return known;
    const row = this.#sql.policyByHash.get(hash) as { no: number } | undefined;
    const no = row?.no ?? Number(this.#sql.addPolicy.run(hash, JSON.stringify(policy)).lastInsertRowid);
    this.#policyNos.set(hash, no);
    return no;
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

  /** After a rollback: numbers given out in that transaction may mean something else, or nothing. */
  forget(): void {
    this.#forgotten += 1;
    this.#lanes.clear();
    this.#laneNos.clear();
    this.#lastLane = 0;
    this.#policies.clear();
    this.#policyNos.clear();
    this.#sessionIds.clear();
  }

  #readLanes(): void {
    for (const row of this.#sql.lanesAfter.all(this.#lastLane) as (NewLane & { no: number; labels: unknown })[]) {
      const text = row.labels as unknown as string;
      const lane = { ...row, labels: JSON.parse(text) as Record<string, string> };
      this.#lanes.set(row.no, lane);
      this.#laneNos.set(JSON.stringify([row.namespace, row.queue, row.kind, text]), row.no);
      this.#lastLane = row.no;
    }
  }
}

function missing(what: string, no: number): PerdureError {
  return new PerdureError("store_io", `the database names ${what} ${no}, which is not there: restore a backup`);
}
