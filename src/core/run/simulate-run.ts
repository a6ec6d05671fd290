/** Plays a playbook with scripted outcomes on a virtual clock, once or many times: what starts when, how attempts end and what is
 *  decided after them, which arcs are taken and why, and how the run ends. The decisions are the real ones. */
import type { RunInfo, StepInfo } from "../api/runs.ts";
import { decide } from "../decision/decide.ts";
import { showMs } from "../duration.ts";
import { because, type DecidedEvent, endsAtMostOnce } from "../explain/decision-text.ts";
import { counted, showText } from "../format.ts";
import type { JobEvent } from "../job/event.ts";
import type { FailReason, Job } from "../job/job.ts";
import type { Playbook, PlaybookStep } from "../playbook/playbook.ts";
import type { MsRange } from "../simulate/simulate.ts";
import { conditionText } from "./graph-text.ts";
import { type OutcomeScript, outcomeScript, resultOf, type ScriptedOutcome } from "./outcome-script.ts";
import type { RunChange, RunProgress } from "./run.ts";
import { type SimulatedRun, type SimulatedStepJob, stepName } from "./simulated-run.ts";
import { runInfo, stepInfo } from "./simulated-views.ts";
import { type Happening, SimulatedWorld } from "./simulated-world.ts";

export interface RunScenario {
  readonly playbook: Playbook;
  readonly input?: Readonly<Record<string, unknown>>;
  /** Steps without outcomes succeed with null. */
  readonly outcomes?: OutcomeScript;
  /** Of attempts of steps without outcomes of their own: this share fails. Needs `random`. */
  readonly failureRate?: number;
  /** Sub-playbooks by path; the steps of others are played as a whole. */
  readonly playbooks?: (path: string) => Playbook | null;
  /** How long an attempt takes, where its outcome does not set it. Default: 0. */
  readonly takesMs?: number;
  /** From 0 to below 1, for jitter and failures. Default: no jitter. */
  readonly random?: () => number;
  /** When the run starts. Default: 2026-01-01. */
  readonly startAt?: number;
  /** Ends the simulation then, in milliseconds from the start. */
  readonly untilMs?: number;
  /** Requests a cancel then, in milliseconds from the start. */
  readonly cancelMs?: number;
  readonly maxEvents?: number;
}

/** Something that happened, in milliseconds from the start. */
export interface RunTimelineEntry {
  readonly atMs: number;
  /** `fetch`, `each[3]`, `below/fetch`; empty for the run itself. */
  readonly step: string;
  readonly kind: "started" | "attempt" | "ended" | "arc" | "run";
  readonly text: string;
  /** Of an attempt that is retried: until the next one under any jitter. */
  readonly delayRangeMs?: MsRange;
}

export interface RunSimulation {
  readonly timeline: readonly RunTimelineEntry[];
  readonly end: RunSimulationEnd;
  /** As the API returns them, for graphs and explanations. */
  readonly run: RunInfo;
  readonly steps: readonly StepInfo[];
  readonly progress: RunProgress;
  readonly events: readonly JobEvent[];
}

export interface RunSimulationEnd {
  readonly state: "running" | "succeeded" | "failed" | "cancelled";
  readonly reason: FailReason | null;
  /** The first step that failed with nothing to handle it. */
  readonly step: string | null;
  readonly message: string | null;
  readonly result: unknown;
  readonly totalMs: number;
  /** Rows, items of loops included, and attempts. */
  readonly steps: number;
  readonly attempts: number;
  /** Why the simulation ended before the run. stuck: nothing is due. */
  readonly stopped: "limit" | "until" | "stuck" | null;
}

const MIDDLE = 0.5;
const START = Date.UTC(2026, 0, 1);
const MAX_EVENTS = 200_000;
const EVERYTHING = outcomeScript({ "*": "ok" });

export function simulateRun(scenario: RunScenario): RunSimulation {
  const story = new RunStory(scenario);
  const { startAt = START, untilMs, cancelMs } = scenario;
  const { world } = story;
  if (cancelMs !== undefined) {
    world.play(startAt + cancelMs);
    world.cancel();
  }
  world.play(untilMs === undefined ? undefined : startAt + untilMs);
  return story.simulation();
}

class RunStory {
  readonly world: SimulatedWorld;
  readonly #scenario: RunScenario;
  readonly #startAt: number;
  readonly #timeline: RunTimelineEntry[] = [];
  readonly #played = new Map<string, number>();
  #attempts = 0;

  constructor(scenario: RunScenario) {
    this.#scenario = scenario;
    this.#startAt = scenario.startAt ?? START;
    this.world = new SimulatedWorld(scenario.playbook, scenario.input ?? {}, {
      startAt: this.#startAt,
      playbooks: scenario.playbooks ?? (() => null),
      isPlayed: (step) => this.#own(step) !== undefined,
      play: (step) => this.#play(step),
      random: scenario.random ?? (() => MIDDLE),
      seen: (happening) => this.#see(happening),
      maxEvents: scenario.maxEvents ?? MAX_EVENTS,
    });
  }

  simulation(): RunSimulation {
    const { root, stopped, now } = this.world;
    const { end } = root.progress.state;
    const run = runInfo(root);
    return {
      timeline: this.#timeline,
      end: {
        state: run.state,
        reason: run.reason,
        step: run.failedStep,
        message: end?.message ?? root.failure?.message ?? null,
        result: run.result ?? null,
        totalMs: (root.job.finishedAt ?? now) - this.#startAt,
        steps: root.progress.made,
        attempts: this.#attempts,
        stopped: run.state === "running" ? stopped : null,
      },
      run,
      steps: [...root.rows.values()].map((row) => stepInfo(root, row.n)),
      progress: root.progress,
      events: root.events,
    };
  }

  /** The script's list for a step, and under which name it is counted. */
  #own(step: SimulatedStepJob): readonly [name: string, list: readonly ScriptedOutcome[]] | undefined {
    const { outcomes } = this.#scenario;
    const { prefix } = step.run;
    for (const name of new Set([stepName(step), step.row.node])) {
      for (const key of new Set([`${prefix}${name}`, name])) {
        const list = outcomes?.get(key);
        if (list !== undefined) return [`${prefix}${stepName(step)}`, list];
      }
    }
    return undefined;
  }

  #play(step: SimulatedStepJob) {
    const own = this.#own(step);
    const name = own?.[0] ?? `${step.run.prefix}${stepName(step)}`;
    const count = this.#played.get(name) ?? 0;
    this.#played.set(name, count + 1);
    const list = own?.[1] ?? this.#default(step);
    const { played, takesMs, output } = (list[count] ?? list.at(-1)) as ScriptedOutcome;
    const takes = takesMs ?? this.#scenario.takesMs ?? 0;
    const { timeoutMs } = step.job;
    const isTimeout = played.word === "timeout" && timeoutMs !== null;
    return {
      word: played.word,
      kind: played.kind,
      takesMs: isTimeout ? timeoutMs : timeoutMs === null ? takes : Math.min(takes, timeoutMs),
      outcome: (job: Job, endsAt: number) => resultOf(step.type, played.outcome(job, endsAt), output),
    };
  }

  #default({ type }: SimulatedStepJob): readonly ScriptedOutcome[] {
    const { outcomes, failureRate = 0, random } = this.#scenario;
    if (random !== undefined && random() < failureRate) return type === "http" ? HTTP_FAILURE : FAILURE;
    return outcomes?.get("*") ?? (EVERYTHING.get("*") as readonly ScriptedOutcome[]);
  }

  #see(happening: Happening): void {
    if (happening.kind === "attempt") {
      this.#attempts += 1;
      this.#timeline.push(this.#attempt(happening));
      return;
    }
    const { run, at, plan } = happening;
    for (const { event } of plan.transitions) {
      if (event.name === "run.advanced") for (const change of event.data.changes) this.#change(run, at, change);
      if (event.name === "run.ended") this.#note(run, at, null, "run", endText(event.data));
    }
  }

  #note(run: SimulatedRun, at: number, step: string | null, kind: RunTimelineEntry["kind"], text: string): void {
    this.#timeline.push({
      atMs: at - this.#startAt,
      step: step === null ? run.prefix : `${run.prefix}${step}`,
      kind,
      text,
    });
  }

  #attempt({ step, at, before, play, outcome, settled }: Happening & { kind: "attempt" }): RunTimelineEntry {
    const { decision, event, next } = settled;
    const base = {
      atMs: at - this.#startAt,
      step: `${step.run.prefix}${stepName(step)}`,
      kind: "attempt" as const,
    };
    const what = play.kind === "wait" ? play.word : `attempt ${before.attempt}: ${play.word}`;
    if (decision.kind === "succeed") return { ...base, text: what };
    const kept = { ...event, at, n: 1, seq: 1, jobId: before.id } as DecidedEvent;
    const isAtMostOnce = endsAtMostOnce(kept, before.policy.maxAttempts);
    const deferred = decision.kind === "retry" && next.defers > before.defers;
    const why = because({ event: kept, after: next, deferred, cancel: null, isAtMostOnce });
    if (decision.kind === "retry") {
      const range = [0, 1].map((draw) => delayAt(before, outcome, at, draw)) as unknown as MsRange;
      const span = range[0] === range[1] ? "" : ` (${showMs(range[0])} to ${showMs(range[1])})`;
      const text = `${what}; retrying in ${showMs(decision.delay.delayMs)}${span}: ${why}`;
      return { ...base, text, delayRangeMs: range };
    }
    return {
      ...base,
      text: `${what}; ${decision.kind === "fail" ? `failed (${decision.reason})` : "cancelled"}: ${why}`,
    };
  }

  #change(run: SimulatedRun, at: number, change: RunChange): void {
    const nameOf = (index: number, item = -1) => {
      const name = run.playbook.steps[index]?.name ?? "?";
      return item < 0 ? name : `${name}[${item}]`;
    };
    switch (change.do) {
      case "start": {
        const { step, item, visit, items, due } = change;
        const again = visit > 1 ? `, visit ${visit}` : "";
        const what = items === undefined ? "" : ` with ${counted(items, "item")}`;
        const wait = due === undefined ? "" : `; waits ${showMs(due - at)}`;
        this.#note(run, at, nameOf(step, item), "started", `started${what}${again}${wait}`);
        return;
      }
      case "end": {
        const why = change.why === undefined ? "" : `: ${showText(change.why)}`;
        const state = change.state === "handled" ? "failed, and handled" : change.state;
        this.#note(run, at, nameOf(change.step, change.item), "ended", `${state}${why}`);
        return;
      }
      case "route":
        for (const [i, arc] of (run.playbook.steps[change.step] as PlaybookStep).arcs.entries()) {
          const error = change.errors?.[i];
          const answer = change.taken.includes(i) ? "taken" : error === undefined ? "not taken" : `not taken: ${error}`;
          this.#note(run, at, nameOf(change.step), "arc", `→ ${nameOf(arc.to)}${conditionText(arc)}: ${answer}`);
        }
        return;
      case "fail":
        this.#note(
          run,
          at,
          null,
          "run",
          `fails: ${showText(change.cause.message ?? change.cause.reason ?? change.cause.state)}`,
        );
        return;
      case "phase":
        if (change.phase !== "ended") this.#note(run, at, null, "run", `phase ${change.phase}`);
        return;
      default:
        return;
    }
  }
}

const HTTP_FAILURE = outcomeScript({ x: 503 }).get("x") as readonly ScriptedOutcome[];
const FAILURE = outcomeScript({ x: "fail" }).get("x") as readonly ScriptedOutcome[];

function delayAt(job: Job, outcome: Parameters<typeof decide>[1], at: number, draw: number): number {
  const free = { ...job, policy: { ...job.policy, maxElapsedMs: null } };
  const decision = decide(free, outcome, at, draw);
  return decision.kind === "retry" ? decision.delay.delayMs : 0;
}

function endText({
  state,
  reason,
  message,
  step,
}: {
  state: string;
  reason: string | null;
  message: string | null;
  step: string | null;
}) {
  const at = step === null ? "" : `: step ${step}`;
  const why = message === null ? "" : `: ${showText(message)}`;
  return `${state}${reason === null || reason === "step" ? "" : ` (${reason})`}${at}${why}`;
}

/** The timeline as lines: instant, step, what happened. */
export function timelineLines({ timeline }: RunSimulation): string[] {
  const shown = timeline.map(({ atMs, step, text }) => [showMs(atMs), step === "" ? "run" : step, text] as const);
  const [left, middle] = [0, 1].map((i) =>
    Math.min(40, Math.max(0, ...shown.map((each) => (each[i] as string).length))),
  );
  return shown.map(([at, step, text]) => `${at.padStart(left as number)}  ${step.padEnd(middle as number)}  ${text}`);
}
