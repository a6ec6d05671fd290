/** `perdure tree`, `perdure usage`, and the options of submit and ps for parents, resources and annotations. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { textWidth } from "../../src/cli/output/terminal-text.ts";
import type { PolicyFields } from "../../src/core/index.ts";
import type { JobInfo } from "../../src/core/job/views.ts";
import { task } from "../../src/core/task/task.ts";
import { gate } from "../kit.ts";
import { perdure } from "./kit.ts";
import { KINDS, openWhere, type Where } from "./targets.ts";

async function submitted({ ask }: Where, ...argv: string[]): Promise<string> {
  const { code, stdout, stderr } = await ask("submit", ...argv);
  expect({ code, stderr: stderr.replaceAll(/no worker (is running|has published).*\n/g, "") }).toEqual({
    code: 0,
    stderr: "",
  });
  return stdout.trim();
}

describe.each(KINDS)("families on %s", (kind) => {
  it("are created by --parent, and shown by tree and ps", async () => {
    const where = await openWhere(kind);
    const top = await submitted(where, "top");
    const left = await submitted(where, "left", "--parent", top, "--key", "l");
    const right = await submitted(where, "--parent", top, "--key", "p1", "--", "./right.sh", "a b");
    const leaf = await submitted(where, "leaf", "--parent", left);
    const { stdout } = await where.ask("tree", top);
    expect(stdout.split("\n").map((line) => line.trimEnd())).toEqual([
      `${top}  queued  top`,
      `├─ ${left}  queued  left  [l]`,
      `│  └─ ${leaf}  queued  leaf`,
      `└─ ${right}  queued  right.sh  [p1]`,
      "",
    ]);
    const tree = await where.askJson<{ children: { job: { id: string } }[] }>("tree", top);
    expect(tree.children.map(({ job }) => job.id)).toEqual([left, right]);
    const listed = await where.askJson<{ id: string }[]>("ps", "--parent", top, "--oldest");
    expect(listed.map(({ id }) => id)).toEqual([left, right]);
    const cut = await where.ask("tree", top, "--limit", "2");
    expect(cut.stdout.split("\n")).toHaveLength(3);
    expect(cut.stderr).toContain("more than 2 jobs");
  });

  it("have the names from their documents in tree and describe", async () => {
    const where = await openWhere(kind);
    const agent = "apiVersion: a/v1\nkind: AgentTask\nmetadata: { name: plan }\nspec: { command: [sh, -c, 'a; b'] }\n";
    writeFileSync(join(where.dir, "agent.yaml"), agent);
    const top = (await where.ask("apply", "-f", "agent.yaml")).stdout.trim();
    const fluster = `name: train\nentrypoint: [./train.sh]\nports: []\nparent_job_id: ${top}\n`;
    writeFileSync(join(where.dir, "fluster.yaml"), fluster);
    const child = (await where.ask("apply", "-f", "fluster.yaml")).stdout.trim();
    writeFileSync(join(where.dir, "action.yaml"), "name: fetch\nruntime: shell\nentrypoint: action.yaml\n");
    const action = (await where.ask("apply", "-f", "action.yaml")).stdout.trim();
    expect((await where.ask("tree", top)).stdout).toBe(`${top}  queued  plan\n└─ ${child}  queued  train\n`);
    for (const [id, name] of [
      [top, "plan"],
      [child, "train"],
      [action, "fetch"],
    ] as const) {
      expect((await where.ask("describe", id)).stdout).toMatch(new RegExp(`^Name +${name}$`, "m"));
    }
  });

  it("show the keys of children as they were passed", async () => {
    const where = await openWhere(kind);
    const top = await submitted(where, "top", "--key", "all");
    const child = await submitted(where, "part", "--parent", top, "--key", "p1");
    const described = await where.ask("describe", top);
    expect(described.stdout).toMatch(/^Key +all$/m);
    expect(described.stdout).toMatch(new RegExp(`^${child} +p1 +queued$`, "m"));
    const shown = await where.askJson<{ children: object[] }>("describe", top);
    const free = { failure: null, usage: null, liveUsage: null, budgets: [] };
    expect(shown.children).toEqual([
      { id: child, kind: "part", name: "p1", key: "p1", state: "queued", reason: null, ...free },
    ]);
    for (const command of ["get", "describe"]) {
      const { stdout } = await where.ask(command, child);
      expect(stdout).toMatch(/^Key +p1$/m);
      expect(stdout).toMatch(new RegExp(`^Parent +${top}$`, "m"));
    }
  });

  it("show a child's failure reason in tree, describe and the parent's status without a request per child", async () => {
    const where = await openWhere(kind);
    const top = await submitted(where, "top");
    const bad = task("bad", () => {
      throw new Error("exit code 7: entrypoint\ncrash \u001b[31m");
    });
    const child = (key: string, retry: PolicyFields) =>
      where.library.submit(bad, undefined, { parent: top, key, retry });
    const waiting = await submitted(where, "waiting", "--parent", top);
    const failed = await child("f", { maxAttempts: 1 });
    const retried = await child("r", { maxAttempts: 3, backoff: { type: "fixed", delay: "1h" } });
    await where.library.work([bad]);
    await expect(failed.result()).rejects.toMatchObject({ code: "job_failed" });
    while ((await retried.get()).failures === 0) await new Promise((resolve) => setTimeout(resolve, 5));
    const why = "exit code 7: entrypoint crash [31m";

    const tree = (await where.ask("tree", top)).stdout.split("\n").slice(1);
    expect(tree[0]).toBe(`├─ ${waiting}  queued  waiting`);
    expect(tree[1]).toBe(`├─ ${failed.id}  failed (exhausted)  bad  [f]  ${why}`);
    expect(tree[2]?.replace(/in [\w .]+/, "in SPAN")).toBe(`└─ ${retried.id}  queued (in SPAN)  bad  [r]  ${why}`);
    const { server, dir } = where;
    const place = server === null ? ["--data", dir] : ["--server", server.url];
    const env = server === null ? {} : { PERDURE_TOKEN: server.admin };
    const narrow = await perdure(["tree", ...place, top], { cwd: dir, env, columns: 90 });
    for (const line of narrow.stdout.split("\n")) expect(textWidth(line)).toBeLessThanOrEqual(90);
    expect(narrow.stdout).toContain("exit code");

    for (const view of [[], ["-o", "agent-task"]]) {
      const rows = (await where.ask("describe", ...view, top)).stdout.split("\n");
      const row = (id: string) => rows.find((each) => each.startsWith(id))?.replaceAll(/ +/g, " ");
      expect(row("CHILD")).toBe("CHILD NAME STATE FAILURE");
      expect(row(failed.id)).toBe(`${failed.id} f failed (exhausted) ${why}`);
      expect(row(retried.id)).toContain(why);
    }
    const listed = (await where.ask("ps", "--parent", top)).stdout.split("\n");
    expect(listed.filter((line) => line.includes(why))).toHaveLength(2);

    const { status } = JSON.parse((await where.ask("get", "-o", "agent-task", top)).stdout);
    const reason = "exit code 7: entrypoint\ncrash \u001b[31m";
    expect(status.children).toEqual([
      { name: "f", id: failed.id, phase: "Failed", reason },
      { name: "waiting", id: waiting, phase: "Pending" },
      { name: "r", id: retried.id, phase: "Retrying", reason },
    ]);
    const nodes = (await where.askJson<{ children: { job: JobInfo }[] }>("tree", top)).children;
    expect(nodes.map(({ job }) => job.failure?.message ?? null)).toEqual([null, reason, reason]);
    const { children } = await where.askJson<{ children: JobInfo[] }>("describe", top);
    expect(children.map(({ failure }) => failure?.message ?? null)).toEqual([null, reason, reason]);
  });

  it("end when their parent is cancelled", async () => {
    const where = await openWhere(kind);
    const top = await submitted(where, "top");
    const child = await submitted(where, "child", "--parent", top);
    const leaf = await submitted(where, "leaf", "--parent", child);
    expect((await where.ask("cancel", top)).code).toBe(0);
    const waited = await where.ask("wait", leaf, "--timeout", "20s");
    expect(waited.code).toBe(1);
    expect((await where.ask("tree", top)).stdout.match(/cancelled/g)).toHaveLength(3);
    const late = await where.ask("submit", "late", "--parent", top);
    expect(late.code).not.toBe(0);
    expect(late.stderr).toContain("ended");
  });

  it("are not stored in part: a file with a parent that does not exist or has ended stores nothing", async () => {
    const where = await openWhere(kind);
    const ended = await submitted(where, "top");
    await where.ask("cancel", ended);
    for (const parent of [ended, "job_01m7gekg9zevv9a6xvvwmt1v8g"]) {
      writeFileSync(join(where.dir, "two.yaml"), `jobs:\n  - kind: a\n  - kind: b\n    parent: ${parent}\n`);
      const { code, stderr } = await where.ask("apply", "-f", "two.yaml");
      expect({ code, stderr }).toMatchObject({ code: 2, stderr: expect.stringMatching(/two\.yaml:4:5: its parent/) });
    }
    expect((await where.library.jobs()).jobs).toHaveLength(1);
  });

  it("keep resources and annotations, and refuse invalid ones", async () => {
    const where = await openWhere(kind);
    const id = await submitted(where, "big", "--cpu", "1.5", "--memory", "2g", "--annotation", "owner=Ada Ł");
    const job = await (await where.library.job(id)).get();
    expect(job.annotations).toEqual({ owner: "Ada Ł" });
    expect(job.labels).toEqual({ "resource/cpu": "1500", "resource/memory": String(2 ** 31) });
    for (const [argv, said] of [
      [["--cpu", "many"], /^perdure submit: --cpu: must be .*; got "many"/],
      [["--memory", "2 gigs"], /^perdure submit: --memory: must be .*; got "2 gigs"/],
      [["--label", "resource/cpu=1"], /resource\//],
      [["--annotation", "owner"], /--annotation: must be NAME=VALUE; got "owner"/],
      [["--parent", "job_01m7gekg9zevv9a6xvvwmt1v8g"], /job .* does not exist, so it cannot have children/],
    ] as const) {
      const { code, stderr } = await where.ask("submit", "big", ...argv);
      expect(code).not.toBe(0);
      expect(stderr).toMatch(said);
    }
    expect((await where.library.jobs()).jobs).toHaveLength(1);
  });

  it("report usage of a running job, which ends when its budget is spent", async () => {
    const where = await openWhere(kind);
    const started = gate();
    const stopped = gate<string>();
    const think = task("think", { retry: { maxAttempts: 3, budget: { costUsd: 1 } } }, async (_: null, ctx) => {
      started.open();
      await new Promise<void>((resolve) => ctx.signal.addEventListener("abort", () => resolve()));
      stopped.open(String(ctx.signal.reason.message));
      throw ctx.signal.reason;
    });
    const job = await where.library.submit(think, null);
    expect((await where.ask("usage", job.id, "--cost-usd", "0.5")).code).toBe(1);
    await where.library.work([think]);
    await started.passed;
    const { server, dir } = where;
    const reportUsage = (...argv: string[]) => {
      if (server === null) return where.ask("usage", job.id, ...argv);
      const env = { PERDURE_TOKEN: server.jobToken(job.id, 1), PERDURE_JOB_ID: job.id, PERDURE_ATTEMPT: "1" };
      return perdure(["usage", "--server", server.url, ...argv], { cwd: dir, env });
    };
    if (server !== null) {
      const refused = await where.ask("usage", job.id, "--cost-usd", "9");
      expect(refused).toMatchObject({ code: 1, stderr: expect.stringContaining("requires the job token") });
    }
    expect(await reportUsage("--tokens-in", "7", "--cost-usd", "0.5")).toMatchObject({ code: 0, stderr: "" });
    expect((await reportUsage("--cost-usd", "1.25")).code).toBe(0);
    expect(await stopped.passed).toContain("budget");
    await expect(job.result()).rejects.toMatchObject({ reason: "budget" });
    expect((await job.get()).usage).toEqual({ tokensIn: 7, tokensOut: 0, costUsd: 1.25 });
    for (const argv of [[], ["--cost-usd", "-1"], ["--tokens-in", "x"]]) {
      expect((await where.ask("usage", job.id, ...argv)).code).toBe(2);
    }
  });
});
