/** Stores new jobs. Keys are checked first, then parents: the write lock is held, so nothing changes in between. */
import { hasBudget } from "../../core/decision/budget.ts";
import { submittedText } from "../../core/job/lifecycle.ts";
import { newLedger } from "../ledger.ts";
import {
  isFree,
  type KeyOwner,
  keyAnswer,
  type ParentFacts,
  type ParentRow,
  parentFacts,
  refusedChild,
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
  readonly lane: number;
}

export function insertVerb({ db, interned, events }: SqliteContext): SqliteVerb<SqliteInsertItem, InsertAnswer> {
  const columns = [
    ...["no", "id", "lane", "policy", "priority", "state", "run_at", "revision", "chapter", "attempt"],
    ...["submitted_at", "expires_at", "check_at", "deadline_at", "expire_in", "timeout_ms", "key", "tags"],
  ];
  const jobs = new BulkInsert(db, "job", columns);
  const payloads = new BulkInsert(db, "payload", ["job", "body"]);
  // Most jobs have no parent, name, budget or annotations: values that are always null are not bound for each of them.
  const wholes = new BulkInsert(db, "job", [...columns, "parent", "depth", "name", "action", "budget"]);
  const ledgers = new BulkInsert(db, "budget", ["job", "above", "body"]);
  const annotated = new BulkInsert(db, "payload", ["job", "body", "annotations"]);
  const parentById = db.prepare("select lane, state, attempt, cancel_requested_at, budget from job where id = ?");
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

  function findKey(job: NewJob, now: number): InsertAnswer | null {
    const owner = byKey.get(job.namespace, job.key) as KeyOwner | undefined;
    if (owner === undefined) return null;
    if (!isFree(owner, now)) return keyAnswer(job, owner);
    dropKey.run(job.namespace, job.key);
    return null;
  }

  /** Nothing changes a parent while a list is stored. */
  function findParent(id: string, seen: Map<string, ParentFacts | null>): ParentFacts | null {
    const known = seen.get(id);
    if (known !== undefined) return known;
    const row = parentById.get(id) as InsertParentRow | undefined;
    const found = row === undefined ? null : parentFacts(row, interned.lane(row.lane).namespace);
    seen.set(id, found);
    return found;
  }

  function run(items: readonly SqliteInsertItem[]): InsertAnswer[] {
    const plain: SqlValue[] = [];
    const whole: SqlValue[] = [];
    const bodies: SqlValue[] = [];
    const notedBodies: SqlValue[] = [];
    const parents = new Map<string, ParentFacts | null>();
    const tagRows: SqlValue[] = [];
    const budgets: SqlValue[] = [];
    interned.dropSwept();
    let no = (lastNo.get() as { seq: number } | undefined)?.seq ?? 0;
    const answers = items.map(({ job, now }): InsertAnswer => {
      if (job.key !== null) {
        const found = findKey(job, now);
        if (found !== null) return found;
      }
      if (job.parent !== null) {
        const refused = refusedChild(job, findParent(job.parent.id, parents));
        if (refused !== null) return refused;
      }
      if (job.key !== null) addKey.run(job.namespace, job.key, job.id, job.bodyHash);
      no += 1;
      const { event, next } = job.transition;
      const lane = interned.internLane(job, now);
      const policy = interned.internPolicy(job.policyHash, job.policy, now);
      const tagText = job.tags.length === 0 ? null : JSON.stringify(job.tags);
      const above = job.parent === null ? null : (parents.get(job.parent.id)?.budget ?? null);
      const isOwn = hasBudget(job.policy);
      if (isOwn) budgets.push(no, above, newLedger(job.id, job.policy));
      const isPlain = job.parent === null && job.name === null && job.action === null && !isOwn;
      const rows = isPlain ? plain : whole;
      rows.push(no, job.id, lane, policy, job.priority, STATE_CODES[next.state], next.runAt, next.revision);
      rows.push(next.chapter, next.attempt, now, next.expiresAt, checkAt(next.expiresAt, job.deadlineAt));
      rows.push(job.deadlineAt, job.expireInMs, job.timeoutMs, job.key, tagText);
      if (!isPlain) rows.push(job.parent?.id ?? null, job.depth, job.name, job.action, isOwn ? no : above);
      if (job.annotations === null) bodies.push(no, job.payload);
      else notedBodies.push(no, job.payload, job.annotations);
      for (const tag of job.tags) tagRows.push(tag, no);
      events.add(no, next.revision, now, event.name, submittedText(event.data));
      return { status: "inserted", id: job.id };
    });
    jobs.run(plain);
    wholes.run(whole);
    ledgers.run(budgets);
    payloads.run(bodies);
    annotated.run(notedBodies);
    tags.run(tagRows);
    events.flush();
    return answers;
  }

  return { order: 2, run, refuse: (_item, error) => refusal(error) };
}
