/** Writes what follows from the messages of runs: guarded by the revision of each run's job, which every other advance of the
 *  same run changes. All calls of a turn share a transaction. */

import { PerdureError } from "../../core/errors.ts";
import { isTerminal } from "../../core/job/job.ts";
import { failureText, STEP_CODES, STEP_COLUMN_NAMES, stepValues } from "../run-row.ts";
import type { AdvanceAnswer, AdvanceWrite, InsertAnswer } from "../store.ts";
import type { StoredJob } from "../stored-job.ts";
import type { SqliteContext } from "./context.ts";
import { BulkInsert, type SqlValue } from "./driver.ts";
import { jobWriter } from "./insert.ts";
import { JOB_COLUMNS, progressValues, toJob, UPDATE_PROGRESS } from "./rows.ts";
import type { SqliteVerb } from "./writer.ts";

interface SqliteAdvanceItem {
  readonly write: AdvanceWrite;
  readonly now: number;
}

/** What an advance that does not end its run needs of the run's job. */
type RunNumbers = Pick<StoredJob, "no" | "budget">;

const MOVED: AdvanceAnswer = { status: "moved" };
const WRITTEN: AdvanceAnswer = { status: "written" };

export function advanceVerb(context: SqliteContext): SqliteVerb<SqliteAdvanceItem, AdvanceAnswer> {
  const { db, interned, events } = context;
  const writer = jobWriter(context);
  const byId = db.prepare(`select ${JOB_COLUMNS} from job where id = ?`);
  // Most advances change nothing else of the job.
  const revise = db.prepare("update job set revision = ? where id = ? and revision = ? returning no, budget");
  for (const statement of [byId, revise]) statement.setReturnArrays(true);
  const update = db.prepare(UPDATE_PROGRESS);
  const progress = db.prepare("update run set phase = ?, open = ?, made = ?, state = ? where job = ?");
  const rest = {
    playbook: db.prepare("update run set playbook = ? where job = ?"),
    deadlineAt: db.prepare("update run set deadline_at = ? where job = ?"),
    result: db.prepare("update run set result = ? where job = ?"),
    failure: db.prepare("update run set failure = ? where job = ?"),
    data: db.prepare("update run_data set data = ? where run = ?"),
    pins: db.prepare("update run_data set pins = ? where run = ?"),
  };
  const steps = new BulkInsert(db, "step", ["run", ...STEP_COLUMN_NAMES]);
  const wholeSteps = new BulkInsert(db, "step", ["run", ...STEP_COLUMN_NAMES, "items", "result", "failure"]);
  const change = db.prepare("update step set state = ?, ended_at = ? where run = ? and n = ?");
  const setResult = db.prepare("update step set result = ? where run = ? and n = ?");
  const setFailure = db.prepare("update step set failure = ? where run = ? and n = ?");
  const setVariable = db.prepare(
    `insert into variable (run, name, value) values (?, ?, ?)
     on conflict (run, name) do update set value = excluded.value`,
  );
  const drop = db.prepare("delete from inbox where no in (select value from json_each(?))");
  const setTimer = db.prepare(
    `insert into timer (job, n, due_at) values (?, ?, ?) on conflict (job, n) do update set due_at = excluded.due_at`,
  );
  const dropTimer = db.prepare("delete from timer where job = ? and n = ?");
  const dropTimers = db.prepare("delete from timer where job = ?");

  function run(items: readonly SqliteAdvanceItem[]): AdvanceAnswer[] {
    const made: SqlValue[] = [];
    const wholeMade: SqlValue[] = [];
    const read: number[] = [];
    writer.begin();

    function advanceOne({ write, now }: SqliteAdvanceItem): AdvanceAnswer {
      const job = writeJob(write, now);
      if (job === null) return MOVED;
      for (const no of write.read) read.push(no);
      // The run had ended: only its messages go.
      if (write.transitions.length === 0) return WRITTEN;
      writeRun(job, write, now);
      writeSteps(job, write, now);
      for (const [name, value] of Object.entries(write.variables)) setVariable.run(job.no, name, value);
      for (const { kind, body } of write.send) events.send(job.no, kind, now, null, body);
      for (const n of write.timers.drop) dropTimer.run(job.no, n);
      for (const { n, dueAt } of write.timers.set) setTimer.run(job.no, n, dueAt);
      const last = write.transitions.at(-1);
      if (last !== undefined && isTerminal(last.next.state)) dropTimers.run(job.no);
      return WRITTEN;
    }

    function writeSteps(job: RunNumbers, write: AdvanceWrite, now: number): void {
      const numbers = new Map<string, number>();
      for (const { row, items: list, result, failure } of write.made) {
        if (row.job !== null) numbers.set(row.job, row.n);
        const isPlain = list === null && result === null && failure === null;
        const rows = isPlain ? made : wholeMade;
        rows.push(job.no, ...stepValues(row));
        if (!isPlain) rows.push(list, result, failureText(failure));
      }
      for (const { n, state, endedAt, result, failure } of write.changed) {
        change.run(STEP_CODES[state], endedAt, job.no, n);
        if (result !== undefined) setResult.run(result, job.no, n);
        if (failure !== undefined) setFailure.run(failureText(failure), job.no, n);
      }
      for (const one of write.jobs) {
        // A run that nobody waits for has no parent.
        const isStep = one.runId !== undefined;
        const n = numbers.get(one.id) ?? 0;
        const answer = writer.add(one, now, isStep ? { run: job.no, budget: job.budget, n } : null);
        if (answer.status !== "inserted") throw refusedStep(write.run, answer);
      }
    }

    const answers = items.map(advanceOne);
    steps.run(made);
    wholeSteps.run(wholeMade);
    writer.flush();
    if (read.length > 0) drop.run(JSON.stringify(read));
    events.flush();
    return answers;
  }

  /** Null if the run has moved on. */
  function writeJob({ run: id, revision, transitions }: AdvanceWrite, now: number): RunNumbers | null {
    const last = transitions.at(-1);
    if (last !== undefined && transitions.every(({ event }) => event.name === "run.advanced")) {
      const row = revise.get(last.next.revision, id, revision) as [no: number, budget: number | null] | undefined;
      if (row === undefined) return null;
      const [no, budget] = row;
      for (const { event, next } of transitions) events.add(no, next.revision, now, event.name, event.data);
      return { no, budget };
    }
    const row = byId.get(id);
    const job = row === undefined ? null : toJob(row, interned);
    if (job === null || job.revision !== revision) return null;
    if (last !== undefined) update.run(...progressValues(job, last.next, null));
    let before = job;
    for (const transition of transitions) {
      events.record(before, transition, now);
      before = { ...before, ...transition.next };
    }
    return job;
  }

  function writeRun(job: RunNumbers, write: AdvanceWrite, now: number): void {
    const { progress: to, playbook, deadlineAt, result, failure, data, pins } = write;
    progress.run(to.phase, to.open, to.made, JSON.stringify(to.state), job.no);
    if (playbook !== undefined) {
      const no = interned.playbookNo(playbook, now);
      if (no === null) throw new PerdureError("store_refused", `playbook ${playbook} is not stored`);
      rest.playbook.run(no, job.no);
    }
    if (deadlineAt !== undefined) rest.deadlineAt.run(deadlineAt, job.no);
    if (result !== undefined) rest.result.run(result, job.no);
    if (failure !== undefined) rest.failure.run(failureText(failure), job.no);
    if (data !== undefined) rest.data.run(data, job.no);
    if (pins !== undefined) rest.pins.run(JSON.stringify(pins), job.no);
  }

  // After reports, commands and submits, before claims: a turn's steps are claimed in the same transaction.
  return { order: 4, run, weight: ({ write }) => costOf(write) };
}

/** Rows of one call, so that a group of calls does not block the event loop for long. */
const MAX_CALL_ROWS = 1_000;

/** In calls of bounded size: one advance may start hundreds of steps. */
export function advanceCalls(writes: readonly AdvanceWrite[]): AdvanceWrite[][] {
  const calls: AdvanceWrite[][] = [];
  let left = 0;
  for (const write of writes) {
    const cost = costOf(write);
    if (cost > left) {
      calls.push([]);
      left = MAX_CALL_ROWS;
    }
    calls.at(-1)?.push(write);
    left -= cost;
  }
  return calls;
}

function costOf({ jobs, made, changed }: AdvanceWrite): number {
  return 1 + jobs.length + (made.length + changed.length) / 4;
}

function refusedStep(run: string, answer: Exclude<InsertAnswer, { readonly status: "inserted" }>): PerdureError {
  const why = answer.status === "refused" ? answer.message : `its job ${answer.id} exists already`;
  return new PerdureError("store_refused", `a step of ${run} cannot be stored: ${why}`);
}
