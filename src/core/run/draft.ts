/** The progress of a run while an advance changes it. Records are copied when the draft is made, and lists when they change
 *  first, so the progress that was loaded stays as it is, and a change costs as much as what it changes. */
import type { Mutable } from "../check.ts";
import type {
  Arrival,
  InputEdit,
  LoopCursor,
  RunChange,
  RunEndCause,
  RunPhase,
  RunProgress,
  RunState,
  StepState,
} from "./run.ts";

type DraftCursor = Mutable<LoopCursor> & { again: number[]; failed: number[] };

export class RunDraft {
  phase: RunPhase;
  open: number;
  made: number;
  readonly visits: Record<string, number>;
  readonly alive: Record<string, number>;
  readonly latest: Record<string, number>;
  readonly pending: Record<string, readonly Arrival[]>;
  readonly loops: Record<string, LoopCursor>;
  readonly tries: Record<string, readonly [number, number]>;
  readonly edits: Record<string, readonly InputEdit[]>;
  readonly ctx: Record<string, number>;
  waits: number;
  unrouted: readonly number[];
  broken: readonly number[];
  extra: number;
  end: RunEndCause | null;
  handler: number;
  last: number;
  /** Cursors that are copies of this draft. */
  readonly #own = new Set<LoopCursor>();

  constructor({ phase, open, made, state }: RunProgress) {
    this.phase = phase;
    this.open = open;
    this.made = made;
    this.visits = { ...state.visits };
    this.alive = { ...state.alive };
    this.latest = { ...state.latest };
    this.pending = { ...state.pending };
    this.loops = { ...state.loops };
    this.tries = { ...state.tries };
    this.edits = { ...state.edits };
    this.ctx = { ...state.ctx };
    this.waits = state.waits;
    this.unrouted = state.unrouted;
    this.broken = state.broken;
    this.extra = state.extra;
    this.end = state.end;
    this.handler = state.handler;
    this.last = state.last;
  }

  /** The draft is not changed afterwards. */
  progress(): RunProgress {
    const { visits, alive, latest, pending, loops, waits, unrouted, broken, tries, edits, extra, end, handler } = this;
    const state: RunState = {
      ...{ visits, alive, latest, pending, loops, waits, unrouted, broken, tries, edits, extra, end, handler },
      ...{ ctx: this.ctx, last: this.last },
    };
    return { phase: this.phase, open: this.open, made: this.made, state };
  }

  apply(change: RunChange): void {
    switch (change.do) {
      case "arrive":
        this.#arrive(change.to, change.by);
        break;
      case "absorb":
        this.#take(change.to, [change.by]);
        break;
      case "start":
        this.#start(change);
        break;
      case "end":
        this.#end(change);
        break;
      case "route":
        if (this.unrouted.length > 0) this.unrouted = this.unrouted.filter((n) => n !== change.n);
        for (const [index, to] of change.to.entries()) {
          this.#arrive(to, [change.n, change.taken[index] as number, change.step]);
        }
        break;
      case "stopLoop":
        this.#cursor(`${change.step}:${change.visit}`).stopped = true;
        break;
      case "fail":
        this.end = change.cause;
        break;
      case "phase":
        this.phase = change.phase;
        this.handler = 0;
        break;
      case "handler":
        this.handler++;
        break;
      case "set":
        for (const [index, name] of change.names.entries()) this.ctx[name] = change.chars[index] as number;
        break;
      case "edit":
        this.edits[change.step] = change.edits;
        break;
      case "resume":
        this.phase = "forward";
        this.end = null;
        this.handler = 0;
        this.broken = [];
        for (const step of Object.keys(this.edits)) delete this.edits[step];
        break;
      case "rewind":
        this.#rewind(change.step, change.visit, change.try);
        break;
      case "reloop": {
        const cursor = this.#cursor(`${change.step}:${change.visit}`);
        cursor.again = [...change.items];
        cursor.try = change.try;
        cursor.failed = [];
        cursor.stopped = false;
        cursor.isOver = false;
        add(this.alive, change.step, 1);
        break;
      }
      case "reopen":
        add(this.alive, change.step, 1);
        this.open++;
        break;
      case "forget":
        for (const step of change.steps) {
          this.#rewind(step, 1, change.try);
          delete this.latest[step];
          delete this.pending[step];
        }
        this.unrouted = this.unrouted.filter((n) => !change.rows.includes(n));
        break;
      case "remap":
        this.#remap(change.names, change.to);
        break;
    }
  }

  #arrive(to: number, by: Arrival): void {
    const waiting = this.pending[to];
    this.pending[to] = waiting === undefined ? [by] : [...waiting, by];
  }

  /** Arrivals that are not there are none that waited: those of a handler, or of a step that starts again. */
  #take(to: number, by: readonly Arrival[]): void {
    const left = this.pending[to]?.filter(([from, arc]) => !by.some((each) => each[0] === from && each[1] === arc));
    if (left === undefined) return;
    if (left.length === 0) delete this.pending[to];
    else this.pending[to] = left;
  }

  #start(change: RunChange & { do: "start" }): void {
    const { step, visit } = change;
    this.made = change.n;
    if ((change.try ?? 1) > 1 || this.phase === "failing" || this.phase === "finally") this.extra++;
    if (change.due !== undefined) this.waits++;
    if (change.items === undefined) this.open++;
    if (change.item !== undefined) {
      const cursor = this.#cursor(`${step}:${visit}`);
      cursor.open++;
      if (cursor.again.length > 0) cursor.again.shift();
      else cursor.next++;
      return;
    }
    add(this.alive, step, 1);
    this.visits[step] = Math.max(this.visits[step] ?? 0, visit);
    if (change.by !== undefined) this.#take(step, change.by);
    else delete this.pending[step];
    if (change.items === undefined) return;
    const cursor: DraftCursor = {
      ...{ n: change.n, total: change.items, next: 0, again: [], try: change.try ?? 1 },
      ...{ open: 0, succeeded: 0, failed: [], stopped: false, isOver: false },
    };
    this.#own.add(cursor);
    this.loops[`${step}:${visit}`] = cursor;
  }

  #end(change: RunChange & { do: "end" }): void {
    const { n, step, visit, state } = change;
    const isBroken = state === "failed" || state === "cancelled";
    if (change.wait) this.waits--;
    if (change.item !== undefined) {
      this.open--;
      const cursor = this.#cursor(`${step}:${visit}`);
      cursor.open--;
      if (isBroken) cursor.failed.push(change.item);
      else cursor.succeeded++;
      return;
    }
    add(this.alive, step, -1);
    const key = `${step}:${visit}`;
    if (this.loops[key]?.n !== n) this.open--;
    else if (isBroken) this.#cursor(key).isOver = true;
    else delete this.loops[key];
    this.latest[step] = Math.max(this.latest[step] ?? 0, n);
    if (isBroken) this.broken = [...this.broken, n];
    else if (change.unrouted) this.unrouted = [...this.unrouted, n];
    if (hasOutput(state) && change.output !== false && this.phase === "forward") this.last = n;
    if (this.edits[step] !== undefined) delete this.edits[step];
  }

  #rewind(step: number, visit: number, attempt: number): void {
    const until = Math.max(this.visits[step] ?? 0, this.tries[step]?.[1] ?? 0);
    for (const key of Object.keys(this.loops)) {
      const [index, at] = key.split(":").map(Number);
      if (index === step && (at as number) >= visit) delete this.loops[key];
    }
    if (until === 0) return;
    this.tries[step] = [attempt, until];
    this.visits[step] = visit - 1;
  }

  #remap(names: readonly string[], to: readonly number[]): void {
    for (const record of [this.visits, this.alive, this.latest, this.tries, this.edits, this.pending]) {
      const before = Object.entries(record);
      for (const [step] of before) delete record[step];
      for (const [step, value] of before) {
        const index = to[Number(step)] ?? -1;
        if (index >= 0) (record as Record<string, unknown>)[index] = value;
      }
    }
    for (const [key, cursor] of Object.entries(this.loops)) {
      delete this.loops[key];
      const [step, visit] = key.split(":");
      const index = to[Number(step)] ?? -1;
      if (index >= 0) this.loops[`${index}:${visit}`] = cursor;
    }
    // Which arc it was is not known any more, so its data is not either.
    const moved = ([from, , step]: Arrival): Arrival => [from, -1, step < names.length ? (to[step] ?? -1) : -1];
    for (const [step, arrivals] of Object.entries(this.pending)) this.pending[step] = arrivals.map(moved);
  }

  #cursor(key: string): DraftCursor {
    const cursor = this.loops[key] as LoopCursor;
    if (this.#own.has(cursor)) return cursor as DraftCursor;
    const own: DraftCursor = { ...cursor, again: [...cursor.again], failed: [...cursor.failed] };
    this.#own.add(own);
    this.loops[key] = own;
    return own;
  }
}

/** Steps see their arrivals in the order of the file, in whichever order they came. */
export function inFileOrder(arrivals: readonly Arrival[]): readonly Arrival[] {
  return arrivals.length < 2 ? arrivals : [...arrivals].sort((a, b) => a[2] - b[2] || a[1] - b[1] || a[0] - b[0]);
}

function hasOutput(state: StepState): boolean {
  return state === "succeeded" || state === "handled";
}

function add(record: Record<string, number>, key: number, by: number): void {
  const sum = (record[key] ?? 0) + by;
  if (sum === 0) delete record[key];
  else record[key] = sum;
}
