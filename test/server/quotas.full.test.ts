/** The attacks on policies and lanes at full size. What is asserted is far from what is measured: machines differ. */
import { expect, it, onTestFinished } from "vitest";
import { lanesIn } from "../../src/store/conformance/kit.ts";
import { startServer } from "./kit.ts";

const condition = (i: number) => Array.from({ length: 21 }, (_, k) => `attempt == ${i * 21 + k}`).join(" or ");

it("a batch of 10,000 policies does not delay others for long", async () => {
  const server = await startServer();
  onTestFinished(server.close);
  const jobs = Array.from({ length: 10_000 }, (_, i) => ({ kind: "k", retry: { retryWhen: condition(i) } }));
  let worst = 0;
  let last = performance.now();
  const timer = setInterval(() => {
    worst = Math.max(worst, performance.now() - last);
    last = performance.now();
  }, 5);
  const { body } = await server.call("POST", "/v1/jobs/batch", { body: { jobs } });
  clearInterval(timer);
  expect(body.answers.filter((answer: object) => "id" in answer)).toHaveLength(1_000);
  expect(worst).toBeLessThan(3_000);
}, 120_000);

it("120 different policies of the largest size leave the memory as it was", async () => {
  const server = await startServer();
  onTestFinished(server.close);
  const parts = (n: number) => Array.from({ length: 100 }, (_, i) => `${n} ${i}`.padEnd(200, "x"));
  const memory = () => {
    globalThis.gc?.();
    return process.memoryUsage().rss;
  };
  const before = memory();
  for (let n = 0; n < 120; n++) {
    const retry = { maxAttempts: 2, retryOn: parts(n), noRetryOn: parts(n + 1_000) };
    const { status, body } = await server.call("POST", "/v1/jobs", { body: { kind: "k", retry } });
    expect(status).toBe(201);
    expect((await server.call("GET", `/v1/jobs/${body.id}`)).body.policy.retryOn).toHaveLength(100);
  }
  expect(memory() - before).toBeLessThan(200_000_000);
}, 120_000);

it("a token that makes queues until it is refused leaves the others theirs", async () => {
  const server = await startServer({ limits: { lanesPerToken: 5_000 } });
  onTestFinished(server.close);
  const greedy = await server.token({ name: "greedy", scopes: ["submit"] });
  const other = await server.token({ name: "other", scopes: ["submit"] });
  const jobs = Array.from({ length: 9_999 }, (_, i) => ({ kind: "k", queue: `q${i}` }));
  const { body } = await server.call("POST", "/v1/jobs/batch", { token: greedy, body: { jobs } });
  expect(body.answers.filter((answer: object) => "id" in answer)).toHaveLength(5_000);
  const mine = await server.call("POST", "/v1/jobs", { token: other, body: { kind: "k", queue: "mine" } });
  expect(mine.status).toBe(201);
}, 120_000);

it.each(["sqlite", "postgres"] as const)(
  "calls at the same time do not pass the quota (%s)",
  async (store) => {
    const server = await startServer({ store, limits: { lanesPerToken: 20, lanesPerNamespace: 30 } });
    onTestFinished(server.close);
    const tokens = [
      await server.token({ name: "ci", scopes: ["submit"] }),
      await server.token({ name: "ci", scopes: ["submit"] }),
    ];
    const lists = (name: string) =>
      Array.from({ length: 40 }, (_, n) =>
        Array.from({ length: 20 }, (_, k) => ({ kind: "k", queue: `${name}-${n}-${k}` })),
      );
    for (const [made, i] of [
      [20, 0],
      [30, 1],
    ] as const) {
      const token = tokens[i] as string;
      const one = await server.call("POST", "/v1/jobs", { token, body: { kind: "k", queue: "first", key: `K${i}` } });
      expect(one.status).toBe(201);
      const refused = lists(`${i}`)
        .slice(0, 5)
        .map((jobs) => jobs.map((job) => ({ ...job, key: `K${i}` })));
      for (const jobs of refused) await server.call("POST", "/v1/jobs/batch", { token, body: { jobs } });
      await Promise.all(lists(`${i}`).map((jobs) => server.call("POST", "/v1/jobs/batch", { token, body: { jobs } })));
      expect(await lanesIn(server.store)).toBe(made);
    }
  },
  120_000,
);
