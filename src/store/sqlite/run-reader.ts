/** Reads a run and its steps. */
import { RUN_KIND } from "../../core/playbook/playbook.ts";
import type { RunRow, StepRow, StoredOutput } from "../../core/run/run.ts";
import { RUN_COLUMNS, STEP_CODES, STEP_COLUMN_NAMES, toOutput, toRun, toStep } from "../run-row.ts";
import type { StepsQuery } from "../store.ts";
import type { StoredJob } from "../stored-job.ts";
import type { SqliteContext } from "./context.ts";
import type { SqlStatement, SqlValue } from "./driver.ts";

const MAX_STEPS = 1_000;

export type SqliteRunReader = ReturnType<typeof runReader>;

export function runReader({ db }: SqliteContext) {
  const byJob = db.prepare(
    `select ${RUN_COLUMNS} from run r cross join run_data d on d.run = r.job cross join playbook p on p.no = r.playbook
     where r.job = ?`,
  );
  byJob.setReturnArrays(true);
  const variables = db.prepare(
    "select name, value from variable where run = (select no from job where id = ?) order by name",
  );

  return {
    /** Null for a job that is not a run. */
    ofJob(job: StoredJob): RunRow | null {
      if (job.kind !== RUN_KIND) return null;
      const row = byJob.get(job.no) as unknown[] | undefined;
      return row === undefined ? null : toRun(row, job.id, job.namespace);
    },
    variables(id: string): Readonly<Record<string, string>> {
      const rows = variables.all(id) as { name: string; value: string }[];
      return Object.fromEntries(rows.map(({ name, value }) => [name, value]));
    },
  };
}

export function stepReader({ db }: SqliteContext) {
  const columns = STEP_COLUMN_NAMES.map((name) => `s.${name}`).join(", ");
  const numberOf = db.prepare("select no from job where id = ?");
  // A job that is not a step of this run was started by it and goes its own way: it has no output here.
  const output = `${columns}, s.result, s.failure, j.state, j.attempt,
      coalesce(r.result, (select result from attempt a where a.job = j.no and a.attempt = j.attempt)),
      coalesce(r.failure, (select failure from attempt a where a.job = j.no order by attempt desc limit 1))`;
  const ofJob = "left join job j on j.id = s.job and j.run = s.run left join run r on r.job = j.no";
  const outputs = db.prepare(
    `select ${output} from json_each(?) as want cross join step s on s.run = ? and s.n = want.value ${ofJob} order by s.n`,
  );
  const loopAt = db.prepare("select node, visit from step where run = ? and n = ? and item = -1");
  const nextLoop = db.prepare(
    "select min(n) as n from step where run = ? and node = ? and visit = ? and item = -1 and n > ?",
  );
  // Rows of one loop have its number or a greater one, up to the next try of the loop.
  const items = db.prepare(
    `select ${output} from step s ${ofJob}
     where s.run = ? and s.node = ? and s.visit = ? and s.item >= 0 and s.n > ? and s.n < ? order by s.item, s.try`,
  );
  const list = db.prepare("select items from step where run = ? and n = ?");
  const open = db.prepare(
    `select j.id from step s indexed by step_open cross join job j on j.id = s.job and j.run = s.run
     where s.run = ? and s.n <= ? and s.state < 3 and j.state < 3 and j.cancel_requested_at is null order by s.n limit ?`,
  );
  for (const statement of [outputs, items]) statement.setReturnArrays(true);

  const number = (id: string): number | null => (numberOf.get(id) as { no: number } | undefined)?.no ?? null;
  const pages = new Map<string, SqlStatement>();

  function page({ run, after, limit, states, node, items }: StepsQuery): StepRow[] {
    const no = number(run);
    if (no === null) return [];
    const codes = states === undefined ? null : [...new Set(states)].map((state) => STEP_CODES[state]).sort();
    // State codes are our own numbers, so they may be part of the statement.
    const text = [
      `select ${columns} from step s where s.run = ? and s.n > ?`,
      ...(codes === null ? [] : [`and s.state in (${codes.join(", ")})`]),
      ...(node === undefined ? [] : ["and s.node = ?"]),
      ...(items === false ? ["and s.item = -1"] : []),
      "order by s.n limit ?",
    ].join(" ");
    let statement = pages.get(text);
    if (statement === undefined) {
      statement = db.prepare(text);
      statement.setReturnArrays(true);
      pages.set(text, statement);
    }
    const values: SqlValue[] = [no, after, ...(node === undefined ? [] : [node]), Math.min(limit, MAX_STEPS)];
    return (statement.all(...values) as unknown[][]).map(toStep);
  }

  function itemsOf(run: string, loop: number, chars: number): StoredOutput[] | null {
    const no = number(run);
    const place = no === null ? undefined : (loopAt.get(no, loop) as { node: string; visit: number } | undefined);
    if (no === null || place === undefined) return [];
    const { node, visit } = place;
    const next = (nextLoop.get(no, node, visit, loop) as { n: number | null }).n ?? Number.MAX_SAFE_INTEGER;
    const found: StoredOutput[] = [];
    let [left, last] = [chars, -1];
    for (const row of items.iterate(no, node, visit, loop, next)) {
      const one = outputOf(row as unknown[]);
      const { item } = one.step;
      // Later tries replace earlier ones, which have failed.
      if (item === last) found.pop();
      last = item;
      found.push(one);
      left -= one.result?.length ?? 0;
      if (left < 0) return null;
    }
    return found;
  }

  return {
    page,
    items: itemsOf,
    outputs(run: string, rows: readonly number[]): StoredOutput[] {
      const no = number(run);
      return no === null ? [] : (outputs.all(JSON.stringify(rows), no) as unknown[][]).map(outputOf);
    },
    list(run: string, loop: number): string | null {
      const no = number(run);
      return no === null ? null : ((list.get(no, loop) as { items: string | null } | undefined)?.items ?? null);
    },
    openJobs(run: string, limit: number, upTo = Number.MAX_SAFE_INTEGER): string[] {
      const no = number(run);
      return no === null ? [] : (open.all(no, upTo, limit) as { id: string }[]).map(({ id }) => id);
    },
  };
}

function outputOf(row: unknown[]): StoredOutput {
  const [result, failure, jobState, attempt, jobResult, jobFailure] = row.slice(STEP_COLUMN_NAMES.length) as [
    ...[result: string | null, failure: string | null, jobState: number | null, attempt: number | null],
    ...[jobResult: string | null, jobFailure: string | null],
  ];
  return toOutput(toStep(row), { result, failure, jobState, attempt, jobResult, jobFailure });
}
