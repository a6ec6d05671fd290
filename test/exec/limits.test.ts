/** Limits hit the command, and not the worker. */
import { statSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { alive, needle, sharedBench } from "./kit.ts";

const MB = 1_000_000;
/** Takes memory and keeps it. */
const hog = (mb: number, then: string) => ["perl", "-e", `my $x = "a" x ${mb * MB}; ${then}`];

describe("memory", () => {
  it("beyond the limit ends the command as out of memory", async () => {
    const bench = await sharedBench();
    const mark = needle();
    const input = { argv: hog(200, "sleep 1000"), limits: { memory: 100 * MB }, env: { MARK: mark } };
    const { last } = await bench.run(input);
    expect(last.failure).toMatchObject({ kind: "oom", code: "limit_memory", exitCode: 137, signal: "SIGKILL" });
    expect(last.failure?.message).toMatch(/^out of memory: used \d{9} bytes, over its limit/);
    expect(alive(mark)).toEqual([]);
  });

  it("is counted over the whole tree, wherever it went", async () => {
    const bench = await sharedBench();
    const mark = needle();
    const one = `setsid perl -e 'my $x = "a" x 50_000_000; sleep 1000' &`;
    const input = { limits: { memory: 120 * MB }, env: { MARK: mark } };
    const { last } = await bench.sh(`${one} ${one} ${one} wait; sleep 1000`, input);
    expect(last.failure).toMatchObject({ kind: "oom", code: "limit_memory" });
    expect(alive(mark)).toEqual([]);
  });

  it("that processes share is counted once", async () => {
    const bench = await sharedBench();
    const fork = "for (1 .. 5) { if (!fork) { select undef, undef, undef, 1; exit 0 } } 1 while wait > 0; print 'fine'";
    const { stdout, last } = await bench.run({ argv: hog(60, fork), limits: { memory: 250 * MB } });
    expect([stdout, last.failure]).toEqual(["fine", null]);
  });

  it("within the limit changes nothing", async () => {
    const bench = await sharedBench();
    const { job } = await bench.run({ argv: hog(20, "select undef, undef, undef, 0.5"), limits: { memory: 200 * MB } });
    expect(job.state).toBe("succeeded");
  });
});

describe("processes", () => {
  it("beyond the limit end the command", async () => {
    const bench = await sharedBench();
    const mark = needle();
    const input = { limits: { processes: 10 }, env: { MARK: mark } };
    const { last } = await bench.sh(
      "for i in 1 2 3 4 5 6 7 8 9 10 11 12; do (setsid sleep 1000 &) ; done; sleep 1000",
      input,
    );
    expect(last.failure).toMatchObject({ kind: "signal", code: "limit_processes", exitCode: 137 });
    expect(last.failure?.message).toMatch(/too many processes: 1\d, over its limit/);
    expect(alive(mark)).toEqual([]);
  });

  it("that fork faster than they are counted do not get away", async () => {
    const bench = await sharedBench();
    const mark = needle();
    // A bomb with a fuse: it stops by itself at some hundreds, should we fail.
    const bomb = "$SIG{TERM} = 'IGNORE'; for (1 .. 8) { fork; select undef, undef, undef, 0.03 } sleep 20";
    const { last } = await bench.run({ argv: ["perl", "-e", bomb], limits: { processes: 20 }, env: { MARK: mark } });
    expect(last.failure).toMatchObject({ code: "limit_processes" });
    expect(alive(mark)).toEqual([]);
    expect((await bench.sh("exit 0")).job.state).toBe("succeeded");
  });
});

describe("files", () => {
  it("grow no further than the limit", async () => {
    const bench = await sharedBench();
    const { last, dir } = await bench.sh("exec head -c 5000000 /dev/zero > artifacts/big", {
      limits: { fileSize: 1_024_000 },
    });
    expect(last.failure).toMatchObject({ kind: "signal", signal: "SIGXFSZ", exitCode: 153 });
    expect(statSync(join(dir, "artifacts/big")).size).toBe(1_024_000);
    // Its output is not a file of its own.
    const printed = await bench.sh("head -c 5000000 /dev/zero", { limits: { fileSize: 1_024 } });
    expect(printed.result.stdout.bytes).toBe(5_000_000);
  });

  it("are open no more than the limit allows", async () => {
    const bench = await sharedBench();
    const script = 'my @f; while (open my $f, "<", "/dev/null") { push @f, $f } print scalar @f';
    const { stdout } = await bench.run({ argv: ["perl", "-e", script], limits: { openFiles: 32 } });
    expect(Number(stdout)).toBeGreaterThan(20);
    expect(Number(stdout)).toBeLessThanOrEqual(29);
  });

  it("limits that the system refuses are reported, and the program is not started without them", async () => {
    const bench = await sharedBench();
    const { last, stdout } = await bench.run({ argv: ["echo", "ran"], limits: { openFiles: 2 ** 40 } });
    expect(last.failure).toMatchObject({ kind: "exit", exitCode: 126 });
    expect(stdout).toBe("");
  });

  it("limits do not change the message for a program that does not exist", async () => {
    const bench = await sharedBench();
    const { last } = await bench.run({ argv: ["no-such-program"], limits: { openFiles: 64 } });
    expect(last.failure).toMatchObject({ class: "invalid", code: "ENOENT" });
  });
});
