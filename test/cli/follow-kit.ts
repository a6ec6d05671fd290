/** The two targets of commands, each with a worker for commands: a local data directory and a server. And commands that
 *  run while a test does other things. */
import { mkdtempSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Io } from "../../src/cli/io.ts";
import { main } from "../../src/cli/main.ts";
import { Perdure as Client } from "../../src/client/connect.ts";
import type { JobHandle } from "../../src/core/api/jobs.ts";
import type { Perdure as Face } from "../../src/core/api.ts";
import { exec } from "../../src/core/input/builtin.ts";
import type { AnyTask, SubmitOptions } from "../../src/core/task/task.ts";
import type { WorkerHandle } from "../../src/core/task/work-options.ts";
import { Perdure } from "../../src/embedded/perdure.ts";
import { connectWorker } from "../../src/worker/connect-worker.ts";
import { startServer } from "../server/kit.ts";
import { testIo } from "./kit.ts";

export interface TestTarget {
  readonly perdure: Face;
  /** The directory of the test; scripts run in it. */
  readonly dir: string;
  /** The variables that select this target for a command. */
  readonly env: Readonly<Record<string, string>>;
  /** Starts a worker for commands and these tasks. */
  work(tasks?: readonly AnyTask[]): Promise<void>;
  /** Submits a shell script, with up to three attempts. */
  script(script: string, options?: SubmitOptions): Promise<JobHandle<unknown>>;
  close(): Promise<void>;
}

function newDir(): string {
  return realpathSync(mkdtempSync(join(tmpdir(), "perdure-target-")));
}

function scripts(perdure: Face, dir: string): TestTarget["script"] {
  const retry = { maxAttempts: 3, backoff: { type: "none" } } as const;
  return (script, options = {}) =>
    perdure.submit(exec, { argv: ["sh", "-c", script], cwd: dir }, { retry, ...options });
}

export async function localTarget(): Promise<TestTarget> {
  const dir = newDir();
  const perdure = await Perdure.open(join(dir, "perdure.db"));
  return {
    ...{ perdure, dir, env: { PERDURE_DATA: dir }, script: scripts(perdure, dir) },
    work: async (tasks = []) => void (await perdure.work([exec, ...tasks])),
    async close() {
      await perdure.close({ grace: 0 });
      rmSync(dir, { recursive: true, force: true });
    },
  };
}

export async function serverTarget(): Promise<TestTarget & { readonly url: string; readonly token: string }> {
  const dir = newDir();
  const server = await startServer();
  const { url, admin: token } = server;
  const perdure = await Client.connect(url, { token });
  const workers: WorkerHandle[] = [];
  return {
    ...{ url, token, perdure, dir, env: { PERDURE_URL: url, PERDURE_TOKEN: token }, script: scripts(perdure, dir) },
    async work(tasks = []) {
      workers.push(await connectWorker(url, [exec, ...tasks], { token, dir: join(dir, "worker"), logger: () => {} }));
    },
    async close() {
      for (const worker of workers) await worker.stop({ grace: 0 });
      await perdure.close();
      await server.close();
      rmSync(dir, { recursive: true, force: true });
    },
  };
}

export interface Running {
  readonly io: ReturnType<typeof testIo>;
  readonly ended: Promise<number>;
  /** Resolves when stdout or stderr contains the text. */
  untilPrinted(text: string): Promise<void>;
}

export function startMain(argv: readonly string[], parts: Partial<Io> = {}): Running {
  const io = testIo(parts);
  const ended = main(argv, io);
  return { io, ended, untilPrinted: (text) => untilPrinted(io, ended, text) };
}

async function untilPrinted({ stdout, stderr }: Running["io"], ended: Promise<number>, text: string): Promise<void> {
  const isPrinted = () => stdout.text.includes(text) || stderr.text.includes(text);
  const over = new AbortController();
  const printed = new Promise<void>((resolve) => {
    const check = () => isPrinted() && resolve();
    for (const stream of [stdout, stderr]) {
      stream.on("kept", check);
      over.signal.addEventListener("abort", () => stream.off("kept", check));
    }
    check();
  });
  await Promise.race([printed, ended]);
  over.abort();
  if (!isPrinted()) throw new Error(`it ended without printing ${text}: ${stdout.text}${stderr.text}`);
}

/** Shell code that waits until the file exists. */
export const untilThere = (file: string) => `while [ ! -e ${file} ]; do sleep 0.1; done`;
