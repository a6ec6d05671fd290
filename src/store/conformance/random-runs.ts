/** Random playbooks on the store, advanced as an engine does it, and in memory: after every round both have the same rows. So what
 *  a store writes and loads is what was decided, for joins, cycles, loops, waits, runs below, cancels and redrives alike. */
import { expect, test } from "vitest";
import { type Playbook, RUN_KIND } from "../../core/playbook/playbook.ts";
import { advance } from "../../core/run/advance.ts";
import { runTroubles } from "../../core/run/invariants.ts";
import type { AdvancePlan, Known, Needs, PlannedJob } from "../../core/run/plan.ts";
import type { LoadedRun, RunRow, StepRow, StoredOutput } from "../../core/run/run.ts";
import { newRunProgress } from "../../core/run/start.ts";
import { RANDOM_PATHS, randomOutcome, randomPlaybook, seeded } from "../../core/run/testing-random.ts";
import { TestRun } from "../../core/run/testing-run.ts";
import type { NewJob, RunStore } from "../store.ts";
import type { Bench } from "./bench.ts";
import { broke, done, jobId, reportOf } from "./kit.ts";
import { newRun, newStepJob, RunBench, runsOf, sentByRun } from "./run-kit.ts";

const BELOW = RANDOM_PATHS.b as Playbook;
/** Enough for each idea of the generator to occur in several; the properties of `advance` try thousands. */
const SEEDS = 15;

export function randomRunTests(bench: Bench): void {
  test.each([0, 1, 2])("random runs have the same rows on the store and in memory (%i)", async (part) => {
    for (let seed = part; seed < SEEDS; seed += 3) await new Pair(bench, seed).finish();
  });
}

/** One run twice. */
class Pair {
  readonly #bench: Bench;
  readonly #seed: number;
  readonly #playbook: Playbook;
  readonly #memory: TestRun;
  /** The definition of each run on the store, and its parent's row. */
  readonly #definitions = new Map<string, Playbook>();
  #id = "";

  constructor(bench: Bench, seed: number) {
    this.#bench = bench;
    this.#seed = seed;
    this.#playbook = randomPlaybook(seed);
    this.#memory = new TestRun(this.#playbook, { paths: RANDOM_PATHS });
  }

  get #runs(): RunStore {
    return runsOf(this.#bench.store);
  }

  async finish(): Promise<void> {
    const memory = this.#memory;
    this.#id = await new RunBench(this.#bench).submit({ at: memory.now });
    this.#definitions.set(this.#id, this.#playbook);
    const cancelAt = this.#seed % 5 === 0 ? 3 : -1;
    await this.#settle();
    for (let chapter = 0; chapter < 3; chapter++) {
      for (let round = 0; memory.run.phase !== "ended"; round++) {
        if (round > 500) throw new Error(`no end: ${memory.states()}`);
        if (round === cancelAt && chapter === 0) {
          memory.cancel();
          await this.#bench.amend(this.#id, { kind: "cancel" }, memory.now);
        }
        await this.#endSome(chapter, round);
        await this.#settle();
      }
      if (memory.job.state === "succeeded") break;
      memory.redrive();
      await this.#bench.amend(this.#id, { kind: "redrive", run: {} }, memory.now);
      await this.#settle();
    }
    await this.#compare();
  }

  async #endSome(chapter: number, round: number): Promise<void> {
    const memory = this.#memory;
    const open = memory.open();
    const chosen = open.filter(({ node, visit, item }) => seeded(this.#seed, round, node, visit, item) % 2 === 0);
    const ending = chosen.length > 0 ? chosen : open.slice(0, 1);
    if (ending.length === 0 && memory.timers.size > 0) memory.now = Math.min(...memory.timers.values());
    if (ending.length === 0) return;
    const rows = await this.#rows(this.#id, ["open"]);
    const outcomes = new Map<string, string | null>();
    for (const row of ending) {
      // The last redrive lets everything succeed.
      const result = chapter === 2 ? "{}" : randomOutcome(this.#seed + chapter, row, 15);
      if (result === null) memory.endById(row.job as string, "failed");
      else memory.endById(row.job as string, "succeeded", JSON.parse(result));
      const twin = rows.find(({ n }) => n === row.n) as StepRow;
      const job = row.planned.kind === RUN_KIND ? await this.#jobBelow(twin.job as string) : (twin.job as string);
      outcomes.set(job, result);
    }
    const session = await this.#bench.open({ kinds: [...outcomes.keys()].map(kindOf), slots: 999 }, memory.now);
    const claimed = await this.#bench.claim(session, 999, memory.now);
    expect(claimed.map(({ id }) => id).sort()).toEqual([...outcomes.keys()].sort());
    const reports = claimed.map((job) => {
      const result = outcomes.get(job.id) as string | null;
      return reportOf(job, result === null ? broke() : done(result));
    });
    await this.#bench.settle(reports, memory.now);
    await this.#bench.endSession(session, memory.now);
  }

  /** The open step of a run below, which has one. */
  async #jobBelow(run: string): Promise<string> {
    const [row] = await this.#rows(run, ["open"]);
    return row?.job as string;
  }

  #rows(run: string, states?: readonly StepRow["state"][]): Promise<StepRow[]> {
    return this.#runs.steps({ run, after: 0, limit: 1_000, ...(states === undefined ? {} : { states }) });
  }

  /** Advances both until nothing is due, and compares them. */
  async #settle(): Promise<void> {
    const memory = this.#memory;
    memory.settle();
    for (let turns = 0; ; turns++) {
      if (turns > 1_000) throw new Error("it advances without an end");
      const { runs } = await this.#runs.due({ now: memory.now, limit: 100 });
      if (runs.length === 0) break;
      // One after another, as an advance may cancel or redrive a run below, which moves it; and those below first, so that their
      // ends are read together with those of other steps, as in memory.
      for (const id of runs.sort((a, b) => Number(a === this.#id) - Number(b === this.#id))) {
        const [loaded] = await this.#runs.load([id], memory.now);
        if (loaded != null) await this.#advance(loaded);
      }
    }
    await this.#compare();
  }

  async #advance(loaded: LoadedRun): Promise<void> {
    const { now } = this.#memory;
    const { run } = loaded;
    const playbook = this.#definitions.get(run.id) ?? BELOW;
    const known = new LoadedFacts();
    for (;;) {
      const answer = advance({ loaded, playbook, before: null, now, newJobId: jobId, known });
      if (answer.kind === "needs") {
        await known.add(this.#runs, run.id, answer.needs);
        continue;
      }
      const { plan } = answer;
      if (plan.stop) {
        for (const id of await this.#runs.openJobs(run.id, 200, run.made))
          await this.#bench.amend(id, { kind: "cancel" }, now);
      }
      for (const id of plan.redrive) await this.#bench.amend(id, { kind: "redrive", run: {}, asRun: run.id }, now);
      await this.#write(loaded, plan);
      return;
    }
  }

  async #write(loaded: LoadedRun, plan: AdvancePlan): Promise<void> {
    const { run, job } = loaded;
    const { stop, redrive, jobs, ...rest } = plan;
    const write = {
      run: run.id,
      revision: job.revision,
      ...rest,
      jobs: jobs.map((each) => newJobOf(loaded, each, this.#memory.now)),
    };
    const [answer] = await this.#runs.advance([write], this.#memory.now);
    expect(answer).toEqual({ status: "written" });
    const unrecorded = write.transitions.length === 0 ? write.read.length : 0;
    sentByRun.set(run.id, (sentByRun.get(run.id) ?? 0) + write.send.length - unrecorded);
  }

  async #compare(): Promise<void> {
    const memory = this.#memory;
    const [run, rows] = [await this.#runs.row(this.#id), await this.#rows(this.#id)];
    const plain = (row: StepRow) => ({ ...row, job: row.job === null ? null : "a job" });
    expect(rows.map(plain)).toEqual([...memory.rows.values()].map(plain));
    expect(run === null ? null : ofRun(run)).toEqual(ofRun(memory.run));
    const { phase } = memory.run;
    const job = await this.#bench.row(this.#id);
    expect(job.state).toBe(memory.job.state);
    if (phase !== "ended" || run === null) return;
    const { events } = await this.#bench.store.events.page({ after: 0, limit: 1_000, jobId: this.#id });
    const whole = { run, job, steps: rows, unread: [], timers: [], playbook: this.#playbook };
    expect(runTroubles({ ...whole, events: events.filter((event) => event.jobId !== null) })).toEqual([]);
  }
}

/** Without the message of a failure, which has the reason of the job on a store. */
function ofRun({ phase, open, made, state, result, deadlineAt }: RunRow): object {
  const end = state.end === null ? null : { ...state.end, message: null };
  return { phase, open, made, state: { ...state, end }, result, deadlineAt };
}

/** A kind of its own for each job, so that a test can claim just those that it ends. */
function kindOf(id: string): string {
  return `work-${id.slice(4)}`;
}

function newJobOf({ job: run }: LoadedRun, { id, kind, payload, isChild, run: below }: PlannedJob, at: number): NewJob {
  if (!isChild) throw new Error("the generator makes no independent runs");
  const parts = { id, at, payload, depth: run.depth + 1 };
  if (below === null) return newStepJob(run.id, { ...parts, kind: kind === RUN_KIND ? kind : kindOf(id) });
  const of = { data: below.data, pins: below.pins, deadlineAt: null, origin: null, progress: newRunProgress() };
  return newRun({ ...parts, parent: { id: run.id, attempt: null }, runId: run.id, of });
}

/** What an advance asked for. */
class LoadedFacts implements Known {
  readonly outputs = new Map<number, StoredOutput>();
  readonly items = new Map<number, readonly StoredOutput[] | null>();
  readonly lists = new Map<number, readonly unknown[]>();
  readonly paths = new Map(
    Object.entries(RANDOM_PATHS).map(([path, playbook]) => [path, { hash: "", playbook, pins: {} }]),
  );
  variables: Readonly<Record<string, unknown>> | null = null;
  waiting: readonly StepRow[] | null = null;

  async add(runs: RunStore, run: string, needs: Needs): Promise<void> {
    for (const output of await runs.outputs(run, needs.outputs)) this.outputs.set(output.step.n, output);
    for (const n of needs.items) this.items.set(n, await runs.items(run, n, 1_000_000));
    for (const n of needs.lists) this.lists.set(n, JSON.parse((await runs.list(run, n)) as string) as unknown[]);
    if (needs.variables) {
      const entries = Object.entries(await runs.variables(run)).map(
        ([name, text]) => [name, JSON.parse(text)] as const,
      );
      this.variables = Object.fromEntries(entries);
    }
    if (needs.waiting) this.waiting = await runs.steps({ run, after: 0, limit: 1_000, states: ["waiting"] });
  }
}
