/** Who paused, drained, revoked, pruned, cancelled and so on: read from the events. */
import { tmpdir } from "node:os";
import { expect, it, onTestFinished } from "vitest";
import { perdure } from "../cli/kit.ts";
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
  for (const each of [secret, made2.token]) expect(text).not.toContain(each.replace(/^pdr_[^_]+_/, ""));
});

it("commands on jobs, and a prune, leave events with the name and the id of the token", async () => {
  const server = await startServer({ retention: { succeeded: 0, failed: null, cancelled: 0 } });
  onTestFinished(server.close);
  const secret = await server.token({ name: "ops" });
  const by = `token:ops (${secret.split("_")[1]})`;
  const call = async (method: string, path: string, body: unknown = {}) => {
    const reply = await server.call(method, path, { token: secret, ...(method === "GET" ? {} : { body }) });
    expect(reply.status, `${path} ${reply.text}`).toBeLessThan(300);
    return reply.body;
  };
  const submit = async () =>
    (await call("POST", "/v1/jobs", { kind: "k", input: 1, runAt: Date.now() + 3_600_000 })).id;
  const [one, two] = [await submit(), await submit()];
  await call("POST", `/v1/jobs/${one}/cancel`);
  await call("POST", `/v1/jobs/${one}/redrive`);
  await call("POST", `/v1/jobs/${one}/reschedule`, { runAt: Date.now() + 7_200_000 });
  await call("POST", `/v1/jobs/${one}/retry`);
  await call("POST", `/v1/jobs/${two}/cancel`);
  const { events } = await call("GET", "/v1/events?after=0&limit=1000");
  const named = (list: { name: string; data: { by?: string } }[]) =>
    list.filter(({ name, data }) => data.by === by && name !== "job.submitted").map(({ name }) => name);
  expect(named(events)).toEqual([
    ...["job.cancelled", "job.redriven", "job.rescheduled", "job.rescheduled", "job.cancelled"],
  ]);
  await call("POST", `/v1/jobs/${one}/cancel`);
  await new Promise((resolve) => setTimeout(resolve, 5)); // they ended before the instant of the prune
  await server.engine.prune(); // as the engine does by itself: both are gone, and no event names anybody
  const after = (await call("GET", "/v1/events?after=0&limit=1000")).events;
  expect(after.some(({ name }: { name: string }) => name === "jobs.pruned")).toBe(false);
  const three = await submit();
  await call("POST", `/v1/jobs/${three}/cancel`);
  await new Promise((resolve) => setTimeout(resolve, 5));
  expect(await call("POST", "/v1/prune")).toEqual({ jobs: 1 });
  expect(await call("POST", "/v1/prune")).toEqual({ jobs: 0 });
  const seen = async (token: string) => {
    const reply = await server.call("GET", "/v1/events?after=0&limit=1000", { token });
    const list = (reply.body as { events: { name: string; data: unknown }[] }).events;
    return list.filter(({ name }) => name === "jobs.pruned").map(({ data }) => data);
  };
  const shown = async (...args: string[]) => {
    const env = { PERDURE_URL: server.url, PERDURE_TOKEN: secret };
    return (await perdure(["events", "--json", ...args], { cwd: tmpdir(), env })).stdout.includes("jobs.pruned");
  };
  expect([await shown("--all-namespaces"), await shown()]).toEqual([true, false]);
  expect(await seen(secret)).toEqual([{ v: 1, by, state: "cancelled", jobs: 1 }]);
  // Of all namespaces: a token for one does not see it, nor a token for another that was made for all.
  const bound = await server.token({ name: "bound", scopes: ["read"], namespace: "default" });
  expect(await seen(bound)).toEqual([]);
  const { events: ofBound } = (await server.call("GET", "/v1/events?after=0&limit=1000", { token: bound })).body;
  const made = ofBound.filter(({ name }: { name: string }) => name === "token.created");
  expect(made.map(({ data }: { data: { name: string } }) => data.name)).toEqual(["bound"]);
});
