/** Runs a command that prints this many bytes, and prints the maximum growth of this process: grown MB BYTES SECONDS. */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { exec } from "../../src/core/input/builtin.ts";
import { Perdure } from "../../src/embedded/perdure.ts";

const wanted = Number(process.argv[2]);
const resident = () => Number(/^VmRSS:\s*(\d+)/m.exec(readFileSync("/proc/self/status", "utf8"))?.[1]) / 1_024;

const dir = mkdtempSync(join(tmpdir(), "perdure-memory-"));
try {
  const perdure = await Perdure.open({ url: join(dir, "perdure.db") });
  await perdure.work([exec]);
  // All code is loaded, and has run once, before the measurement.
  await (await perdure.submit(exec, { command: "yes | head -c 5000000", shell: true })).result();
  const before = resident();
  let most = before;
  const timer = setInterval(() => {
    most = Math.max(most, resident());
  }, 20);
  const start = performance.now();
  const job = await perdure.submit(exec, { command: `yes | head -c ${wanted}`, shell: true });
  const { stdout } = await job.result();
  clearInterval(timer);
  const seconds = (performance.now() - start) / 1_000;
  console.log(`grown ${(most - before).toFixed(1)} ${stdout.bytes} ${seconds.toFixed(1)}`);
  await perdure.close();
} finally {
  rmSync(dir, { recursive: true, force: true });
}
