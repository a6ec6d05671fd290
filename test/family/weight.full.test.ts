/** Coordination of parents and children only needs states and ids: payloads and results of a megabyte each, and
 *  thousands of them, are not read for it. */
import { expect, it, vi } from "vitest";
import { failure } from "../../src/core/decision/failure.ts";
import { decideCommand } from "../../src/core/job/command.ts";
import type { ChildPage } from "../../src/engine/children/attempt-children.ts";
import { type Bench, openBench } from "../kit.ts";

const HEAVY = JSON.stringify("x".repeat(10_000));
const COUNT = 250;

async function heavyFamily(bench: Bench): Promise<{ readonly id: string; readonly children: readonly string[] }> {
  const id = await bench.submit("parent", { payload: HEAVY });
  const { policy } = await bench.job(id);
  const parent = { id, attempt: null };
  const items = Array.from({ length: COUNT }, () => ({ kind: "child", payload: HEAVY, policy, parent }));
  const children = (await bench.engine.submit(items)).map((answer) => (answer as { id: string }).id);
  return { id, children };
}

/** Counts the text that the store returns, and how many bodies are in it. */
function weigh(bench: Bench): { heavy: number } {
  const read = { heavy: 0 };
  const spy = <Part extends object>(part: Part, verb: keyof Part) => {
    const call = (part[verb] as (...given: unknown[]) => Promise<unknown>).bind(part);
    vi.spyOn(part, verb as never).mockImplementation((async (...given: unknown[]) => {
      const answer = await call(...given);
      read.heavy += JSON.stringify(answer).split("x".repeat(10_000)).length - 1;
      return answer;
    }) as never);
  };
  for (const verb of ["jobs", "facts", "find", "amend", "history", "attempts"] as const) spy(bench.store, verb);
  spy(bench.store.children, "reachable");
  return read;
}

it("a cancel is passed on without a payload being read", async () => {
  const bench = await openBench({ services: false });
  const { id, children } = await heavyFamily(bench);
  const read = weigh(bench);
  await bench.engine.command(id, { kind: "cancel" });
  await bench.engine.sweepChildren();
  expect(read.heavy).toBe(1); // of the parent, for the caller of the command
  vi.restoreAllMocks();
  const states = (await bench.store.facts(children)).map((job) => job?.state);
  expect(new Set(states)).toEqual(new Set(["cancelled"]));
});

it("a wait is validated, and ended, without a payload being read", async () => {
  const bench = await openBench({ services: false });
  const { id, children } = await heavyFamily(bench);
  const request = { namespace: "default", name: "w", host: "h", pid: 1, queues: null, labels: {}, slots: 1 };
  const session = await bench.engine.openSession({ ...request, kinds: ["parent"] });
  const [held] = (await bench.engine.claim(session, { limit: 1 })).jobs;
  const read = weigh(bench);
  const from = { kind: "worker", token: held?.token ?? "", reportId: "r" } as const;
  const outcome = { kind: "waiting", children } as const;
  await bench.engine.report([{ jobId: id, attempt: 1, from, outcome, usage: null, log: null }]);
  expect((await bench.store.facts([id]))[0]?.state).toBe("blocked");
  const now = bench.clock.now();
  const commands = children.map((jobId) => ({ jobId, command: { kind: "cancel" } as const }));
  await bench.store.amend(commands, now, (job, command) => decideCommand(job, command, now));
  await bench.engine.sweepChildren();
  expect((await bench.store.facts([id]))[0]?.state).toBe("queued");
  expect(read.heavy).toBe(0);
});

it("all children are returned, in pages of bounded size, with their failures and without reading their attempts", async () => {
  const bench = await openBench({ services: false });
  const id = await bench.submit("parent");
  const { policy } = await bench.job(id);
  const payload = JSON.stringify("x".repeat(1_000_000));
  const born: string[] = [];
  for (let i = 0; i < 30; i++) {
    born.push(await bench.submit("child", { payload, policy, parent: { id, attempt: null } }));
  }
  const request = { namespace: "default", name: "w", host: "h", pid: 1, queues: null, labels: {}, slots: 1 };
  const session = await bench.engine.openSession({ ...request, kinds: ["child"] });
  const [held] = (await bench.engine.claim(session, { limit: 1 })).jobs;
  const from = { kind: "worker", token: held?.token ?? "", reportId: "r" } as const;
  const cause = failure({ kind: "error", class: "logical", message: "it said no" });
  const outcome = { kind: "failed", failure: cause } as const;
  await bench.engine.report([{ jobId: born[0] as string, attempt: 1, from, outcome, usage: null, log: "a long log" }]);
  const attempts = vi.spyOn(bench.store, "attempts");
  const pages: ChildPage[] = [];
  for (let next: string | null = null; pages.length === 0 || next !== null; ) {
    const page = await bench.engine.childPage(id, next);
    pages.push(page);
    next = page.next;
  }
  expect(pages.map(({ children }) => children.length)).toEqual([8, 8, 8, 6]);
  const told = pages.flatMap(({ children }) => children);
  expect(told.map((child) => child.id)).toEqual(born);
  expect(told[0]).toMatchObject({ state: "failed", reason: "rejected", failure: { message: "it said no" } });
  expect(await bench.engine.children(id)).toEqual(told);
  const run = { jobId: id, attempt: 1 };
  expect(await bench.engine.awaitedPage(run, born)).toEqual(told.slice(0, 8));
  expect(await bench.engine.awaitedChildren(run, born)).toEqual(told);
  expect(attempts).not.toHaveBeenCalled();
});
