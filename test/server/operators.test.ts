/** Who paused, resumed, drained, made and revoked: read from the events. */
import { expect, it, onTestFinished } from "vitest";
import { startServer } from "./kit.ts";

it("orders leave events with the name and the id of the token, and nothing of the token itself", async () => {
  const server = await startServer();
  onTestFinished(server.close);
  const secret = await server.token({ name: "ops" });
  const id = secret.split("_")[1] as string;
  const by = `token:ops (${id})`;
  const call = (method: string, path: string, body?: unknown) =>
    server.call(method, path, { token: secret, ...(body === undefined ? {} : { body }) });
  const session = await server.engine.openSession({
    ...{ namespace: "default", name: "w", host: "h", pid: 1, kinds: ["k"], queues: null, labels: {}, slots: 1 },
  });
  const made = await call("POST", "/v1/tokens", { name: "ci", scopes: ["read"], namespace: "default" });
  const made2 = made.body as { token: string; info: { id: string } };
  for (const [method, path] of [
    ["POST", "/v1/queues/mail/pause"],
    ["POST", "/v1/queues/mail/resume"],
    ["POST", `/v1/workers/${session}/drain`],
    ["DELETE", `/v1/tokens/${made2.info.id}`],
  ] as const) {
    expect((await call(method, path)).status, path).toBeLessThan(300);
  }
  const { body, text } = await call("GET", "/v1/events?after=0&limit=1000");
  const events = (body as { events: { name: string; data: Record<string, unknown> }[] }).events;
  expect(events.filter(({ data }) => data.by === by).map(({ name }) => name)).toEqual([
    "token.created",
    "queue.paused",
    "queue.resumed",
    "worker.draining",
    "token.revoked",
  ]);
  expect(events.find(({ name, data }) => name === "token.created" && data.by === by)?.data).toMatchObject({
    ...{ token: made2.info.id, name: "ci", scopes: ["read"], namespace: "default" },
  });
  for (const each of [secret, made2.token]) expect(text).not.toContain(each.split("_")[2]);
});
