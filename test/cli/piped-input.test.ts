/** Standard input that is piped into `perdure run` and `perdure submit`. */
import { createHash, randomBytes } from "node:crypto";
import { existsSync, openSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { Io } from "../../src/cli/io.ts";
import { exec } from "../../src/core/input/builtin.ts";
import { MAX_STDIN_BYTES } from "../../src/core/input/exec-input.ts";
import { IS_FULL } from "../tier.ts";
import { perdure, perdureAt } from "./kit.ts";
import { idIn, newPlace, type Place, start, startShell } from "./program.ts";
import { KINDS, openWhere } from "./targets.ts";

const sha256 = (bytes: Uint8Array) => createHash("sha256").update(bytes).digest("hex");
/** Bytes that are not valid text, larger than one piece of an upload. */
const BINARY = randomBytes(5 * 1_048_576 + 3);

const FD = openSync("/dev/null", "r");

/** A pipe as standard input; in this process `--stdin` reads it. */
const fed = (...chunks: Uint8Array[]): Pick<Io, "stdin"> => ({
  stdin: {
    fd: FD,
    async *open() {
      yield* chunks;
    },
  },
});

const inputsIn = ({ data }: Pick<Place, "data">) => {
  const dir = join(data, "artifacts", "inputs");
  return existsSync(dir) ? readdirSync(dir) : [];
};

describe.each(KINDS)("piped input on %s", (kind) => {
  it("is read byte for byte by each attempt, from the start, and deleted with the job", async () => {
    const { ask, askJson, library } = await openWhere(kind, fed(BINARY.subarray(0, 99), BINARY.subarray(99)));
    if (kind === "server") await library.work([exec]);
    const script = 'sha256sum; [ "$PERDURE_ATTEMPT" = 2 ]';
    const options = ["--stdin", "--max-attempts", "2", "--backoff", "1ms", "--json"];
    const said = await ask("run", ...options, "--", "sh", "-c", script);
    const line = `${sha256(BINARY)}  -\n`;
    expect(said).toMatchObject({ code: 0, stdout: expect.stringMatching(new RegExp(`^${line}${line}\\{`)) });
    const id = idIn(said);
    const stored = { bytes: BINARY.length, sha256: sha256(BINARY) };
    expect(await askJson("get", id)).toMatchObject({ attempt: 2, payload: { stdinFile: stored } });
    expect(await ask("resubmit", id)).toMatchObject({
      code: 2,
      stderr: expect.stringContaining(`perdure redrive ${id}`),
    });
  });

  it("is stored with a submitted command", async () => {
    const { ask, library } = await openWhere(kind, fed(Buffer.from("data")));
    const { code, stdout } = await ask("submit", "--stdin", "--", "cat");
    expect(code).toBe(0);
    await library.work([exec]);
    const job = await library.job(stdout.trim());
    expect(await job.result()).toMatchObject({ exitCode: 0, stdout: { bytes: 4 } });
    expect(await ask("submit", "--stdin", "k")).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("--stdin requires"),
    });
  });
});

describe("piped input of a run", () => {
  it.runIf(IS_FULL)("over 64 MiB is refused before anything is stored or runs", async () => {
    const place = newPlace();
    const mebibyte = Buffer.alloc(1_048_576);
    const all = Array.from({ length: MAX_STDIN_BYTES / mebibyte.length }, () => mebibyte);
    const argv = ["run", "--stdin", "--", "touch", "ran"];
    const { code, stderr } = await perdure(argv, { cwd: place.cwd, ...fed(...all, Buffer.from("!")) });
    expect({ code, stderr }).toMatchObject({ code: 2, stderr: expect.stringMatching(/standard input is over 64 MiB/) });
    expect(readdirSync(place.cwd)).toEqual([]);
  });

  it("is part of the job with its key: other bytes are refused, and without any the job keeps its own", async () => {
    const place = newPlace();
    const run = (io: Partial<Io>, ...options: string[]) =>
      perdure(["run", "--stdin", "--key", "k", ...options, "--", "sh", "-c", "cat; exit 3"], { cwd: place.cwd, ...io });
    const first = await run(fed(Buffer.from("one")), "--max-attempts", "1");
    expect(first).toMatchObject({ code: 3, stdout: "one" });
    const named = await run(fed(Buffer.from("one")), "--again", "--name", "hello");
    expect(named).toMatchObject({ code: 2, stderr: expect.stringMatching(/--name: .* a redrive does not change/) });
    const other = await run(fed(Buffer.from("two")), "--again");
    expect(other).toMatchObject({ code: 2, stderr: expect.stringContaining("standard input; use another key") });
    expect(await run(fed(Buffer.from("one")), "--again")).toMatchObject({ code: 3, stdout: "one" });
    const none = await run({}, "--again");
    expect(none).toMatchObject({
      code: 3,
      stdout: "one",
      stderr: expect.stringContaining("3 bytes of standard input"),
    });
    // Nothing is left of the refused upload.
    expect(inputsIn(place)).toEqual([idIn(first)]);
    await perdureAt(place, ["cancel", idIn(first)]);
    const env = { PERDURE_RETENTION_FAILED: "0s" };
    expect((await perdureAt(place, ["prune"], env)).code).toBe(0);
    expect(inputsIn(place)).toEqual([]);
  });

  it("is taken from a pipe", async () => {
    const { stdout } = await startShell(newPlace(), "printf data | $PERDURE_CLI run -- cat").ended;
    expect(stdout).toBe("data");
  });

  it("that is closed is an error with --stdin", async () => {
    const { code, stderr } = await startShell(newPlace(), "exec $PERDURE_CLI run --stdin -- cat <&-").ended;
    expect({ code, stderr }).toMatchObject({ code: 2, stderr: expect.stringContaining("standard input is closed") });
  });

  it.runIf(IS_FULL)("is not waited for on a socket, which a program may leave open", async () => {
    const { ended } = start(newPlace(), ["run", "--", "cat"]);
    expect(await ended).toMatchObject({ code: 0, stdout: "" });
  });

  it("survives kill -9 of the run, and is used when the job is resumed", async () => {
    const place = newPlace();
    const script = "cat > copy; echo up; [ -e go ] || exec sleep 60; cat copy";
    const command = `$PERDURE_CLI run --key k --max-attempts 1 -- sh -c '${script}'`;
    const first = startShell(place, `printf durable | exec ${command}`);
    await first.untilPrinted("up");
    process.kill(-first.pid, "SIGKILL");
    await first.ended;
    writeFileSync(join(place.cwd, "go"), "");
    const second = await startShell(place, `exec ${command} < /dev/null`).ended;
    expect(second).toMatchObject({ code: 0, stdout: "up\ndurable" });
    expect(readFileSync(join(place.cwd, "copy"), "utf8")).toBe("durable");
  });
});
