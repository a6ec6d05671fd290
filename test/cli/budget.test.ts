/** A budget covers the whole tree below its job: attempts that exceed it are stopped, nothing more is started, and the
 *  commands show what was spent, what is left, and how to grant more. Worker, engine and commands, over a real server. */
import { describe, expect, it } from "vitest";
import type { BudgetNow } from "../../src/core/decision/budget.ts";
import type { JobInfo } from "../../src/core/job/views.ts";
import { task } from "../../src/core/task/task.ts";
import { aborted, gate } from "../kit.ts";
import { KINDS, openWhere } from "./targets.ts";

interface Seen {
  readonly state: string;
  readonly reason: string | null;
}

describe.each(KINDS)("a budget of 1 USD on %s, and three children that would spend 1.8 together", (kind) => {
  it("is exceeded by what is in progress, and by nothing more", async () => {
    const where = await openWhere(kind);
    const { library, ask, askJson } = where;
    const allStarted = gate();
    let started = 0;
    const child = task("child", { retry: 3 }, async (_input: number, ctx) => {
      started += 1;
      ctx.usage({ costUsd: 0.6 });
      if (started === 3) allStarted.open();
      if (started <= 3) throw await aborted(ctx.signal);
      return "cheap";
    });
    const parent = task("parent", {}, async (_input: undefined, ctx) => {
      const children = [];
      for (const n of [1, 2, 3]) children.push(await ctx.submit(child, n));
      await allStarted.passed;
      children.push(await ctx.submit(child, 4));
      return (await ctx.waitFor(children)).map(({ state, reason }): Seen => ({ state, reason }));
    });
    // The fourth gets a slot only when the first three have ended.
    await library.work([parent]);
    await library.work([child], { concurrency: 3 });
    const job = await library.submit(parent, undefined, { retry: { budget: { costUsd: 1 } } });
    const failed = { state: "failed", reason: "budget" };
    expect(await job.result({ timeout: "60s" })).toEqual([failed, failed, failed, failed]);
    expect(started).toBe(3);

    const children = await askJson<JobInfo[]>("ps", "--parent", job.id, "--oldest");
    expect(children.map(({ attempt, usage }) => [attempt, usage?.costUsd ?? null])).toEqual([
      ...[
        [1, 0.6],
        [1, 0.6],
        [1, 0.6],
        [0, null],
      ],
    ]);
    const [first, , , last] = children as [JobInfo, JobInfo, JobInfo, JobInfo];
    const spent = "1.8 of 1 USD spent, 0 left";
    const tree = (await ask("tree", job.id)).stdout.split("\n");
    expect(tree[0]).toContain(`(budget: ${spent})`);
    expect(tree[1]).toContain("(used 0.6 USD)");
    expect(tree.at(-2)).toBe(`total  1.8 USD used; budget: ${spent}`);
    const json = await askJson<{ total: object; job: { budgets: BudgetNow[] } }>("tree", job.id);
    expect(json).toMatchObject({ total: { costUsd: 1.8 }, job: { budgets: [{ spent: { costUsd: 1.8 } }] } });
    for (const command of ["get", "describe"]) {
      expect((await ask(command, job.id)).stdout).toMatch(
        /^Budget +1\.8 of 1 USD spent, 0 left \(with all descendants\)$/m,
      );
      expect((await ask(command, first.id)).stdout).toMatch(new RegExp(`^Parent budget +${job.id}: ${spent}$`, "m"));
    }
    expect((await ask("explain", last.id)).stdout).toContain(
      ` and was not started.\n  Decision: fail (budget): the budget of ${job.id} (1 USD, 1.8 spent) has nothing left`,
    );

    // Nothing is left: a redrive needs a grant.
    const refused = await ask("redrive", last.id);
    expect(refused).toMatchObject({ code: 1, stdout: "" });
    expect(refused.stderr).toContain(
      `the budget of ${job.id} (1 USD, 1.8 spent) has nothing left; redrive with --budget`,
    );
    await expect(library.redrive(last.id)).rejects.toMatchObject({ code: "budget_spent" });
    const ids = children.map(({ id }) => id);
    const named = `4 jobs (${ids.slice(0, 3).join(", ")}, and 1 more) with a used-up budget; grant more with --budget`;
    const filtered = ["redrive", "--filter", "kind=child"] as const;
    expect(await ask(...filtered)).toEqual({ code: 1, stdout: "", stderr: `redriven: 0 jobs\nskipped: ${named}\n` });
    expect(await ask(...filtered, "--dry-run")).toEqual({
      ...{ code: 0, stdout: "", stderr: `would redrive: 0 jobs\nwould skip: ${named}\n` },
    });
    const skipped = ids.map((id) => ({
      id,
      code: "budget_spent",
      message: expect.stringContaining("has nothing left"),
    }));
    expect(await askJson(...filtered)).toEqual({ dryRun: false, jobs: [], skipped, more: false });
    expect((await ask("redrive", last.id, "--budget", "much")).code).toBe(2);
    expect((await ask("redrive", last.id, "--budget", "2")).code).toBe(0);
    expect(await (await library.job(last.id)).result({ timeout: "60s" })).toBe("cheap");
    expect((await ask("explain", last.id)).stdout).toContain("budget raised by 2 USD");
    expect((await ask("get", job.id)).stdout).toMatch(/^Budget +2\.4 of 3 USD spent, 0\.6 left/m);
  });

  it("shows what running attempts have used so far, per job and in total", async () => {
    const { library, ask, server } = await openWhere(kind);
    const [bothRun, end] = [gate(), gate()];
    let running = 0;
    const busy = task("busy", async (_input: undefined) => {
      running += 1;
      if (running === 2) bothRun.open();
      await end.passed;
    });
    await library.work([busy]);
    const root = await library.submit(busy, undefined, { retry: { budget: { costUsd: 1 } } });
    const child = (await ask("submit", "busy", "--parent", root.id)).stdout.trim();
    await bothRun.passed;
    const used = { tokensIn: 0, tokensOut: 0 };
    // A server accepts usage only from the worker of the attempt or from the job itself.
    const engine = server?.engine ?? library;
    await engine.setUsage(root.id, 1, { ...used, costUsd: 0.1 });
    await engine.setUsage(child, 1, { ...used, costUsd: 0.1 + 0.2 });
    const tree = (await ask("tree", root.id)).stdout.split("\n");
    expect(tree[0]).toContain("(used 0.1 USD; budget: 0.4 of 1 USD spent, 0.6 left)");
    expect(tree[1]).toContain("(used 0.3 USD)");
    expect(tree[2]).toBe("total  0.4 USD used; budget: 0.4 of 1 USD spent, 0.6 left");
    expect((await ask("describe", root.id)).stdout).toMatch(new RegExp(`^${child} .*used 0\\.3 USD$`, "m"));
    const fact = /^Usage +0 tokens in, 0 out, 0\.3 USD; of which 0\.3 USD by the running attempt$/m;
    expect((await ask("get", child)).stdout).toMatch(fact);
    end.open();
    await root.result({ timeout: "60s" });
    expect((await ask("get", root.id)).stdout).toMatch(/^Usage +0 tokens in, 0 out, 0\.1 USD$/m);
  });

  it("starts from zero with a resubmit, and the output shows it", async () => {
    const { library, ask } = await openWhere(kind);
    const costly = task("costly", async (_input: undefined, ctx) => {
      ctx.usage({ costUsd: 0.7 });
      throw new Error("no luck");
    });
    await library.work([costly]);
    const job = await library.submit(costly, undefined, { retry: { maxAttempts: 1, budget: { costUsd: 1 } } });
    await job.result({ timeout: "60s" }).catch(() => {});
    const { stderr } = await ask("resubmit", job.id);
    expect(stderr).toContain(
      `the new job starts with a budget of 1 USD; that of ${job.id}: 0.7 of 1 USD spent, 0.3 left`,
    );
  });
});
