/** Group commit on one connection. Calls that arrive before the next turn of the event loop share one transaction; each
 *  verb gets its items as one list. A group that fails because of its data is rolled back, split in halves and repeated
 *  until only the invalid item is refused. A disk error refuses the whole group.
 *
 *  Another process may hold the write lock. SQLite would wait for it in a blocking call, so we try without waiting and
 *  retry a few milliseconds later (with a long busy_timeout one of four processes starved, and its event loop was
 *  blocked for 2.9 s). */
import { PerdureError } from "../../core/errors.ts";
import type { RefusedItem } from "../../core/worker-protocol.ts";
import type { Clock } from "../../lib/clock.ts";
import { type Database, rollback, SQLITE, sqliteCode } from "./driver.ts";
import { diskError, isDamage } from "./error-classes.ts";
import { type FilesInPlace, MisplacedFile } from "./files-in-place.ts";

/** The disk failed during a write, or the file is no longer at its path. */
export interface BrokenStore {
  readonly cause: string;
  /** When the database will be reopened; null: the file itself is damaged, and it will not. */
  readonly opensWhen: string | null;
}

/** What a writer reports to the wrapper that reopens the database. */
export interface FileWatch {
  readonly onBroken: (broken: BrokenStore) => void;
  readonly misplaced: FilesInPlace;
  /** A commit succeeded. */
  readonly onCommit?: () => void;
}

/** Turns and timers; the time itself is passed by callers. */
export type WriterClock = Pick<Clock, "after" | "turn">;

export interface SqliteVerb<Item, Answer> {
  /** Order of verbs within a group: reports free slots before claims fill them. */
  readonly order: number;
  /** Runs inside the transaction. Must not keep state that a rollback would make wrong. */
  run(items: readonly Item[]): Answer[];
  /** The answer for an item that the store rejects; without it the call is rejected. */
  refuse?(item: Item, error: unknown): Answer;
  /** How many usual items this one costs; without it, each is one. */
  weight?(item: Item): number;
}

interface WriteCall {
  readonly verb: SqliteVerb<unknown, unknown>;
  readonly items: readonly unknown[];
  readonly weight: number;
  readonly answers: unknown[];
  error: unknown;
  resolve(answers: unknown[]): void;
  reject(error: unknown): void;
}

/** Consecutive items of one call. */
interface WritePiece {
  readonly call: WriteCall;
  readonly from: number;
  readonly to: number;
}

/** Limits how long one transaction blocks the event loop. */
const MAX_GROUP_ITEMS = 4_000;
export const BUSY_WAIT_MS = 4;
/** A lock held longer than this is reported. */
const REPORT_LOCK_AFTER_MS = 10_000;
/** How long closing the store waits for the lock. */
const CLOSE_WAIT_MS = 10_000;

export function isLocked(error: unknown): boolean {
  const code = sqliteCode(error);
  return code === SQLITE.BUSY || code === SQLITE.LOCKED;
}

export class Writer {
  readonly #db: Database;
  readonly #clock: WriterClock;
  readonly #random: () => number;
  readonly #report: (message: string) => void;
  readonly #onRollback: () => void;
  readonly #watch: FileWatch | null;
  #queue: WriteCall[] = [];
  #scheduled = false;
  #broken: PerdureError | null = null;
  #idle: (() => void)[] = [];

  /** `watch`: callbacks for the wrapper that reopens the database; null if there is none. */
  constructor(
    db: Database,
    clock: WriterClock,
    random: () => number,
    report: (message: string) => void,
    onRollback: () => void,
    watch: FileWatch | null = null,
  ) {
    this.#report = report;
    this.#db = db;
    this.#clock = clock;
    this.#random = random;
    this.#onRollback = onRollback;
    this.#watch = watch;
  }

  /** True: this handle writes and flushes nothing more. */
  get isBroken(): boolean {
    return this.#broken !== null;
  }

  submit<Item, Answer>(verb: SqliteVerb<Item, Answer>, items: readonly Item[]): Promise<Answer[]> {
    if (items.length === 0) return Promise.resolve([]);
    if (this.#broken !== null) return Promise.reject(this.#broken);
    return new Promise((resolve, reject) => {
      this.#queue.push({
        verb: verb as unknown as SqliteVerb<unknown, unknown>,
        items,
        weight: weightOf(verb, items),
        answers: new Array(items.length),
        error: null,
        resolve: resolve as (answers: unknown[]) => void,
        reject,
      });
      this.#schedule();
    });
  }

  /** Resolves when nothing waits to be written; what cannot be written in time is refused. */
  async drained(): Promise<void> {
    if (this.#queue.length === 0) return;
    const message = "another process has kept the database locked; nothing of this call was stored";
    const cancel = this.#clock.after(CLOSE_WAIT_MS, () => this.#refuseAll(new PerdureError("store_io", message)));
    await new Promise<void>((resolve) => this.#idle.push(resolve));
    cancel();
  }

  #schedule(delayMs: number | null = null): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    const flush = () => {
      this.#scheduled = false;
      this.#flush();
    };
    if (delayMs === null) this.#clock.turn(flush);
    else this.#clock.after(delayMs, flush);
  }

  #flush(): void {
    if (!this.#begin()) return;
    const calls = this.#take();
    let isCommitting = false;
    try {
      this.#attempt(calls.map((call) => ({ call, from: 0, to: call.items.length })));
      isCommitting = true;
      this.#db.exec("commit");
      this.#checkPlace();
      this.#watch?.onCommit?.();
    } catch (error) {
      this.#rollback();
      const found = this.#diskError(error);
      const refused = isCommitting && found !== null && this.#broken !== null ? unknown(found) : (found ?? error);
      for (const call of calls) call.error = refused;
    }
    for (const call of calls) finish(call);
    if (this.#broken !== null) this.#refuseAll(this.#broken);
    else if (this.#queue.length > 0) this.#schedule();
    else for (const resolve of this.#idle.splice(0)) resolve();
  }

  /** Before a transaction, because beside another database at this path SQLite would read that one's index of the log.
   *  Also after the commit: acknowledged data must be in the file that the next process opens. Costs two stats; a
   *  commit costs a flush. */
  #checkPlace(): void {
    const misplaced = this.#watch?.misplaced() ?? null;
    if (misplaced !== null) throw new MisplacedFile(misplaced.message);
  }

  #refuseAll(error: unknown): void {
    for (const call of this.#queue.splice(0)) call.reject(error);
    for (const resolve of this.#idle.splice(0)) resolve();
  }

  /** False if the lock is taken: the group then waits, and grows. */
  #begin(): boolean {
    try {
      this.#checkPlace();
      this.#db.exec("begin immediate");
      this.#lockedMs = 0;
      return true;
    } catch (error) {
      if (isLocked(error)) {
        const waitMs = this.#random() * BUSY_WAIT_MS;
        this.#reportLock(waitMs);
        this.#schedule(waitMs);
        return false;
      }
      this.#refuseAll(this.#diskError(error) ?? error);
      return false;
    }
  }

  #lockedMs = 0;

  /** Once per lock: someone with an open transaction in another program may not know about it. */
  #reportLock(waitMs: number): void {
    const before = this.#lockedMs;
    this.#lockedMs += waitMs;
    if (before >= REPORT_LOCK_AFTER_MS || this.#lockedMs < REPORT_LOCK_AFTER_MS) return;
    this.#report(
      `another process has kept the database locked for ${REPORT_LOCK_AFTER_MS / 1_000} s; writes are waiting`,
    );
  }

  #take(): WriteCall[] {
    let weight = 0;
    let count = 0;
    for (const call of this.#queue) {
      if (count > 0 && weight + call.weight > MAX_GROUP_ITEMS) break;
      weight += call.weight;
      count += 1;
    }
    return this.#queue.splice(0, count).sort((a, b) => a.verb.order - b.verb.order);
  }

  /** Runs these pieces, all or none; after a data error, their halves. Throws only errors that concern the whole group.
   *  Uses savepoints rather than transactions, so that the write lock is held for the whole group. */
  #attempt(pieces: readonly WritePiece[]): void {
    let answers: unknown[][];
    this.#db.exec("savepoint piece");
    try {
      answers = runPieces(pieces);
      this.#db.exec("release piece");
    } catch (error) {
      if (this.#diskError(error) !== null) throw error;
      this.#db.exec("rollback to piece; release piece");
      this.#onRollback();
      this.#bisect(pieces, error);
      return;
    }
    pieces.forEach(({ call, from, to }, i) => {
      const given = answers[i] as unknown[];
      for (let k = from; k < to; k++) call.answers[k] = given[k - from];
    });
  }

  #bisect(pieces: readonly WritePiece[], error: unknown): void {
    const [first] = pieces;
    if (pieces.length > 1 || first === undefined || first.to - first.from > 1) {
      for (const half of halves(pieces)) this.#attempt(half);
      return;
    }
    const { call, from } = first;
    if (call.verb.refuse === undefined) call.error = refusedCall(error);
    else call.answers[from] = call.verb.refuse(call.items[from], error);
  }

  #rollback(): void {
    rollback(this.#db);
    this.#onRollback();
  }

  /** What looks like damage to SQLite may be another database at our path. */
  #misplacedIn(error: unknown): MisplacedFile | null {
    if (error instanceof MisplacedFile) return error;
    const found = isDamage(error) ? (this.#watch?.misplaced() ?? null) : null;
    return found === null ? null : new MisplacedFile(found.message, { cause: error });
  }

  /** After an I/O error the contents of the disk are unknown: this handle writes nothing more. */
  #diskError(given: unknown): PerdureError | null {
    const misplaced = this.#misplacedIn(given);
    const isMisplaced = misplaced !== null;
    const error = misplaced ?? given;
    const found = isMisplaced ? downError(error) : diskError(error);
    if (!isMisplaced && found?.code !== "store_io") return found;
    if (this.#broken !== null) return this.#broken;
    const opensWhen = isMisplaced ? "the file is back" : isDamage(error) ? null : "the disk works";
    this.#broken = opensWhen !== null && this.#watch !== null ? downError(error) : found;
    this.#watch?.onBroken({ cause: (error as Error).message, opensWhen });
    return this.#broken;
  }
}

/** The error of calls while the store is down: nothing was stored, and the call may be repeated. */
function downError(cause: unknown): PerdureError {
  const message = `the database is not accepting writes (${(cause as Error).message}); nothing of this call was stored`;
  return new PerdureError("store_unavailable", message, { cause });
}

/** A failed commit may still be found on the disk. */
function unknown(found: PerdureError): PerdureError {
  if (found.code !== "store_unavailable") return found;
  const { cause } = found;
  const what = cause instanceof MisplacedFile ? "the file was moved or replaced" : "the disk failed";
  const message = `${what} during the commit (${(cause as Error).message}); whether this call was stored is unknown`;
  return new PerdureError("store_unknown", message, { cause });
}

/** Consecutive pieces of one verb are passed to it as one list. */
function runPieces(pieces: readonly WritePiece[]): unknown[][] {
  const answers: unknown[][] = new Array(pieces.length);
  for (let i = 0; i < pieces.length; ) {
    const { verb } = (pieces[i] as WritePiece).call;
    let end = i + 1;
    while (end < pieces.length && (pieces[end] as WritePiece).call.verb === verb) end += 1;
    const group = pieces.slice(i, end);
    const all = verb.run(group.length === 1 ? itemsOf(group[0] as WritePiece) : group.flatMap(itemsOf));
    let at = 0;
    group.forEach(({ from, to }, k) => {
      answers[i + k] = all.slice(at, at + to - from);
      at += to - from;
    });
    i = end;
  }
  return answers;
}

function weightOf<Item>({ weight }: SqliteVerb<Item, unknown>, items: readonly Item[]): number {
  return weight === undefined ? items.length : items.reduce((sum, item) => sum + weight(item), 0);
}

function itemsOf({ call, from, to }: WritePiece): readonly unknown[] {
  return from === 0 && to === call.items.length ? call.items : call.items.slice(from, to);
}

function halves(pieces: readonly WritePiece[]): [WritePiece[], WritePiece[]] {
  if (pieces.length > 1) {
    const middle = pieces.length >> 1;
    return [pieces.slice(0, middle), pieces.slice(middle)];
  }
  const { call, from, to } = pieces[0] as WritePiece;
  const middle = (from + to) >> 1;
  return [[{ call, from, to: middle }], [{ call, from: middle, to }]];
}

function finish(call: WriteCall): void {
  if (call.error !== null) call.reject(call.error);
  else call.resolve(call.answers);
}

/** The answer for an item that the database rejects. */
export function refusal(error: unknown): RefusedItem {
  const message = error instanceof Error ? error.message : String(error);
  return { status: "refused", code: "store_refused", message: `the store refused this item: ${message}` };
}

/** The same for verbs whose answer cannot express a refusal. */
function refusedCall(error: unknown): PerdureError {
  if (error instanceof PerdureError) return error;
  const { code, message } = refusal(error);
  return new PerdureError(code, message, { cause: error });
}
