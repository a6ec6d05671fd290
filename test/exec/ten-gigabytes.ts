/** 10 GB of `yes`, and what they do to the memory of the worker: fails above 64 MB. A script of its own:
 *
 *    npx tsx test/exec/ten-gigabytes.ts [BYTES] */
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";

const LIMIT_MB = 64;
const bytes = process.argv[2] ?? String(10 * 2 ** 30);
const script = fileURLToPath(new URL("memory.ts", import.meta.url));
const { stdout, stderr, status } = spawnSync(process.execPath, ["--import", "tsx", script, bytes], {
  encoding: "utf8",
});
const line = stdout.split("\n").find((each) => each.startsWith("grown "));
if (line === undefined) {
  console.error(`it ended with ${status} and said nothing\n${stderr}`);
  process.exit(1);
}
const [, mb, drained, seconds] = line.split(" ");
console.log(`${drained} bytes drained in ${seconds} s; the worker grew by ${mb} MB (at most ${LIMIT_MB})`);
if (drained !== bytes || Number(mb) >= LIMIT_MB) process.exit(1);
