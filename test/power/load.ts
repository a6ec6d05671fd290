/** What runs on the disk until its power is cut: `perdure up` with jobs submitted to it, and `perdure run`. Records
 *  what they acknowledged, which must still exist afterwards. */
import { type ChildProcess, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { closeSync, existsSync, openSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { PerdureClient } from "../../src/client/client.ts";
import { Perdure } from "../../src/client/connect.ts";
import type { Duration } from "../../src/core/duration.ts";
import { PerdureError } from "../../src/core/errors.ts";
import { sleep } from "../../src/lib/clock.ts";
import { systemClock } from "../../src/lib/system-clock.ts";

const PROGRAM = fileURLToPath(new URL("../../dist/cli/main.js", import.meta.url));
const START_MS = 60_000;

/** Prints a line and leaves two files, one of them in a folder. Reads what was piped into its job. */
const COMMAND = [
  'echo "out $0"; echo "err $0" >&2; mkdir "$PERDURE_OUTPUT_DIR/artifacts/deep"',
  'seq 1 2000 | sed "s/^/$0 /" > "$PERDURE_OUTPUT_DIR/artifacts/deep/list"; cat > "$PERDURE_OUTPUT_DIR/artifacts/piped"',
].join("; ");

/** An acknowledged job; `files` once its end was reported. */
export interface Acknowledged {
  readonly id: string;
  readonly word: string;
  readonly piped: string;
  files: ReadonlyMap<string, string> | null;
}

export const sha256 = (data: string | Uint8Array): string => createHash("sha256").update(data).digest("hex");

/** The expected contents of a job's files. */
export function filesOf(word: string, piped: string): ReadonlyMap<string, string> {
  const list = Array.from({ length: 2_000 }, (_, i) => `${word} ${i + 1}\n`).join("");
  return new Map([
    ["stdout.log", sha256(`out ${word}\n`)],
    ["stderr.log", sha256(`err ${word}\n`)],
    ["artifacts/deep/list", sha256(list)],
    ["artifacts/piped", sha256(piped)],
  ]);
}

export interface Up {
  readonly child: ChildProcess;
  readonly token: string;
  readonly client: PerdureClient;
  readonly lines: () => string;
}

/** Resolves when it reports that it is ready: from then on its tokens must survive. */
export async function startUp(dir: string, env: NodeJS.ProcessEnv, patience: Duration = 0): Promise<Up> {
  const args = ["up", "--data", dir, "--port", "0", "--concurrency", "4", "--grace", "1s"];
  const child = spawn(process.execPath, [PROGRAM, ...args], { stdio: ["ignore", "pipe", "pipe"], env });
  let text = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => (text += chunk));
  const deadline = Date.now() + START_MS;
  for (;;) {
    if (child.exitCode !== null || Date.now() > deadline) throw new Error(`perdure up did not start:\n${text}`);
    const url = urlIn(join(dir, "server.json"), child.pid as number);
    if (url !== null) {
      const token = readFileSync(join(dir, "token"), "utf8").trim();
      const client = await Perdure.connect(url, { token, patience });
      return { child, token, client, lines: () => text };
    }
    await sleep(systemClock, 10);
  }
}

function urlIn(path: string, pid: number): string | null {
  if (!existsSync(path)) return null;
  try {
    const found = JSON.parse(readFileSync(path, "utf8")) as { url: string | null; pid: number };
    return found.pid === pid ? found.url : null;
  } catch {
    return null;
  }
}

/** Submits one job after another, every second one with piped input, until it is stopped; waits for their ends
 *  concurrently. */
export async function submitTo(client: PerdureClient, name: string, signal: AbortSignal, acks: Acknowledged[]) {
  const waits: Promise<void>[] = [];
  for (let i = 0; !signal.aborted; i++) {
    const word = `${name}-${i}`;
    const piped = i % 2 === 0 ? "" : `piped into ${word}\n`.repeat(50);
    try {
      const uploaded = piped === "" ? null : await client.upload(pieces(piped));
      const argv = ["sh", "-c", COMMAND, word] as const;
      const stdinFile = uploaded === null ? {} : { stdinFile: { bytes: uploaded.bytes, sha256: uploaded.sha256 } };
      const upload = uploaded === null ? {} : { upload: uploaded.id };
      const job = await client.submit("exec", { argv, ...stdinFile }, { key: word, ...upload });
      const ack: Acknowledged = { id: job.id, word, piped, files: null };
      acks.push(ack);
      const end = job.result({ signal }).then(() => {
        ack.files = filesOf(word, piped);
      });
      waits.push(end.catch(() => {}));
    } catch (error) {
      if (signal.aborted) continue;
      // On a busy machine: nothing was stored, so the same job is submitted again.
      if (!(error instanceof PerdureError && error.code === "overloaded")) throw error;
      i -= 1;
      await sleep(systemClock, 200);
    }
  }
  await Promise.all(waits);
}

async function* pieces(text: string): AsyncGenerator<Uint8Array> {
  yield Buffer.from(text);
}

/** Commands of `perdure run`, one after the other. `running` is the one that has not ended. */
export class Runs {
  running: ChildProcess | null = null;
  #isStopped = false;

  stop(): void {
    this.#isStopped = true;
  }

  async go(dir: string, name: string, env: NodeJS.ProcessEnv, acks: Acknowledged[]): Promise<void> {
    for (let i = 0; !this.#isStopped; i++) {
      const word = `${name}-${i}`;
      const args = ["run", "--data", dir, "--json", "--", "sh", "-c", COMMAND, word];
      const piped = `piped into ${word}\n`;
      const input = join(env.TMPDIR as string, "piped");
      writeFileSync(input, piped);
      const stdin = openSync(input, "r");
      const child = spawn(process.execPath, [PROGRAM, ...args], { stdio: [stdin, "pipe", "pipe"], env });
      closeSync(stdin);
      this.running = child;
      let [out, err] = ["", ""];
      child.stdout?.on("data", (chunk) => (out += chunk));
      child.stderr?.on("data", (chunk) => (err += chunk));
      const code = await new Promise<number | null>((resolve) => child.once("close", resolve));
      // Its last line reports what is stored, even if it was killed right after it.
      const told = out.split("\n").find((line) => line.startsWith('{"id":'));
      if (told !== undefined) acks.push({ id: idIn(told), word, piped, files: filesOf(word, piped) });
      else if (!this.#isStopped) throw new Error(`perdure run ended with ${code}:\n${err}`);
    }
  }
}

function idIn(line: string): string {
  return (JSON.parse(line) as { id: string }).id;
}
