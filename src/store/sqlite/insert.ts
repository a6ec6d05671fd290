/** Stores new jobs, with the rows of those that are runs. Keys are checked first, then parents: the write lock is held, so
 *  nothing changes in between. */
import { hasBudget } from "../../core/decision/budget.ts";
import { submittedText } from "../../core/job/lifecycle.ts";
import type { NewRun } from "../../core/run/run.ts";
import type { RefusedItem } from "../../core/worker-protocol.ts";
import { newLedger } from "../ledger.ts";
import {
  isFree,
  type KeyOwner,
  keyAnswer,
  type ParentFacts,
  type ParentRow,
  parentFacts,
  refusedChild,
  unknownPlaybook,
} from "../plan/insert.ts";
import type { InsertAnswer, NewJob } from "../store.ts";
import { checkAt, STATE_CODES } from "../stored-job.ts";
import type { SqliteContext } from "./context.ts";
import { BulkInsert, type SqlValue } from "./driver.ts";
import { refusal, type SqliteVerb } from "./writer.ts";

interface SqliteInsertItem {
  readonly job: NewJob;
  readonly now: number;
}

interface InsertParentRow extends ParentRow {
  readonly no: number;
  readonly lane: number;
}

/** A job under which others are stored. */
interface InsertParent {
  readonly no: number;
  readonly facts: ParentFacts;
}

/** The run that makes a job of a step: it may make some when its cancel was requested. */
export interface StepPlace {
  /** The number of the run's job, and of its nearest ledger. */
  readonly run: number;
  readonly budget: number | null;
  /** The row of the step. */
  readonly n: number;
}

/** Collects the rows of new jobs; `flush` inserts them. */
export function jobWriter({ db, interned, events }: SqliteContext) {
  const columns = [
    ...["no", "id", "lane", "policy", "priority", "state", "run_at", "revision", "chapter", "attempt"],
    ...["submitted_at", "expires_at", "check_at", "deadline_at", "expire_in", "timeout_ms", "key", "tags"],
  ];
  const jobs = new BulkInsert(db, "job", columns);
  const payloads = new BulkInsert(db, "payload", ["job", "body"]);
  // Most jobs have no parent, name, budget or annotations: values that are always null are not bound for each of them.
  const wholes = new BulkInsert(db, "job", [...columns, "parent", "depth", "name", "action", "budget", "run", "step"]);
  const ledgers = new BulkInsert(db, "budget", ["job", "above", "body"]);
  const annotated = new BulkInsert(db, "payload", ["job", "body", "annotations"]);
  const parentById = db.prepare("select no, lane, state, attempt, cancel_requested_at, budget from job where id = ?");
  const tags = new BulkInsert(db, "tag", ["tag", "job"]);
  const lastNo = db.prepare("select seq from sqlite_sequence where name = 'job'");
  // The state of the job if it still exists, or of the stub if it was pruned.
  const byKey = db.prepare(
    `select k.id, k.body_hash as bodyHash, k.until, coalesce(j.state, k.state) as state,
       coalesce(j.chapter, k.chapter) as chapter
     from submit_key k left join job j on j.id = k.id where k.namespace = ? and k.key = ?`,
  );
  const dropKey = db.prepare("delete from submit_key where namespace = ? and key = ?");
  const addKey = db.prepare("insert into submit_key (namespace, key, id, body_hash) values (?, ?, ?, ?)");
  const addRun = runWriter({ db, interned, events });

  let no = 0;
  let plain: SqlValue[] = [];
  let whole: SqlValue[] = [];
  let bodies: SqlValue[] = [];
  let notedBodies: SqlValue[] = [];
  let tagRows: SqlValue[] = [];
  let budgets: SqlValue[] = [];
  let parents = new Map<string, InsertParent | null>();

  function findKey(job: NewJob, now: number): InsertAnswer | null {
    const owner = byKey.get(job.namespace, job.key) as KeyOwner | undefined;
    if (owner === undefined) return null;
    if (!isFree(owner, now)) return keyAnswer(job, owner);
    dropKey.run(job.namespace, job.key);
    return null;
  }

  /** Nothing changes a parent while a list is stored. */
  function findParent(id: string): InsertParent | null {
    const known = parents.get(id);
    if (known !== undefined) return known;
    const row = parentById.get(id) as InsertParentRow | undefined;
    const found = row === undefined ? null : { no: row.no, facts: parentFacts(row, interned.lane(row.lane).namespace) };
    parents.set(id, found);
    return found;
  }

  /** Before the first job of a list: drops what is left of a list that was rolled back. */
  function begin(): void {
    [plain, whole, bodies, notedBodies, tagRows, budgets] = [[], [], [], [], [], []];
    parents = new Map();
    interned.dropSwept();
    no = (lastNo.get() as { seq: number } | undefined)?.seq ?? 0;
  }

  /** `step`: of a job that an advance makes. */
  function add(job: NewJob, now: number, step: StepPlace | null): InsertAnswer {
    if (job.key !== null) {
      const found = findKey(job, now);
      if (found !== null) return found;
    }
    const parent = job.parent === null || step !== null ? null : findParent(job.parent.id);
    if (step === null) {
      const refused = refusedChild(job, parent?.facts ?? null);
      if (refused !== null) return refused;
    }
    if (job.run !== undefined) {
      const refused = addRun.check(job.run, now);
      if (refused !== null) return refused;
    }
    if (job.key !== null) addKey.run(job.namespace, job.key, job.id, job.bodyHash);
    no += 1;
    const { event, next } = job.transition;
    const lane = interned.internLane(job, now);
    const policy = interned.internPolicy(job.policyHash, job.policy, now);
    const tagText = job.tags.length === 0 ? null : JSON.stringify(job.tags);
    const above = step === null ? (parent?.facts.budget ?? null) : step.budget;
    const isOwn = hasBudget(job.policy);
    if (isOwn) budgets.push(no, above, newLedger(job.id, job.policy));
    const isPlain = job.parent === null && job.name === null && job.action === null && !isOwn;
    const rows = isPlain ? plain : whole;
    rows.push(no, job.id, lane, policy, job.priority, STATE_CODES[next.state], next.runAt, next.revision);
    rows.push(next.chapter, next.attempt, now, next.expiresAt, checkAt(next.expiresAt, job.deadlineAt));
    rows.push(job.deadlineAt, job.expireInMs, job.timeoutMs, job.key, tagText);
    if (!isPlain) {
      const run = step?.run ?? (job.runId === undefined ? null : (parent?.no ?? null));
      rows.push(job.parent?.id ?? null, job.depth, job.name, job.action, isOwn ? no : above, run, step?.n ?? null);
    }
    if (job.annotations === null) bodies.push(no, job.payload);
    else notedBodies.push(no, job.payload, job.annotations);
    for (const tag of job.tags) tagRows.push(tag, no);
    if (job.run !== undefined) addRun.add(no, job.run, now);
    events.add(no, next.revision, now, event.name, submittedText(event.data));
    return { status: "inserted", id: job.id };
  }

  /** The events are flushed by the verb. */
  function flush(): void {
    jobs.run(plain);
    wholes.run(whole);
    ledgers.run(budgets);
    payloads.run(bodies);
    annotated.run(notedBodies);
    tags.run(tagRows);
  }

  return { begin, add, flush };
}

export function insertVerb(context: SqliteContext): SqliteVerb<SqliteInsertItem, InsertAnswer> {
  const writer = jobWriter(context);

  function run(items: readonly SqliteInsertItem[]): InsertAnswer[] {
    writer.begin();
    const answers = items.map(({ job, now }) => writer.add(job, now, null));
    writer.flush();
    context.events.flush();
    return answers;
  }

  return { order: 2, run, refuse: (_item, error) => refusal(error) };
}

/** The row of a new run, and what it has to react to first. */
function runWriter({ db, interned, events }: Pick<SqliteContext, "db" | "interned" | "events">) {
  const addRow = db.prepare(
    `insert into run (job, playbook, phase, open, made, state, deadline_at, origin) values (?, ?, ?, ?, ?, ?, ?, ?)`,
  );
  const addData = db.prepare("insert into run_data (run, pins, data) values (?, ?, ?)");

  return {
    /** Null: its definition is stored. The use of those that it is pinned to is noted. */
    check({ playbook, pins }: NewRun, now: number): RefusedItem | null {
      const missing = [playbook, ...Object.values(pins)].find((hash) => interned.playbookNo(hash, now) === null);
      return missing === undefined ? null : unknownPlaybook(missing);
    },
    add(no: number, { playbook, pins, data, deadlineAt, origin, progress }: NewRun, now: number): void {
      const { phase, open, made, state } = progress;
      const definition = interned.playbookNo(playbook, now);
      addRow.run(no, definition, phase, open, made, JSON.stringify(state), deadlineAt, origin);
      addData.run(no, JSON.stringify(pins), data);
      events.send(no, "start", now, null, null);
    },
  };
}
