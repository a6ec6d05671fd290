/** References to jobs on the command line: job ids, ids of OPAL's clients, beginnings of ids, and names; on a local data
 *  directory and through a server. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { exec } from "../../src/core/input/builtin.ts";
import { type SubmitOptions, task } from "../../src/core/task/task.ts";
import { resubmit } from "../../src/dialects/index.ts";
import { perdure } from "./kit.ts";
import { newDir, openWhere, type TargetKind, type Where } from "./targets.ts";

const DRAWN = "job_92e725aa5034";
const NOBODY = "job_01m7gekg9zevv9a6xvvwmt1v8g";
const ENDED = { ...{ stdout: "", stderr: "" }, code: 1 } as const;

async function later(library: Where["library"], options: SubmitOptions = {}): Promise<string> {
  return (await library.submit("later", null, { delay: "1h", ...options })).id;
}

describe.each<TargetKind>(["data", "server"])("a reference to a job, on %s", (kind) => {
  // Each reference and the jobs it matches: one is found, several are ambiguous, none is not found.
  it("matches one job by its id, else an OPAL id, else the beginning of an id, else its name; a job is never guessed", async () => {
    const { askJson, ask, library } = await openWhere(kind);
    const a = await later(library, { name: "nightly backup" });
    const short = a.slice("job_".length, 24);
    const drawn = await later(library, { key: `opal:${DRAWN}` });
    const chosen = await later(library, { key: "opal:Scan_7.x-1" });
    const asWhole = await later(library, { key: `opal:${NOBODY}` });
    const likeA = await later(library, { key: `opal:${a}` });
    const likeShort = await later(library, { key: `opal:job_${short}` });
    await later(library, { name: "Scan_7.x-1" });
    const [one, two] = [await later(library, { name: "hourly" }), await later(library, { name: "hourly" })];
    const [origin, copy] = [await later(library, { name: "weekly" }), (await resubmit(library, one)).job.id];
    for (let i = 0; i < 25; i += 1) await resubmit(library, origin);
    const named = await later(library, { name: a.slice("job_".length, 23) });
    const task = await later(library, { key: "opal:write-tests", name: "x" });
    const digits = await later(library, { key: `agent-task:default/${a.slice("job_".length, 8)}` });
    const launched = await later(library, { key: "fluster:exp/w0", name: "y" });
    await later(library, { name: "exp/w0" });
    const elsewhere = "opal:elsewhere";
    await later(library, { key: elsewhere.slice("opal:".length) });
    const table: readonly (readonly [string, readonly string[]])[] = [
      [a, [a]], // a full id comes first, also if it is another job's OPAL id
      [NOBODY, [asWhole]],
      [DRAWN, [drawn]],
      ["Scan_7.x-1", [chosen]], // an id before a name
      ["write-tests", [task]],
      [a.slice("job_".length, 8), [digits]], // such as a task named 01m7, with which every id of that time begins
      ["exp/w0", [launched]],
      [short, [a]],
      [`job_${short}`, [likeShort]], // a key before the beginning of an id
      [a.slice("job_".length, 23), [a]], // an id before a name
      [named, [named]],
      [likeA, [likeA]],
      ["nightly backup", [a]],
      ["hourly", [one, two]],
      ["weekly", [origin]], // not those resubmitted from it
      [copy, [copy]],
      ["night*", []],
      ["elsewhere", []], // a key is not a reference
      ["opal:write-tests", []],
      ["nobody", []],
      ["job_01m", []],
    ];
    for (const [text, jobs] of table) {
      const said = await ask("explain", text);
      if (jobs.length === 1) {
        expect([text, said.code, (await askJson<{ id: string }>("get", text)).id]).toEqual([text, 0, jobs[0]]);
        continue;
      }
      expect([text, said.code, said.stdout]).toEqual([text, jobs.length === 0 ? 1 : 2, ""]);
      expect(said.stderr).toContain(jobs.length === 0 ? "no job has the id or name" : "is ambiguous");
      for (const id of jobs) expect(said.stderr).toContain(id);
    }
    const other = await ask("get", DRAWN, "--namespace", "other");
    expect(other).toMatchObject({ ...ENDED, stderr: expect.stringContaining("no job has the id or name") });
  });

  it("OPAL ids work in every command: explain job_abc123", async () => {
    const { ask, askJson, library, dir } = await openWhere(kind);
    const options = { key: "opal:job_abc123", tags: ["opal"], delay: "1h" as const, retry: 1 };
    const { id } = await library.submit("exec", { argv: ["false"] }, options);
    const ref = "job_abc123";
    for (const command of ["get", "explain", "events", "describe", "tree"]) {
      const { code, stdout } = await ask(command, ref);
      expect([command, code, stdout.includes(id) || command === "events"]).toEqual([command, 0, true]);
    }
    expect(await ask("events", "--view", "noetl", ref)).toMatchObject({ code: 0 });
    expect(await ask("logs", ref)).toMatchObject({ code: 1, stderr: expect.stringContaining(`${id} has not started`) });
    expect(await ask("artifacts", ref)).toMatchObject({ code: 1, stderr: expect.stringContaining(`${id} has no`) });
    expect(await askJson("wait", "--timeout", "0s", ref)).toMatchObject([{ id, state: "queued" }]);
    // A child is submitted and listed by the same reference, on the command line and in a file.
    const child = await askJson<{ id: string }>("submit", "later", "--parent", ref);
    writeFileSync(join(dir, "job.yaml"), `kind: later\nparent: ${ref}\n`);
    const [inFile] = await askJson<[{ id: string }]>("submit", "-f", "job.yaml");
    const listed = await askJson<{ id: string }[]>("ps", "--parent", ref);
    expect(listed.map((job) => job.id).sort()).toEqual([child.id, inFile.id].sort());
    // Commands that change the job answer with its full id.
    const worker = await library.work([exec]);
    expect(await ask("retry", ref)).toMatchObject({ code: 0, stdout: expect.stringContaining(id) });
    await (await library.job(id)).result().catch(() => {});
    await worker.stop();
    expect(await ask("logs", ref)).toMatchObject({ code: 0 });
    expect(await ask("discard", ref)).toMatchObject({ code: 0, stdout: expect.stringMatching(`${id}  failed`) });
    expect(await ask("redrive", ref, "--max-attempts", "2")).toMatchObject({ code: 0, stdout: `${id}  queued\n` });
    expect(await askJson("resubmit", ref)).toMatchObject({ resubmitOf: id });
    expect(await ask("cancel", ref, ref)).toMatchObject({ code: 0, stdout: `${id}  cancelled\n` });
    const usage = await ask("usage", ref, "--tokens-in", "1");
    expect(usage).toMatchObject({ code: 1, stderr: expect.stringMatching(/is not running|requires the job token/) });
  });
});

describe("a token that may submit and not read", () => {
  // The exit code of each command for a full id; a search by name would require read scope.
  it.each<readonly [argv: readonly string[], code: number]>([
    [["retry"], 0],
    [["cancel"], 0],
    [["discard"], 0],
    [["redrive"], 0],
    [["submit", "later", "--parent"], 0],
    ...["get", "explain", "events", "describe", "tree", "logs", "artifacts", "wait", "resubmit"].map(
      (command) => [[command], 1] as const,
    ),
    [["ps", "--parent"], 1],
    [["ps", "--resubmit-of"], 1],
    [["usage", "--tokens-in", "1"], 1],
  ])("%j of a full id ends with %i", async ([command = "", ...more], code) => {
    const { ask, library, server } = await openWhere("server");
    const PERDURE_TOKEN = await server?.token({ scopes: ["submit"] });
    const asker = await openOn(server?.url ?? "", PERDURE_TOKEN ?? "");
    const { id } = await library.submit("later", null, { retry: 2, name: "by-name" });
    const worker = await library.work([task("later", () => Promise.reject(new Error("no")))]);
    const isOver = ["discard", "redrive"].includes(command);
    if (isOver) {
      await (await library.job(id)).result().catch(() => {});
    } else await expect.poll(async () => (await (await library.job(id)).get()).attempt).toBe(1);
    await worker.stop();
    const said = await asker(command, ...more, id);
    expect([said.code, said.stderr.includes("scope")]).toEqual([code, code === 1]);
    if (code === 1 || command === "submit") return;
    expect(said.stdout).toContain(id);
    expect(await asker(command, ...more, "by-name")).toMatchObject({
      code: 1,
      stderr: expect.stringContaining("read"),
    });
    expect((await ask("get", id)).code).toBe(0);
  });

  it("applies an AgentTask, again and with a change", async () => {
    const { library, server, dir } = await openWhere("server");
    const asker = await openOn(server?.url ?? "", (await server?.token({ scopes: ["submit"] })) ?? "", dir);
    const apply = (prompt: string, ...argv: string[]) => {
      writeFileSync(
        join(dir, "task.yaml"),
        `apiVersion: core.hortator.ai/v1alpha1\nkind: AgentTask\nmetadata: { name: t }\nspec: { prompt: ${prompt}, command: [a] }\n`,
      );
      return asker("apply", "-f", "task.yaml", ...argv);
    };
    const first = await apply("One.");
    expect([first.code, first.stdout]).toEqual([0, expect.stringMatching(/^job_/)]);
    const again = await apply("One.");
    expect(again).toMatchObject({ code: 0, stdout: first.stdout, stderr: expect.stringContaining("already exists") });
    const dry = await apply("Two.", "--dry-run");
    expect(dry).toMatchObject({ code: 0, stderr: expect.stringContaining("this token has no scope read") });
    const changed = await apply("Two.");
    expect(changed).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/the key "agent-task:default\/t" belongs to/),
    });
    expect((await library.jobs()).jobs).toHaveLength(1);
  });
});

/** Runs commands with another token. */
async function openOn(url: string, PERDURE_TOKEN: string, cwd = newDir()) {
  return (command: string, ...argv: string[]) =>
    perdure([command, "--server", url, ...argv], { cwd, env: { PERDURE_TOKEN } });
}

describe("a reference", () => {
  it("that cannot match any job is a usage error, and nothing is done", async () => {
    const { ask, library } = await openWhere("data");
    const id = await later(library, { name: "later" });
    for (const text of ["x\x1b[2J", "", " x", "x".repeat(501)]) {
      const said = await ask("cancel", "later", text);
      expect(said).toMatchObject({
        code: 2,
        stdout: "",
        stderr: expect.stringContaining("neither the id nor the name"),
      });
    }
    expect(await (await library.job(id)).get()).toMatchObject({ state: "queued" });
  });
});
