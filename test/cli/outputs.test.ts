/** The reading commands on the data of `perdure run`: logs, artifacts, and the others. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { perdureAt, scriptAt } from "./kit.ts";
import { endingOf, newPlace, type Place } from "./program.ts";

const SCRIPT = `
  echo out $PERDURE_ATTEMPT; echo err $PERDURE_ATTEMPT >&2
  cd "$PERDURE_OUTPUT_DIR"; mkdir artifacts/sub; echo "$PERDURE_ATTEMPT" > artifacts/sub/n.txt
  printf '\\000\\377' > artifacts/bytes; ln -s /etc/passwd artifacts/link; echo scratch > scratch
  [ "$PERDURE_ATTEMPT" = 2 ] && echo '{"output": {"pages": 3}}' > result.json`;

let place: Place;
let id: string;
let failed: string;
let remove = () => {};
beforeAll(async () => {
  place = newPlace((call) => {
    remove = call;
  });
  id = endingOf(await scriptAt(place, ["--json", "--backoff", "1ms"], SCRIPT)).id;
  failed = endingOf(await scriptAt(place, ["--json", "--max-attempts", "1"], "exec no-such-program")).id;
});
afterAll(() => remove());

const ask = (...argv: string[]) => perdureAt(place, argv);
const UNKNOWN = "job_01m7gekg9zevv9a6xvvwmt1v8g";

describe("logs", () => {
  it.each([
    [[], "out 2\nerr 2\n"],
    [["--attempt", "1"], "out 1\nerr 1\n"],
    [["-a", "1", "--stdout"], "out 1\n"],
    [["-a", "1", "--stderr"], "err 1\n"],
  ])("with %j shows the output of that attempt", async (options, stdout) => {
    expect(await ask("logs", id, ...options)).toEqual({ code: 0, stdout, stderr: "" });
  });

  it("of a job without output are a note on stderr", async () => {
    const quiet = endingOf(await scriptAt(place, ["--json"], "exit 0")).id;
    expect(await ask("logs", quiet)).toEqual({ code: 0, stdout: "", stderr: "no log output\n" });
  });

  it("as JSON are one document", async () => {
    const { stdout } = await ask("logs", id, "--json", "--attempt", "1");
    expect(JSON.parse(stdout)).toEqual({ id, attempt: 1, stdout: "out 1\n", stderr: "err 1\n", log: null });
  });

  it.each([
    [["logs"], 2, /^perdure logs: missing ID\./],
    [["logs", "x"], 1, /^perdure logs: no job has the id or name "x"/],
    [["logs", UNKNOWN], 1, /^perdure logs: job \S+ does not exist/],
    [["logs", "ID", "--attempt", "9"], 1, /has no attempt 9; see `perdure get job_/],
    [["logs", "ID", "--attempt", "0"], 2, /--attempt: must be a whole number from 1.*; got "0"/],
    [["logs", "ID", "--stdout", "--stderr"], 2, /--stdout and --stderr cannot be used together/],
    [["logs", "ID", "--data", "none"], 1, /no Perdure data in none/],
  ])("refuse %j in one line", async (argv, code, line) => {
    const said = await ask(...argv.map((word) => (word === "ID" ? id : word)));
    expect(said).toEqual({ code, stdout: "", stderr: expect.stringMatching(/^[^\n]+\n$/) });
    expect(said.stderr).toMatch(line);
  });
});

describe("artifacts", () => {
  it("lists those of the successful attempt, without scratch files and links", async () => {
    const { code, stdout, stderr } = await ask("artifacts", id);
    expect(code).toBe(0);
    const lines = stdout.trimEnd().split("\n");
    expect(lines[0]).toMatch(/^NAME +SIZE +TYPE +SHA-256$/);
    expect(lines[1]).toMatch(/^bytes +2 +application\/octet-stream +[0-9a-f]{64}$/);
    expect(lines[2]).toMatch(/^sub\/n\.txt +2 +text\/plain +[0-9a-f]{64}$/);
    expect(lines).toHaveLength(3);
    expect(stderr).toMatch(/^1 more are not listed: links, unreadable files, or too many\n$/);
  });

  it("prints one of them, from the requested attempt", async () => {
    expect(await ask("artifacts", id, "sub/n.txt")).toEqual({ code: 0, stdout: "2\n", stderr: "" });
    expect(await ask("artifacts", id, "sub/n.txt", "-a", "1")).toEqual({ code: 0, stdout: "1\n", stderr: "" });
  });

  it("as JSON is one document", async () => {
    const { stdout } = await ask("artifacts", id, "--json");
    const files = [
      { name: "bytes", size: 2 },
      { name: "sub/n.txt", size: 2, mime: "text/plain", sha256: expect.stringMatching(/^[0-9a-f]{64}$/) },
    ];
    expect(JSON.parse(stdout)).toMatchObject({ id, attempt: 2, files, more: 1 });
  });

  it.each([
    "link",
    "../stdout.log",
    "sub/../../stdout.log",
    "../../attempt_1/stdout.log",
    "/etc/passwd",
    "sub",
    ".",
    "",
  ])("does not print %j", async (name) => {
    const { code, stdout, stderr } = await ask("artifacts", id, name);
    expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
    expect(stderr).toMatch(/^perdure artifacts: [^\n]*has no file[^\n]*\n$/);
  });

  it("reports that no files exist, on stderr", async () => {
    const said = await ask("artifacts", failed);
    expect(said.stdout).toBe("");
    expect(said.stderr).toMatch(/^[^\n]*has no files[^\n]*\n$/);
    expect(await ask("artifacts", id, "--attempt", "9")).toMatchObject({ code: 1, stdout: "" });
    expect(await ask("artifacts", "x")).toMatchObject({ code: 1, stdout: "" });
    expect(await ask("artifacts", UNKNOWN)).toMatchObject({ code: 1, stdout: "" });
  });
});

describe("the other commands", () => {
  it("show the command, its attempts and its output", async () => {
    const { stdout: list } = await ask("ps");
    expect(list).toMatch(new RegExp(`^${id} +echo out +succeeded +2 `, "m"));
    expect(list).toMatch(new RegExp(`^${failed} +no-such-program +failed \\(\\w+\\) +\\d`, "m"));
    const { stdout: job } = await ask("get", id);
    expect(job).toMatch(/^Command +sh -c /m);
    expect(job).toMatch(/^ +1 +failed +.*exit code 1: err 1$/m);
    expect(job).toContain('"pages": 3');
    const { stdout: events } = await ask("events", id, "--json");
    const names = (JSON.parse(events) as { name: string }[]).map(({ name }) => name);
    expect(names).toEqual([
      "job.submitted",
      "attempt.started",
      "attempt.failed",
      "attempt.started",
      "attempt.succeeded",
    ]);
  });
});
