/** What a command finds: its environment, its arguments, its input, its open files. */

import { spawn } from "node:child_process";
import { closeSync, openSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it, onTestFinished } from "vitest";
import { openBench, sharedBench, tempDir } from "./kit.ts";

/** Sets variables of this process for one test. */
function withEnv(values: Record<string, string | undefined>): void {
  const before = { ...process.env };
  const set = (name: string, value: string | undefined) => {
    if (value === undefined) delete process.env[name];
    else process.env[name] = value;
  };
  for (const [name, value] of Object.entries(values)) set(name, value);
  onTestFinished(() => {
    for (const name of Object.keys(values)) set(name, before[name]);
  });
}

describe("the environment", () => {
  it("is exactly what was promised", async () => {
    withEnv({
      ...{ PATH: "/usr/bin:/bin", HOME: "/home/w", LANG: "C", TZ: "UTC", USER: "w" },
      ...{ LOGNAME: undefined, SHELL: undefined, LC_ALL: undefined, LC_CTYPE: undefined, TMPDIR: undefined },
      ...{ DATABASE_URL: "postgres://secret", NODE_OPTIONS: "--no-warnings", LD_PRELOAD: "/nowhere/evil.so" },
      ...{ AWS_SECRET_ACCESS_KEY: "secret", PERDURE_TOKEN: "secret", PERDURE_JOB_ID: "outer", MALLOC_ARENA_MAX: "1" },
    });
    const bench = await sharedBench();
    const { stdout, job, dir } = await bench.run({ argv: ["env", "-0"], env: { MY_NAME: "a b\nc=d", LANG: "de" } });
    const found = Object.fromEntries(
      stdout
        .split("\0")
        .slice(0, -1)
        .map((line) => [line.slice(0, line.indexOf("=")), line.slice(line.indexOf("=") + 1)]),
    );
    expect(found).toEqual({
      ...{ PATH: "/usr/bin:/bin", HOME: "/home/w", LANG: "de", TZ: "UTC", USER: "w", MY_NAME: "a b\nc=d" },
      ...{ PERDURE_JOB_ID: job.id, PERDURE_ATTEMPT: "1", PERDURE_OUTPUT_DIR: dir },
      ...{ PERDURE_RESULT_FILE: join(dir, "result.json"), PERDURE_USAGE_FILE: join(dir, "usage.json") },
      PERDURE_MARK: expect.stringMatching(/^[\w-]+\.\d+\.$/),
    });
    const limited = await bench.run({ argv: ["env"], limits: { openFiles: 100, fileSize: 1_000_000 }, umask: 0o022 });
    expect(limited.stdout).not.toMatch(/secret|NODE_OPTIONS|LD_PRELOAD|MALLOC/);
  });

  it("refuses risky names unless the worker allows them, without a second try", async () => {
    const bench = await openBench({ work: { allowEnv: ["PYTHONPATH"] } });
    for (const name of ["PATH", "LD_PRELOAD", "NODE_OPTIONS", "BASH_ENV"]) {
      const { job, last, stdout } = await bench.run(
        { argv: ["env"], env: { [name]: "/tmp" } },
        { retry: { maxAttempts: 5 } },
      );
      expect(job).toMatchObject({ state: "failed", reason: "invalid", attempt: 1 });
      expect(last.failure?.message).toContain(name);
      expect(stdout).toBe("");
    }
    expect((await bench.run({ argv: ["env"], env: { PYTHONPATH: "/x" } })).stdout).toContain("PYTHONPATH=/x\n");
  });

  it("lets a job with an allowed PATH find its program there, and only there", async () => {
    const bench = await openBench({ work: { allowEnv: ["*"] } });
    expect((await bench.run({ argv: ["env"], env: { PATH: "/nowhere" } })).last.failure?.code).toBe("ENOENT");
    expect((await bench.run({ argv: ["env"], env: { PATH: "/usr/bin" } })).stdout).toContain("PATH=/usr/bin\n");
  });

  it("refuses names of ours where it is submitted", async () => {
    const bench = await sharedBench();
    const input = { argv: ["env"], env: { PERDURE_MARK: "x" } };
    await expect(bench.submit(input)).rejects.toMatchObject({ code: "invalid_config", path: "exec.env.PERDURE_MARK" });
  });
});

describe("ports", () => {
  const listen = `perl -MIO::Socket::INET -e 'IO::Socket::INET->new(LocalPort => $ENV{PERDURE_PORT_HTTP}, Listen => 1) or die "taken"'`;

  it("are free, each in its own variable", async () => {
    const bench = await sharedBench();
    const { stdout, job } = await bench.sh(
      `${listen} && echo "$PERDURE_PORT_HTTP $PERDURE_PORT_METRICS_V2 $P $ID $N $I"`,
      {
        ports: ["http", "metrics-v2"],
        fill: { P: "port.metrics-v2", ID: "jobId", N: "attempt", I: "attemptIndex" },
      },
    );
    const [http, metrics, filled, ...rest] = stdout.trim().split(" ");
    expect(Number(http)).toBeGreaterThan(1_023);
    expect(Number(metrics)).toBeGreaterThan(1_023);
    expect(http).not.toBe(metrics);
    expect(filled).toBe(metrics);
    expect(rest).toEqual([job.id, "1", "0"]);
  });

  it("are different ones for commands that run at the same time", async () => {
    const bench = await sharedBench();
    // They do not listen, so the system would assign the same ports; each runs until all have written theirs.
    const dir = tempDir();
    const script = `echo "$PERDURE_PORT_A" > "$DIR/$PERDURE_JOB_ID"; until [ $(ls "$DIR" | wc -l) = 8 ]; do sleep 0.02; done`;
    const runs = Array.from({ length: 8 }, () => bench.sh(script, { ports: ["a"], env: { DIR: dir } }));
    expect((await Promise.all(runs)).map(({ job }) => job.state)).toEqual(Array(8).fill("succeeded"));
    const ports = readdirSync(dir).map((name) => readFileSync(join(dir, name), "utf8"));
    expect(new Set(ports).size).toBe(8);
  });

  it("that are not known are refused where the job is submitted, risky names where it runs", async () => {
    const bench = await sharedBench();
    const input = { argv: ["env"], fill: { PORT: "port.http" } };
    await expect(bench.submit(input)).rejects.toMatchObject({ code: "invalid_config", path: "exec.fill.PORT" });
    const { job, last } = await bench.run({ argv: ["env"], fill: { LD_PRELOAD: "jobId" } });
    expect(job).toMatchObject({ state: "failed", reason: "invalid" });
    expect(last.failure?.message).toContain("fill.LD_PRELOAD");
  });
});

describe("arguments", () => {
  it("arrive as they are", async () => {
    const bench = await sharedBench();
    const args = [
      "",
      " ",
      "a b",
      "'",
      '"',
      "$HOME",
      "$(id)",
      "`id`",
      "; rm -rf /",
      "-n",
      "--",
      "a\nb",
      "*",
      "\\",
      "é😀",
      "%s",
      "#",
    ];
    for (const extra of [{}, { limits: { openFiles: 64 } }, { umask: 0o027 }]) {
      const { stdout } = await bench.run({
        argv: ["perl", "-e", 'print map { "$_\\0" } @ARGV', "--", ...args],
        ...extra,
      });
      expect(stdout.split("\0").slice(0, -1)).toEqual(args);
    }
  });

  it("for a shell are expanded by the shell", async () => {
    const bench = await sharedBench();
    expect((await bench.sh("echo $((1 + 2)) | tr 3 4; echo $0 $#")).stdout).toBe("4\n/bin/sh 0\n");
  });
});

describe("standard input", () => {
  it("is a text, or JSON, or nothing at all", async () => {
    const bench = await sharedBench();
    const cat = async (input: object) => (await bench.run({ argv: ["cat"], ...input })).stdout;
    expect(await cat({ stdin: "line\nno end" })).toBe("line\nno end");
    expect(await cat({ stdin: "" })).toBe("");
    expect(await cat({ input: { a: [1, "é"] } })).toBe('{"a":[1,"é"]}');
    expect(await cat({ input: null })).toBe("null");
    expect(await cat({})).toBe("");
  });

  it("need not be read: whoever closes it or leaves early does no harm", async () => {
    const bench = await sharedBench();
    const stdin = "x".repeat(500_000);
    for (const command of ["exit 0", "exec 0<&-; sleep 0.1", "head -c 1 > /dev/null", "sleep 1000 & exit 0"]) {
      expect((await bench.sh(command, { stdin })).job.state).toBe("succeeded");
    }
    expect((await bench.run({ argv: ["wc", "-c"], stdin })).stdout.trim()).toBe("500000");
  });
});

describe("open files", () => {
  it("are 0, 1 and 2, also where the worker was started with more", async () => {
    // A worker that inherited a file without the flag that closes it, as from a careless shell.
    const script = fileURLToPath(new URL("fds.ts", import.meta.url));
    const file = openSync("/dev/zero", "r");
    const stdio = ["pipe", "pipe", "inherit", file, "ignore", "ignore", file] as const;
    const child = spawn(process.execPath, ["--import", "tsx", script], { stdio: [...stdio] });
    closeSync(file);
    let said = "";
    child.stdout?.on("data", (chunk) => {
      said += String(chunk);
    });
    await new Promise((resolve) => child.once("close", resolve));
    expect(JSON.parse(said)).toEqual([
      ["0", "1", "2"],
      ["0", "1", "2"],
    ]);
  });
});
