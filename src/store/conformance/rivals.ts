/** Starts other processes on a store (`rival.ts`) and talks to them. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import type { Order } from "./rival.ts";

const SCRIPT = fileURLToPath(new URL("./rival.ts", import.meta.url));

export interface Rival {
  /** Resolves when it has the store open; rejects if it ended instead. */
  readonly opened: Promise<void>;
  ask<Answer>(order: Order): Promise<Answer>;
  close(): Promise<void>;
}

export function startRival(url: string): Rival {
  const child: ChildProcess = spawn(process.execPath, ["--import", "tsx", SCRIPT, url], {
    stdio: ["pipe", "pipe", "pipe"],
  });
  let problem = "";
  child.stderr?.on("data", (text) => {
    problem += text;
  });
  const lines = createInterface({ input: child.stdout as NodeJS.ReadableStream })[Symbol.asyncIterator]();
  async function next(): Promise<unknown> {
    const { value, done } = (await lines.next()) as IteratorResult<string, undefined>;
    if (done) throw new Error(`the rival ended: ${problem}`);
    return JSON.parse(value as string);
  }
  const opened = next().then(() => {});
  return {
    opened,
    async ask<Answer>(order: Order) {
      await opened;
      child.stdin?.write(`${JSON.stringify(order)}\n`);
      return (await next()) as Answer;
    },
    async close() {
      child.stdin?.end();
      if (child.exitCode === null) await once(child, "exit");
    },
  };
}
