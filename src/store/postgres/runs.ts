/** Reads runs and their steps. What a run must react to and the revision of its job come from one statement; the rest is read after
 *  it, and belongs to it if the revision is still the same. */

import { JOB_STATES, type JobState } from "../../core/job/job.ts";
import type { LoadedRun, RunRow, StepEnd, StepRow, StoredOutput } from "../../core/run/run.ts";
import { RUN_COLUMNS, STEP_CODES, STEP_COLUMN_NAMES, toRun, toStep } from "../run-row.ts";
import type { KnownRuns, RunStore, StepsQuery } from "../store.ts";
import { toFacts, toFailure, toReason } from "../stored-job.ts";
import { bigints, ints, smallints, texts } from "./arrays.ts";
import type { PostgresContext } from "./context.ts";
import type { PgRow } from "./driver.ts";
import { GroupCommit } from "./group.ts";
import { inboxReader, type UnreadOfRun } from "./inbox.ts";
import { FAILED, RESULT } from "./read.ts";
import { COLUMN_COUNT, JOB_COLUMNS, learnRows, toJob } from "./rows.ts";

const RUN_FROM = `$s.submission b join $s.job j on j.no = b.job join $s.run r on r.job = j.no join $s.run_data d on d.run = j.no
  join $s.playbook p on p.no = r.playbook`;
const STEP_COLUMNS = STEP_COLUMN_NAMES.map((name) => `s.${name}`).join(", ");
/** Reads of single runs, of which there are many at once, share statements; their results may be large. */
const TOGETHER = { inFlight: 2, together: 50 };
/** How often a run is read again that another engine advances meanwhile. */
const TRIES = 3;
/** Above the number of any step. */
const MAX_N = 2 ** 31 - 1;
const STEP_COUNT = STEP_COLUMN_NAMES.length;
const STEP_FAILED = `case when j.state = 4 then ${FAILED} end`;

/** Of step s; its job only if that is a step of this run: an independent run continues after the step. */
const OUTPUT = `${STEP_COLUMNS}, coalesce(s.result, ${RESULT}) as given,
  coalesce(s.failure, ${STEP_FAILED}), coalesce(j.attempt, 0)`;
const OUTPUT_FROM = `left join $s.submission b on b.id = s.job left join $s.job j on j.no = b.job and j.run = s.run`;
const RUN_NO = "(select job from $s.submission where id = $1)";

export type RunReads = Pick<
  RunStore,
  "due" | "load" | "outputs" | "items" | "list" | "variables" | "row" | "steps" | "openJobs"
>;

export function runReads(context: PostgresContext): RunReads {
  const { db, sql, interned, clock } = context;
  const { dueRuns, unreadOf } = inboxReader(context);
  const runs = sql("runs", `select ${JOB_COLUMNS}, ${RUN_COLUMNS} from ${RUN_FROM} where b.id = any ($1::text[])`);
  // Laterally: as a join, only one of the two columns would be compared in the index.
  const ended = sql(
    "run_ended",
    `select b.id, j.state, j.reason, ${STEP_FAILED}, w.run, ${STEP_COLUMNS}
     from unnest($1::bigint[], $2::text[]) as w (run, ref)
     join $s.submission b on b.id = w.ref join $s.job j on j.no = b.job
     cross join lateral (select * from $s.step where run = w.run and n = b.step limit 1) s`,
  );
  const stepsByN = sql(
    "run_steps_by_n",
    `select w.run, ${STEP_COLUMNS} from unnest($1::bigint[], $2::int[]) as w (run, n)
     join $s.step s on s.run = w.run and s.n = w.n`,
  );
  const loops = sql(
    "run_loops",
    `select w.run, ${STEP_COLUMNS} from unnest($1::bigint[], $2::text[], $3::int[]) as w (run, node, visit)
     cross join lateral (
       select * from $s.step where run = w.run and node = w.node and visit = w.visit and item = -1 order by try desc limit 1) s`,
  );
  const outputsOf = sql(
    "run_outputs",
    `select ${OUTPUT}, w.call from unnest($1::text[], $2::int[], $3::int[]) as w (run, n, call)
     join $s.submission o on o.id = w.run
     cross join lateral (select * from $s.step where run = o.job and n = w.n limit 1) s
     ${OUTPUT_FROM}`,
  );
  // Sizes are read without the texts.
  const itemsOf = sql(
    "run_items",
    `select ${Array.from({ length: STEP_COUNT }, (_, i) => `c${i}`).join(", ")}, case when total <= $3::bigint then given end,
       failed, tries, total
     from (
       select o.*, (sum(octet_length(given)) over ())::bigint as total from (
         select ${OUTPUT} from (
           select distinct on (i.item) i.* from $s.step l
           join $s.step i on i.run = l.run and i.node = l.node and i.visit = l.visit and i.item >= 0
             and i.n > l.n
           where l.run = ${RUN_NO} and l.n = $2 order by i.item, i.try desc
         ) s ${OUTPUT_FROM}
       ) as o (${[...Array.from({ length: STEP_COUNT }, (_, i) => `c${i}`), "given", "failed", "tries"].join(", ")})
     ) t order by c3`,
  );
  const listOf = sql("run_list", `select s.items from $s.step s where s.run = ${RUN_NO} and s.n = $2`);
  const variablesOf = sql("run_variables", `select name, value from $s.variable where run = ${RUN_NO}`);
  const page = sql(
    "run_steps",
    `select ${STEP_COLUMNS} from $s.step s where s.run = ${RUN_NO} and s.n > $2
       and ($4::smallint[] is null or s.state = any ($4::smallint[])) and ($5::text is null or s.node = $5)
       and ($6::boolean or s.item < 0)
     order by s.n limit $3`,
  );
  const open = sql(
    "run_open_jobs",
    `select s.job from $s.step s join $s.submission b on b.id = s.job join $s.job j on j.no = b.job and j.run = s.run
     where s.run = ${RUN_NO} and s.state + 0 = ${STEP_CODES.open} and j.state + 0 < 3 and j.cancel_requested_at is null
       and s.n <= $3
     order by s.n limit $2`,
  );

  async function load(ids: readonly string[], now: number, known?: KnownRuns): Promise<(LoadedRun | null)[]> {
    const loaded = new Map<string, LoadedRun>();
    let left = ids;
    // Another engine may write a run between the two reads; what it leaves is due again soon in any case.
    for (let tries = 0; left.length > 0 && tries < TRIES; tries++) left = await loadInto(loaded, left, now, known);
    return ids.map((id) => loaded.get(id) ?? null);
  }

  /** Returns the runs that have moved between the reads. */
  async function loadInto(loaded: Map<string, LoadedRun>, ids: readonly string[], now: number, known?: KnownRuns) {
    const unread = await unreadOf(ids, now);
    if (unread.size === 0) return [];
    const parts = new Map<string, RunAndJob>();
    for (const [id, { revision }] of unread) {
      const part = known?.(id, revision);
      if (part !== undefined) parts.set(id, part);
    }
    const unknown = [...unread.keys()].filter((id) => !parts.has(id));
    const [steps, read] = await Promise.all([stepsOf(unread), unknown.length === 0 ? [] : readRuns(unknown)]);
    for (const part of read) parts.set(part.job.id, part);
    const moved: string[] = [];
    for (const [id, { no, revision, ...mine }] of unread) {
      const part = parts.get(id);
      if (part === undefined) continue; // pruned
      if (part.job.revision !== revision) {
        moved.push(id);
        continue;
      }
      const found = steps.get(no) ?? noSteps();
      const inOrder = [...found.steps.values()].sort((a, b) => a.n - b.n);
      loaded.set(id, { job: part.job, run: part.run, ...mine, steps: inOrder, ends: found.ends });
    }
    return moved;
  }

  async function readRuns(ids: readonly string[]): Promise<RunAndJob[]> {
    const rows = await db.read(runs, [texts(ids)]);
    const names = await learnRows(interned, rows);
    return rows.map((row) => {
      const job = toFacts(toJob(row, names));
      return { job, run: toRun(row.slice(COLUMN_COUNT), job.id, job.namespace) };
    });
  }

  function stepsOf(unread: ReadonlyMap<string, UnreadOfRun>): Promise<Map<number, StepsOfRun>> {
    const refs: { run: number; ref: string }[] = [];
    const waits: { run: number; n: number }[] = [];
    for (const { no: run, messages, timers } of unread.values()) {
      for (const { kind, ref } of messages) if (kind === "ended" && ref !== null) refs.push({ run, ref });
      for (const { n } of timers) if (n > 0) waits.push({ run, n });
    }
    return readSteps(refs, waits);
  }

  /** The rows that messages and timers are about, and the rows of their loops. */
  async function readSteps(
    refs: readonly { readonly run: number; readonly ref: string }[],
    waits: readonly { readonly run: number; readonly n: number }[],
  ): Promise<Map<number, StepsOfRun>> {
    const byRun = new Map<number, StepsOfRun>();
    const of = (run: number) => {
      const entry = byRun.get(run) ?? noSteps();
      byRun.set(run, entry);
      return entry;
    };
    const add = (rows: readonly PgRow[]) => {
      for (const row of rows) {
        const step = toStep(row.slice(1));
        of(row[0] as number).steps.set(step.n, step);
      }
    };
    if (refs.length > 0) {
      const values = [bigints(refs.map(({ run }) => run)), texts(refs.map(({ ref }) => ref))];
      const rows = await db.read(ended, values);
      for (const [id, state, reason, failure, run] of rows) {
        of(run as number).ends[id as string] = {
          state: JOB_STATES[state as number] as JobState,
          reason: toReason(reason as string | null),
          failure: toFailure(failure as string | null),
        };
      }
      add(rows.map((row) => row.slice(4)));
    }
    if (waits.length > 0) {
      add(await db.read(stepsByN, [bigints(waits.map(({ run }) => run)), ints(waits.map(({ n }) => n))]));
    }
    const inLoops = new Map<string, { run: number; node: string; visit: number }>();
    for (const [run, { steps }] of byRun) {
      for (const { node, visit, item } of steps.values()) {
        if (item >= 0) inLoops.set(`${run} ${visit} ${node}`, { run, node, visit });
      }
    }
    if (inLoops.size > 0) {
      const list = [...inLoops.values()];
      const columns = [bigints(list.map(({ run }) => run)), texts(list.map(({ node }) => node))];
      add(await db.read(loops, [...columns, ints(list.map(({ visit }) => visit))]));
    }
    return byRun;
  }

  const rows = new GroupCommit<string, RunRow | null>(
    {
      ...TOGETHER,
      async run(ids) {
        const found = new Map((await readRuns(ids)).map(({ run }) => [run.id, run]));
        return ids.map((id) => found.get(id) ?? null);
      },
    },
    clock,
  );
  const outputs = new GroupCommit<OutputsCall, StoredOutput[]>(
    {
      ...TOGETHER,
      async run(calls) {
        const wanted = calls.flatMap(({ run, numbers }, call) => numbers.map((n) => ({ run, n, call })));
        const answers: StoredOutput[][] = calls.map(() => []);
        const columns = [texts(wanted.map(({ run }) => run)), ints(wanted.map(({ n }) => n))];
        for (const row of await db.read(outputsOf, [...columns, ints(wanted.map(({ call }) => call))])) {
          answers[row.at(-1) as number]?.push(toOutput(row));
        }
        for (const answer of answers) answer.sort((a, b) => a.step.n - b.step.n);
        return answers;
      },
    },
    clock,
  );

  return {
    due: dueRuns,
    load,
    outputs: async (run, numbers) =>
      numbers.length === 0 ? [] : ((await outputs.submit([{ run, numbers }]))[0] as StoredOutput[]),
    async items(run, loop, chars) {
      const rows = await db.read(itemsOf, [run, loop, chars]);
      if (Number(rows[0]?.at(-1) ?? 0) > chars) return null;
      return rows.map(toOutput);
    },
    list: async (run, loop) => ((await db.read(listOf, [run, loop]))[0]?.[0] as string | null | undefined) ?? null,
    variables: async (run) =>
      Object.fromEntries((await db.read(variablesOf, [run])).map(([name, value]) => [name as string, value as string])),
    row: async (id) => (await rows.submit([id]))[0] ?? null,
    async steps({ run, after, limit, states, node, items = true }: StepsQuery) {
      const codes = states === undefined ? null : smallints(states.map((state) => STEP_CODES[state]));
      return (await db.read(page, [run, after, limit, codes, node ?? null, items])).map(toStep);
    },
    openJobs: async (run, limit, upTo = MAX_N) => (await db.read(open, [run, limit, upTo])).map(([id]) => id as string),
  };
}

type RunAndJob = Pick<LoadedRun, "job" | "run">;

interface OutputsCall {
  readonly run: string;
  readonly numbers: readonly number[];
}

interface StepsOfRun {
  readonly steps: Map<number, StepRow>;
  readonly ends: Record<string, StepEnd>;
}

const noSteps = (): StepsOfRun => ({ steps: new Map(), ends: {} });

function toOutput(row: PgRow): StoredOutput {
  return {
    step: toStep(row),
    result: row[STEP_COUNT] as string | null,
    failure: toFailure(row[STEP_COUNT + 1] as string | null),
    attempt: row[STEP_COUNT + 2] as number,
  };
}
