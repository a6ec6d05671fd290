/** Throughput over the network: one server process and one worker process of the built program, as in production. This process
 *  submits, and waits without polling. */
import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { Perdure } from "perdure/client";
import type { Bench, Row } from "./scenarios.ts";

const PROGRAM = process.env.PERDURE_BENCH_PROGRAM ?? fileURLToPath(new URL("../dist/cli/main.js", import.meta.url));
const WORKER_ENTRY = new URL("../worker/index.js", `file://${PROGRAM}`).href;
const TASKS = `import { task } from ${JSON.stringify(WORKER_ENTRY)};
export const noop = task("noop", () => {});
export const last = task("last", () => {});
`;

export async function remoteDrain({ open, scale }: Bench): Promise<Row[]> {
  const dir = mkdtempSync(join(tmpdir(), "perdure-remote-"));
  const { url: db, schema } = open("remote");
  const children: ChildProcess[] = [];
  const start = (...args: string[]) => {
    const child = spawn(process.execPath, [PROGRAM, ...args, "--json"], { stdio: ["ignore", "pipe", "inherit"] });
    children.push(child);
    return firstJson(child);
  };
  try {
    const named = schema === undefined ? [] : ["--schema", schema];
    const quiet = ["--log-level", "error"];
    const served = await start("server", "--port", "0", "--data", dir, "--db", db, ...named, ...quiet);
    const url = served.url as string;
    const token = readFileSync(served.tokenFile as string, "utf8").trim();
    await using perdure = await Perdure.connect(url, { token });
    const tasks = join(dir, "tasks.mjs");
    writeFileSync(tasks, TASKS);
    await perdure.pause("default");
    await start("worker", "--server", url, "--data", dir, "--tasks", tasks, "--concurrency", "500", ...quiet);
    const count = Math.round(100_000 * scale);
    const submitMs = await timed(async () => {
      for (let done = 0; done < count; done += 1_000) {
        const size = Math.min(1_000, count - done);
        await perdure.submitMany(Array.from({ length: size }, (_, n) => ({ task: "noop", input: { n: done + n } })));
      }
    });
    // The last of all jobs.
    const last = await perdure.submit("last", null, { priority: 9 });
    const drainMs = await timed(async () => {
      await perdure.resume("default");
      await last.result();
      for (let left = 1; left > 0; ) {
        const [queue] = await perdure.queues();
        left = (queue?.counts.queued ?? 0) + (queue?.counts.running ?? 0);
      }
    });
    const perSecond = (ms: number) => `${Math.round((count / ms) * 1_000).toLocaleString("en")}/s`;
    return [
      { what: "over HTTP: bulk submit, lists of 1,000", figure: perSecond(submitMs), aim: "none set" },
      {
        what: "over HTTP: drain of no-op jobs, one worker process",
        figure: perSecond(drainMs),
        aim: "≥ 10,000/s on SQLite",
      },
    ];
  } finally {
    for (const child of children.reverse()) await stopped(child);
    rmSync(dir, { recursive: true, force: true });
  }
}

async function timed(run: () => Promise<void>): Promise<number> {
  const started = performance.now();
  await run();
  return performance.now() - started;
}

/** The JSON that a process prints when it is ready. */
function firstJson(child: ChildProcess): Promise<Record<string, unknown>> {
  return new Promise((resolve, reject) => {
    let text = "";
    child.stdout?.on("data", (chunk: Buffer) => {
      text += chunk.toString();
      if (text.trimEnd().endsWith("}")) resolve(JSON.parse(text) as Record<string, unknown>);
    });
    child.once("exit", (code) => reject(new Error(`it ended with exit code ${code}`)));
  });
}

function stopped(child: ChildProcess): Promise<void> {
  return new Promise((resolve) => {
    if (child.exitCode !== null || child.signalCode !== null) resolve();
    child.once("exit", () => resolve());
    child.kill("SIGTERM");
  });
}
