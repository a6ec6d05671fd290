/** F31 on PostgreSQL: its disk is really full for 20 s. Refusals are counted, not logged one by one; doctor reports the
 *  cause; with space again everything continues by itself. */
import { execFile, spawnSync } from "node:child_process";
import { chmodSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect, it, onTestFinished } from "vitest";
import { notTested } from "../crash/strace.ts";
import type { FullDisk } from "./full-disk.ts";

const TEST_MS = 240_000;
const FULL_S = 20;
const NAMESPACE = ["-m", "--propagation", "private"];

/** Null: a small disk can be mounted here; otherwise the reason why not. */
function whyNoDisk(): string | null {
  if (process.platform !== "linux") return "mount namespaces are of Linux";
  if (process.getuid?.() !== 0) return "only root may mount";
  const { status, stderr } = spawnSync("unshare", [...NAMESPACE, "mount", "-t", "tmpfs", "tmpfs", "/mnt"], {
    encoding: "utf8",
  });
  return status === 0 ? null : `no tmpfs can be mounted: ${String(stderr).trim()}`;
}

const why = whyNoDisk();
if (why !== null) notTested("test/faults/disk-full.full.test.ts", why);
else {
  it.each(["beside", "elsewhere"])(
    "a full disk of PostgreSQL, with its write-ahead log %s",
    { timeout: TEST_MS },
    async (log) => {
      const work = mkdtempSync(join(tmpdir(), "perdure-disk-"));
      onTestFinished(() => rmSync(work, { recursive: true, force: true }));
      chmodSync(work, 0o755); // PostgreSQL runs as another user
      const script = fileURLToPath(new URL("full-disk.ts", import.meta.url));
      const program = [
        process.execPath,
        "--import",
        "tsx",
        script,
        "--work",
        work,
        "--log",
        log,
        "--seconds",
        String(FULL_S),
      ];
      const { stdout } = await promisify(execFile)("unshare", [...NAMESPACE, ...program], { timeout: TEST_MS });
      const seen = JSON.parse(stdout) as FullDisk;
      console.log(
        JSON.stringify({ ...seen, log: `${seen.log.length} bytes`, doctor: seen.doctor.code, doctorAfter: 0 }),
      );

      expect(seen.full.answers["507 store_full"]).toBeGreaterThan(0); // how many depends on the machine
      if (seen.postgresLived) expect(Object.keys(seen.full.answers)).toEqual(["507 store_full"]);
      expect(seen.lost).toBe(0);
      expect(seen.leftovers).toBe(0);
      expect(seen.after.answers["201"]).toBeGreaterThanOrEqual(2);

      const lines = seen.log.trimEnd().split("\n");
      const messages = lines.map((line) => (JSON.parse(line) as { message: string }).message);
      expect(messages.slice(0, 1).concat(messages.slice(-1))).toEqual(["store.trouble", "store.trouble_over"]);
      expect(lines.length).toBeLessThanOrEqual(seen.postgresLived ? 2 : 10);
      expect(seen.log).not.toContain("    at ");
      const { requests } = JSON.parse(lines.at(-1) as string) as { requests: number };
      expect(requests).toBeGreaterThanOrEqual(seen.full.answers["507 store_full"] as number);

      expect(seen.doctor.code).toBe(1);
      expect(seen.doctor.stdout).toMatch(
        /problem +store +the store of the server \(postgres\) is full: .*No space left on device/,
      );
      expect(seen.doctorAfter.stdout).toMatch(/ok +store +the server's PostgreSQL database answers/);
    },
  );
}
