/** Other commands that follow jobs, and those that wait or save, on a local data directory and on a server. */
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from "vitest";
import { textWidth } from "../../src/cli/output/terminal-text.ts";
import type { PerdureEvent } from "../../src/core/job/event.ts";
import { openKit } from "../client/kit.ts";
import { inFull } from "../tier.ts";
import { localTarget, serverTarget, startMain, type TestTarget, untilThere } from "./follow-kit.ts";
import { perdure as ask, DANGEROUS, Kept, uncoloured } from "./kit.ts";

/** An output whose reader closes it after this text. */
class Until extends Kept {
  readonly #text: string;

  constructor(text: string) {
    super();
    this.#text = text;
  }

  override _write(chunk: string, encoding: string, done: (error?: Error) => void): void {
    if (!this.text.includes(this.#text)) super._write(chunk, encoding, done);
    else done(Object.assign(new Error("write EPIPE"), { code: "EPIPE" }));
  }
}

describe.each(
  inFull([
    ["a server", serverTarget],
    ["a local data directory", localTarget],
  ]),
)("on %s", (_, open) => {
  let target: TestTarget;
  beforeAll(async () => {
    target = await open();
    await target.work();
  });
  afterAll(() => target.close());

  const go = (name: string) => writeFileSync(join(target.dir, name), "");
  const askHere = (argv: readonly string[]) => ask(argv, { env: target.env, cwd: target.dir });

  describe("events --follow", () => {
    it("shows past events, then new ones, one object per line, and ends with the job", async () => {
      const job = await target.script(untilThere("go-events"));
      const following = startMain(["events", "-f", "--json", job.id], { env: target.env });
      await following.untilPrinted("attempt.started");
      go("go-events");
      expect(await following.ended).toBe(0);
      const events = following.io.stdout.text
        .trimEnd()
        .split("\n")
        .map((line) => JSON.parse(line) as PerdureEvent);
      expect(events.map(({ name }) => name)).toEqual(["job.submitted", "attempt.started", "attempt.succeeded"]);
    }, 120_000);

    it("shows the requested number of last events, in lines as wide as the terminal at most", async () => {
      for (let i = 0; i < 5; i++) await (await target.script("true")).result();
      const all = JSON.parse((await askHere(["events", "--json", "--limit", "1000"])).stdout) as PerdureEvent[];
      for (const columns of [80, 200]) {
        const following = startMain(["events", "--follow", "-n", "4"], { env: target.env, columns });
        await following.untilPrinted(` ${all.at(-1)?.seq} `);
        const lines = following.io.stdout.text.trimEnd().split("\n");
        expect(lines[0]).toMatch(/^ +SEQ +AT +JOB +EVENT/);
        expect(lines.slice(1).map((line) => Number(/\d+/.exec(line)?.[0]))).toEqual(
          all.slice(-4).map(({ seq }) => seq),
        );
        for (const line of lines) expect(textWidth(line)).toBeLessThanOrEqual(columns);
      }
    }, 120_000);

    it("begins after the event of --after", async () => {
      const job = await target.script("true");
      await job.result();
      const [first] = JSON.parse((await askHere(["events", job.id, "--json"])).stdout) as [PerdureEvent];
      const following = startMain(["events", "-f", "--json", "--after", String(first.seq), job.id], {
        env: target.env,
      });
      expect(await following.ended).toBe(0);
      expect(following.io.stdout.text).not.toContain("job.submitted");
      expect(following.io.stdout.text).toContain("attempt.succeeded");
      const { seq } = JSON.parse(following.io.stdout.text.trimEnd().split("\n").at(-1) as string) as PerdureEvent;
      expect(await askHere(["events", "-f", "--json", "--after", String(seq), job.id])).toMatchObject({
        ...{ code: 0, stdout: "" },
      });
      expect((await askHere(["events", "-f", "--json", "-n", "1", job.id])).stdout).toContain("attempt.succeeded");
      const both = await askHere(["events", "-f", "--after", "1", "-n", "1"]);
      expect(both).toMatchObject({ code: 2, stderr: expect.stringContaining("--after and --limit") });
    }, 120_000);
  });

  describe("events --view noetl has a readable form", () => {
    it("prints one line per event, as in the document's Event Timeline Example, and follows with --follow", async () => {
      const script = `if [ "$PERDURE_ATTEMPT" = 1 ]; then echo '503 "busy"' >&2; exit 1; fi; ${untilThere("go-view")}`;
      const backoff = { type: "fixed", delay: 500 } as const;
      const job = await target.script(script, { retry: { maxAttempts: 3, backoff } });
      const following = startMain(["events", "-f", "--view", "noetl", job.id], { env: target.env });
      const asJson = startMain(["events", "-f", "--view", "noetl", "--json", job.id], { env: target.env });
      const agents = startMain(["events", "-f", "--view", "agent-task", job.id], { env: target.env });
      await following.untilPrinted("action_started (attempt=2)");
      go("go-view");
      for (const each of [following, asJson, agents]) expect(await each.ended).toBe(0);
      const rows = following.io.stdout.text.trimEnd().split("\n");
      expect(rows[0]).toMatch(/^ +# +AT +STATUS +EVENT$/);
      const places = rows.filter((row) => /attempt=/.test(row)).map((row) => row.search(/[a-z]/));
      expect(new Set(places).size, following.io.stdout.text).toBe(1);
      expect(
        rows.slice(1).map((row) =>
          row
            .replaceAll(/\s+/g, " ")
            .replace(/\d{4}-\S+Z/, "AT")
            .trim(),
        ),
      ).toEqual([
        "1. AT STARTED action_started (attempt=1)",
        '2. AT FAILED action_error (attempt=1, error="exit code 1: 503 \\"busy\\"")',
        "3. AT PENDING step_retry (attempt=1, delay=0.5s)",
        "[wait 0.5 seconds]",
        "4. AT STARTED action_started (attempt=2)",
        "5. AT COMPLETED action_completed (attempt=2, success=True)",
        "6. AT COMPLETED step_completed",
      ]);
      const whole = (await askHere(["events", "--view", "noetl", job.id])).stdout.trimEnd().split("\n");
      expect(whole.map((row) => row.replaceAll(/\s+/g, " ").trim())).toEqual(
        rows.map((row) => row.replaceAll(/\s+/g, " ").trim()),
      );
      const types = asJson.io.stdout.text
        .trimEnd()
        .split("\n")
        .map((text) => JSON.parse(text).event_type);
      const list = JSON.parse((await askHere(["events", "--view", "noetl", "--json", job.id])).stdout);
      expect(types).toEqual(list.map((each: { event_type: string }) => each.event_type));
      expect(agents.io.stdout.text.replaceAll(/ +/g, " ")).toMatch(
        /^AT EVENT MESSAGE\n\S+Z Normal\/Started attempt 1 .*\n\S+Z Normal\/Retrying attempt 1 failed: exit code 1.*; retrying in 500 ms, 2 retries left\n/,
      );
    }, 120_000);
  });

  describe("ps --watch", () => {
    it("redraws the list in place when jobs change, until its output is closed", async () => {
      const job = await target.script("true", { delay: "1h" });
      const shown = `${job.id.slice(0, 18)}  true  `;
      const stdout = new Until(`${shown}succeeded`);
      const env = { ...target.env, NO_COLOR: "1" };
      const watching = startMain(["ps", "-w", "-n", "1"], { env, isTTY: true, columns: 90, stdout });
      await watching.untilPrinted(`${shown}queued`);
      await target.perdure.retry(job.id);
      expect(await watching.ended).toBe(0);
      const [first = "", second = ""] = stdout.text.split("\x1b[J");
      expect(first.split("\n")).toHaveLength(4);
      expect(second.startsWith("\x1b[3A\r\x1b[2KID ")).toBe(true);
      expect(first.replaceAll("\x1b[2K", "").replace("\r", "")).not.toMatch(DANGEROUS);
    }, 120_000);

    it.each([
      [[], false, "requires a terminal"],
      [["--json"], true, "--watch and --json"],
      [["--all"], true, "--watch and --all"],
    ])("with %j is refused", async (options, isTTY, line) => {
      const said = await ask(["ps", "--watch", ...options], { env: target.env, isTTY });
      expect(said).toMatchObject({ code: 2, stdout: "", stderr: expect.stringContaining(line) });
    });
  });

  describe("ps", () => {
    const idsOf = async (...argv: string[]) =>
      (JSON.parse((await askHere(["ps", "--json", ...argv])).stdout) as { id: string }[]).map(({ id }) => id);

    it("finds jobs by name, action and reason, and shows why dead letters failed", async () => {
      const annotations = { "attune/action": "core.nightly" };
      const options = { name: "nightly backup", retry: { maxAttempts: 1 }, annotations };
      const dead = await target.script("echo disk full >&2; exit 3", options);
      await dead.result().catch(() => {});
      const other = await target.script("./nightly.sh", { delay: "1h" });
      expect(await idsOf("--name", "nightly*")).toEqual([other.id, dead.id]);
      expect(await idsOf("--name", "nightly backup")).toEqual([dead.id]);
      expect(await idsOf("--name", "nightly*", "--reason", "exhausted")).toEqual([dead.id]);
      expect(await idsOf("--action", "core.*")).toEqual([dead.id]);
      expect(await idsOf("--action", "core.nightly", "--reason", "lost")).toEqual([]);
      const [listed] = JSON.parse((await askHere(["ps", "--json", "--name", "nightly backup"])).stdout);
      expect(listed).toMatchObject({
        name: "nightly backup",
        failure: { message: expect.stringContaining("disk full") },
      });
      const { stdout } = await ask(["ps", "--dead", "--action", "core.*"], { env: target.env, columns: 80 });
      const [head = "", line = ""] = stdout.split("\n");
      expect(head).toMatch(/^ID +NAME +REASON +AGE +FAILURE$/);
      expect(line).toMatch(new RegExp(`^${dead.id.slice(0, 18)}  nightly backup  exhausted .* exit code 3`));
      expect(textWidth(line)).toBeLessThanOrEqual(80);
      expect((await askHere(["get", other.id.slice(0, 22)])).stdout).toMatch(/^Name +nightly.sh$/m);
    }, 120_000);

    it("takes short ids in every command, and lists the candidates of an ambiguous one", async () => {
      const [one, two] = [await target.script("true", { delay: "1h" }), await target.script("true", { delay: "1h" })];
      const short = (id: string) => id.slice("job_".length, 22);
      expect(JSON.parse((await askHere(["wait", "--json", "--timeout", "0s", short(one.id)])).stdout)).toMatchObject([
        { id: one.id, name: "true" },
      ]);
      for (const command of ["explain", "tree", "describe", "get"]) {
        const { code, stdout } = await askHere([command, short(one.id)]);
        expect({ command, code }).toEqual({ command, code: 0 });
        expect(stdout).toContain(one.id);
      }
      const at = [...one.id].findIndex((letter, i) => letter !== two.id[i]);
      const common = one.id.slice(0, Math.min(12, at)); // ids begin with a timestamp, and a slow machine creates them far apart
      const both = await askHere(["cancel", common]);
      expect(both).toMatchObject({ code: 2, stdout: "" });
      expect(both.stderr).toContain(
        `${common} is ambiguous; pass the id of one of these jobs: ${two.id} (true, queued), ${one.id} (`,
      );
      const none = await askHere(["cancel", short(one.id), "job_7zzzzzzz"]);
      expect(none).toMatchObject({ code: 1, stdout: `${one.id}  cancelled\n` });
      expect(none.stderr).toContain('no job has the id or name "job_7zzzzzzz"');
      const child = await askHere(["submit", "later", "--parent", short(two.id), "--json"]);
      expect(JSON.parse((await askHere(["ps", "--json", "--parent", short(two.id)])).stdout)).toMatchObject([
        { id: (JSON.parse(child.stdout) as { id: string }).id, parentId: two.id },
      ]);
    }, 120_000);

    it("filters by key, dead letters and time, and lists the oldest first", async () => {
      const options = { delay: "1h" as const, tags: ["filters"] };
      const first = await target.script("true", { ...options, key: "the first" });
      const second = await target.script("true", options);
      const dead = await target.script("exit 1", { retry: { maxAttempts: 1 }, tags: ["filters"] });
      await dead.result().catch(() => {});
      expect(await idsOf("--key", "the first")).toEqual([first.id]);
      expect(await idsOf("--dead", "--tag", "filters")).toEqual([dead.id]);
      expect(await idsOf("--tag", "filters", "--oldest")).toEqual([first.id, second.id, dead.id]);
      expect(await idsOf("--tag", "filters", "--since", "1h")).toHaveLength(3);
      expect(await idsOf("--tag", "filters", "--before", "1h")).toEqual([]);
      expect(await idsOf("--tag", "filters", "--before", "2100-01-01")).toHaveLength(3);
      expect(await idsOf("--tag", "filters", "--since", "2100-01-01T00:00:00Z")).toEqual([]);
      const wrong = await askHere(["ps", "--since", "yesterday"]);
      expect(wrong).toMatchObject({
        code: 2,
        stderr: expect.stringMatching(/--since: must be a time ago.*; got "yesterday"/),
      });
    });
  });

  describe("wait", () => {
    it("prints each job as it ends, and exits with a code for all of them", async () => {
      const slow = await target.script(untilThere("go-wait"));
      const quick = await target.script("true");
      const waiting = startMain(["wait", slow.id, quick.id], { env: target.env });
      await waiting.untilPrinted("succeeded  after 1 attempt");
      expect(waiting.io.stdout.text).not.toContain(slow.id);
      go("go-wait");
      expect(await waiting.ended).toBe(0);
      expect(waiting.io.stdout.text).toMatch(new RegExp(`^${slow.id}  .+  succeeded`, "m"));
    }, 120_000);

    it("exits with 1 if one failed or was cancelled, and with 124 after the timeout", async () => {
      const failed = await target.script("exit 3", { retry: { maxAttempts: 1 } });
      const done = await target.script("true");
      const cancelled = await target.script("true", { delay: "1h" });
      const later = await target.script("true", { delay: "1h" });
      await cancelled.cancel();
      const said = await askHere(["wait", failed.id, done.id, failed.id]);
      expect(said).toMatchObject({ code: 1, stderr: "" });
      expect(said.stdout.trimEnd().split("\n")).toHaveLength(2);
      expect(said.stdout).toMatch(new RegExp(`^${failed.id}  .+  failed \\(exhausted\\)  after 1 attempt, `, "m"));
      expect(await askHere(["wait", "-q", cancelled.id])).toEqual({ code: 1, stdout: "", stderr: "" });
      const timedOut = await askHere(["wait", "--timeout", "50ms", done.id, later.id]);
      expect(timedOut).toMatchObject({ code: 124, stderr: "timed out: 1 of 2 jobs has not ended\n" });
      const json = await askHere(["wait", "--json", "--timeout", "50ms", done.id, later.id]);
      expect(json.code).toBe(124);
      expect(JSON.parse(json.stdout)).toMatchObject([
        { id: done.id, state: "succeeded", attempt: 1 },
        { id: later.id, state: "queued", attempt: 0, finishedAt: null },
      ]);
    }, 120_000);

    it.each([
      [[], 2, "missing ID. Usage"],
      [["x"], 1, 'no job has the id or name "x"'],
      [["job_01m7gekg9zevv9a6xvvwmt1v8g"], 1, "job job_01m7gekg9zevv9a6xvvwmt1v8g does not exist"],
      [["job_01m7gekg9zevv9a6xvvwmt1v8g", "--timeout", "5"], 2, "--timeout: must be a time"],
      [["job_01m7gekg9zevv9a6xvvwmt1v8g", "--json", "--quiet"], 2, "--json and --quiet"],
    ])("refuses %j in one line", async (argv, code, line) => {
      const said = await askHere(["wait", ...argv]);
      expect(said).toMatchObject({ code, stdout: "", stderr: expect.stringMatching(/^perdure wait: [^\n]+\n$/) });
      expect(said.stderr).toContain(line);
    });
  });

  it("artifacts --output saves a file, and overwrites one only with --force", async () => {
    const job = await target.script('printf "\\000\\377" > "$PERDURE_OUTPUT_DIR/artifacts/n"');
    await job.result();
    mkdirSync(join(target.dir, "saved"));
    const save = (...options: string[]) => askHere(["artifacts", job.id, "n", "-o", "saved/n", ...options]);
    expect(await save()).toEqual({ code: 0, stdout: "", stderr: "saved saved/n (2 bytes)\n" });
    expect([...readFileSync(join(target.dir, "saved/n"))]).toEqual([0, 255]);
    writeFileSync(join(target.dir, "saved/n"), "mine");
    expect(await save()).toMatchObject({ code: 1, stderr: expect.stringContaining("saved/n already exists") });
    expect(readFileSync(join(target.dir, "saved/n"), "utf8")).toBe("mine");
    expect(JSON.parse((await save("--force", "--json")).stdout)).toMatchObject({ name: "n", file: "saved/n", size: 2 });
    expect(readdirSync(join(target.dir, "saved"))).toEqual(["n"]);
    for (const [to, line] of [
      ["nowhere/n", "cannot save nowhere/n: ENOENT"],
      ["saved", "already exists"],
    ] as const) {
      const said = await askHere(["artifacts", job.id, "n", "--output", to]);
      expect(said).toMatchObject({ code: 1, stderr: expect.stringContaining(line) });
    }
    expect(await askHere(["artifacts", job.id, "-o", "x"])).toMatchObject({ code: 2 });
    expect(await askHere(["artifacts", job.id, "none", "-o", "x"])).toMatchObject({ code: 1 });
    expect(existsSync(join(target.dir, "x"))).toBe(false);
  }, 120_000);

  it("get, explain, events, artifacts and logs show a job", async () => {
    const job = await target.script("echo out; [ $PERDURE_ATTEMPT = 2 ]");
    await job.result();
    for (const [command, text] of [
      ["get", /^Command +sh -c 'echo out/m],
      ["explain", /^Succeeded/],
      ["events", /attempt\.failed, job\.retry_scheduled/],
      ["logs", /^out\n$/],
    ] as const) {
      const said = await askHere([command, job.id]);
      expect(said).toMatchObject({ code: 0, stderr: "" });
      expect(uncoloured(said.stdout)).toMatch(text);
      expect((await askHere([command, "job_01m7gekg9zevv9a6xvvwmt1v8g"])).code).toBe(1);
    }
    expect((await askHere(["artifacts", job.id])).stderr).toContain("has no files");
  }, 120_000);
});

it("events and logs are followed across a restart of the server, without duplicates", async () => {
  await using kit = await openKit();
  const env = { PERDURE_URL: kit.url, PERDURE_TOKEN: kit.token };
  const first = await kit.embedded.submit("k");
  const fetched = vi.spyOn(globalThis, "fetch");
  onTestFinished(() => fetched.mockRestore());
  const events = startMain(["events", "-f", "--json"], { env });
  const logs = startMain(["logs", "-f", first.id], { env });
  await events.untilPrinted(first.id);
  const isFollowed = () => fetched.mock.calls.some(([url]) => String(url).includes(`${first.id}/events`));
  await expect.poll(isFollowed).toBe(true);
  await kit.stop();
  await kit.start();
  const second = await kit.embedded.submit("k");
  await events.untilPrinted(second.id);
  const lines = events.io.stdout.text.trimEnd().split("\n");
  const seqs = lines.map((line) => (JSON.parse(line) as PerdureEvent).seq);
  expect(seqs).toEqual([...new Set(seqs)].sort((a, b) => a - b));
  await kit.embedded.cancel(first.id);
  expect([await logs.ended, logs.io.stderr.text]).toEqual([0, ""]);
}, 120_000);
