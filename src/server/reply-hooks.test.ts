import { connect } from "node:net";
import Fastify, { type FastifyInstance } from "fastify";
import { expect, it, onTestFinished } from "vitest";
import { systemClock } from "../lib/system-clock.ts";
import { ReplyBudget, type ReplyGrant } from "./reply-budget.ts";
import { addReplyBudget } from "./reply-hooks.ts";

it("counts a list from before it is made, and gives back what was granted to a caller that has gone", async () => {
  const budget = new ReplyBudget({ maxBytes: 800, maxWaiting: 10, maxWaitMs: 60_000 }, systemClock);
  const app = Fastify() as unknown as FastifyInstance;
  app.decorateRequest("who", null);
  app.addHook("onRequest", async (request) => {
    request.who = { id: "a" } as never;
  });
  addReplyBudget(app, budget);
  const seen: number[] = [];
  const served = { name: "listJobs", share: () => "reader" } as never;
  app.get("/", { config: { served } }, async () => {
    seen.push(budget.held("reader read"));
    return "ok";
  });
  const url = await app.listen({ port: 0, host: "127.0.0.1" });
  onTestFinished(() => app.close());
  expect(await (await fetch(url)).text()).toBe("ok");
  expect(seen).toEqual([100]); // an eighth
  await expect.poll(() => budget.held("reader read")).toBe(0);

  const held = budget.enter("reader read", { who: "a" }, 400) as ReplyGrant;
  const caller = connect(Number(new URL(url).port), "127.0.0.1");
  caller.write("GET / HTTP/1.1\r\nhost: localhost\r\n\r\n");
  await expect.poll(() => budget.isPressed).toBe(true);
  caller.destroy();
  const open = () => new Promise((resolve) => app.server.getConnections((_, count) => resolve(count)));
  app.server.closeIdleConnections(); // that of fetch
  await expect.poll(open).toBe(0);
  held.release();
  await expect.poll(() => budget.held("reader read")).toBe(0);
});
