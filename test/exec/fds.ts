/** Runs a command and prints which files it finds open: bare, and through the shell that sets limits. What the worker
 *  inherited may at most be there as /dev/null. */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { exec } from "../../src/core/input/builtin.ts";
import { Perdure } from "../../src/embedded/perdure.ts";

const dir = mkdtempSync(join(tmpdir(), "perdure-fds-"));
const perdure = await Perdure.open({ url: join(dir, "perdure.db") });
await perdure.work([exec]);
// Of its own open files perl says the number, but not of those that are /dev/null: nothing leaks through them.
const script =
  'for (glob "/proc/$$/fd/*") { my $to = readlink or next; m|(\\d+)$|; print "$1\\n" if $1 < 3 || $to !~ m|^/dev/null\\|^/proc/| }';
const found: string[][] = [];
for (const limits of [{}, { openFiles: 64 }]) {
  const job = await perdure.submit(exec, { argv: ["perl", "-e", script], limits });
  await job.result();
  const text = readFileSync(join(dir, "artifacts", job.id, "attempt_1/stdout.log"), "utf8");
  found.push(text.trim().split("\n").sort());
}
console.log(JSON.stringify(found));
await perdure.close();
rmSync(dir, { recursive: true });
