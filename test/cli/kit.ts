/** The command line inside a test: `main` with captured streams, and a data directory that the library filled. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Writable } from "node:stream";
import type { Io } from "../../src/cli/io.ts";
import { main } from "../../src/cli/main.ts";
import { NonRetryableError } from "../../src/core/decision/failure.ts";
import type { PerdureEvent } from "../../src/core/job/event.ts";
import { task } from "../../src/core/task/task.ts";
import { Perdure } from "../../src/embedded/perdure.ts";
import { systemClock } from "../../src/lib/system-clock.ts";
import { openStore } from "../../src/store/open.ts";
import { openDatabase } from "../../src/store/sqlite/driver.ts";
import type { Store } from "../../src/store/store.ts";

export interface Said {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Captures what is written and emits `kept` each time; after `breakAfter` writes, each write fails with `code`, like a pipe
 *  without a reader. */
export class Kept extends Writable {
  text = "";
  #left: number;
  readonly #code: string;

  constructor(breakAfter = Number.POSITIVE_INFINITY, code = "EPIPE") {
    super({ decodeStrings: false, autoDestroy: false });
    this.#left = breakAfter;
    this.#code = code;
  }

  override _write(chunk: string, _encoding: string, done: (error?: Error) => void): void {
    if (this.#left <= 0) {
      done(Object.assign(new Error(`write ${this.#code}`), { code: this.#code }));
      return;
    }
    this.#left -= 1;
    this.text += chunk;
    done();
    this.emit("kept");
  }
}

export function testIo(parts: Partial<Io> = {}): Io & { readonly stdout: Kept; readonly stderr: Kept } {
  const kept = { stdout: new Kept(), stderr: new Kept() };
  return { env: {}, cwd: tmpdir(), isTTY: false, columns: undefined, ...kept, ...parts } as ReturnType<typeof testIo>;
}

export async function perdure(argv: readonly string[], parts: Partial<Io> = {}): Promise<Said> {
  const io = testIo(parts);
  const code = await main(argv, io);
  return { code, stdout: io.stdout.text, stderr: io.stderr.text };
}

/** Runs a command in this directory. */
export function perdureAt({ cwd }: Pick<Io, "cwd">, argv: readonly string[], env: Io["env"] = {}): Promise<Said> {
  return perdure(argv, { cwd, env });
}

/** `perdure run … -- sh -c script`, in this process: a fifth of the cost of a separate one. */
export function scriptAt(
  place: Pick<Io, "cwd">,
  options: readonly string[],
  script: string,
  env?: Io["env"],
): Promise<Said> {
  return perdureAt(place, ["run", ...options, "--", "sh", "-c", script], env);
}

export interface Stock {
  readonly dir: string;
  /** By state. */
  readonly ids: Readonly<Record<"done" | "failed" | "waiting" | "exec", string>>;
  remove(): void;
}

/** Text of a hostile job, meant for the terminal of its reader. */
export const HOSTILE = "\x1b[2J\x1b]0;owned\x07\u202egpj.exe\u200b\u009b31m\r\nsecond line";

/** A job that failed once and then succeeded, one that failed finally, one that waits, and a command that waits. */
export async function stocked(): Promise<Stock> {
  const dir = mkdtempSync(join(tmpdir(), "perdure-cli-"));
  const retry = { maxAttempts: 3, backoff: { initial: "1ms", jitter: 0 } } as const;
  const flaky = task("flaky", { retry }, (_input: { n: number }, ctx) => {
    if (ctx.attempt === 1) throw new Error("connection reset");
    return { width: 640 };
  });
  const hopeless = task("hopeless", { retry }, () => {
    throw new NonRetryableError(`no such image ${HOSTILE}`);
  });
  const engine = await Perdure.open(join(dir, "perdure.db"));
  try {
    await engine.work([flaky, hopeless], { name: "worker-1" });
    const done = await engine.submit(flaky, { n: 1 }, { tags: ["red"], key: "img-1" });
    await done.result();
    const failed = await engine.submit(hopeless, undefined, { queue: "images" });
    await failed.result().catch(() => {});
    const waiting = await engine.submit("later", { secret: 1 }, { delay: "1h" });
    const exec = await engine.submit("exec", { argv: ["./flaky.sh", "--name", `a b${HOSTILE}`] }, { delay: "1h" });
    const ids = { done: done.id, failed: failed.id, waiting: waiting.id, exec: exec.id };
    return { dir, ids, remove: () => rmSync(dir, { recursive: true, force: true }) };
  } finally {
    await engine.close();
  }
}

/** The store of a data directory, without an engine, which would change it. */
async function withStore<T>(dir: string, use: (store: Store) => Promise<T>): Promise<T> {
  const url = join(dir, "perdure.db");
  const newSecret = () => "x".repeat(32);
  const store = await openStore({ url, clock: systemClock, random: Math.random, newSecret });
  try {
    return await use(store);
  } finally {
    await store.close();
  }
}

export function eventsIn(dir: string): Promise<readonly PerdureEvent[]> {
  return withStore(dir, async (store) => (await store.events.page({ after: 0, limit: 10_000 })).events);
}

/** Claims all jobs of kind `k` and all commands as a worker that has been silent for a minute; with `isGone`, its process
 *  has ended. */
export function claimAndVanish(dir: string, isGone = false): Promise<void> {
  return withStore(dir, async (store) => {
    const then = Date.now() - 60_000;
    const session = { id: "ses_gone", namespace: "default", name: "gone", host: "elsewhere", pid: 1, leaseMs: 15_000 };
    await store.sessions.open({ ...session, kinds: ["k", "exec"], queues: null, labels: {}, slots: 10 }, then);
    await store.claim([{ session: session.id, limit: 10, claimId: null }], then);
    if (isGone) await store.sessions.close(session.id, then, "gone");
  });
}

/** Deletes all sessions, as if rows were deleted or a backup was restored in part. */
export async function dropSessions(dir: string): Promise<void> {
  const db = await openDatabase(join(dir, "perdure.db"));
  db.exec("delete from session");
  db.close();
}

/** Characters that must never reach a terminal: controls except LF and TAB, bidi and zero-width characters. */
export const DANGEROUS =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: the pattern searches for them.
  /[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\u{e0000}-\u{e007f}]/u;

// biome-ignore lint/suspicious/noControlCharactersInRegex: the pattern searches for them.
const COLOUR = /\x1b\[\d+m/g;

/** Removes the colours that Perdure adds. */
export function uncoloured(text: string): string {
  return text.replaceAll(COLOUR, "");
}
