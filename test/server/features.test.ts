/** What a server does with unknown fields, and how it reports its features. */
import { expect, it, onTestFinished } from "vitest";
import { HEADER } from "../../src/contract/wire.ts";
import { startServer } from "./kit.ts";
import { openWorker } from "./worker-kit.ts";

const NEW = { added: { later: true } };

async function serverWithJob() {
  const server = await startServer();
  onTestFinished(server.close);
  const { body } = await server.call("POST", "/v1/jobs", { body: { kind: "k", input: 1, retry: 1 } });
  return { server, id: body.id as string, worker: await openWorker(server) };
}

it("ignores them in frequent calls of workers, and does not store them", async () => {
  const { server, id, worker } = await serverWithJob();
  const room = { cpu: 1_000, memory: 1_000, ...NEW };
  const [job] = await worker.claim({ room, ...NEW });
  if (job === undefined) throw new Error("no job was due");
  const held = { jobId: id, attempt: 1, usage: { tokensIn: 1, tokensOut: 2, costUsd: 0, ...NEW }, ...NEW };
  const health = { consecutive_failures: 0, total: 1, failed: 0, average_ms: 1, in_hand: 1, slots: 1, load: 0 };
  const renewed = await worker.call("POST", "/renew", {
    body: { held: [held], health: { ...health, ...NEW }, ...NEW },
  });
  expect(renewed.body).toMatchObject({ alive: true, lost: [] });
  expect((await worker.call("POST", "/notices", { body: { waitMs: 0, ...NEW } })).status).toBe(200);
  const lease = { [HEADER.lease]: job.token };
  const look = await worker.call("POST", `/jobs/${id}/children/look`, { body: NEW, headers: lease });
  expect(look.body).toMatchObject({ children: [] });
  const failure = { kind: "exit", message: "no luck", exitCode: 3, ...NEW };
  const usage = { tokensIn: 3, tokensOut: 4, costUsd: 0.5, ...NEW };
  const answer = await worker.report(job, { kind: "failed", failure, ...NEW }, { usage, ...NEW });
  expect(answer).toMatchObject({ status: "accepted", state: "failed" });
  const stored = [await server.call("GET", `/v1/jobs/${id}`), await server.call("GET", `/v1/jobs/${id}/attempts`)];
  expect(stored[0]?.body.failure).toMatchObject({ message: "no luck", exitCode: 3 });
  for (const { text } of stored) expect(text).not.toContain("added");
  expect((await server.call("GET", "/v1/workers")).text).not.toContain("added");
});

it("goes by the kind of an outcome, not by fields of another kind", async () => {
  const { worker } = await serverWithJob();
  const answer = await worker.report(await worker.take(), { kind: "completed", result: "1", failure: "of what?" });
  expect(answer).toMatchObject({ status: "accepted", state: "succeeded" });
});

it("still refuses a wrong value of a field that it knows, and unknown fields of a session and of a job", async () => {
  const { server, id, worker } = await serverWithJob();
  const wrong = await worker.call("POST", "/renew", { body: { held: [{ jobId: id, attempt: "1" }] } });
  expect([wrong.status, wrong.body.path]).toEqual([400, "held[0].attempt"]);
  const session = { name: "w", kinds: ["k"], slots: 1, queue: ["mail"] };
  const opened = await server.call("POST", "/v1/sessions", { body: session });
  expect(opened.body).toMatchObject({ code: "invalid_request", path: "queue" });
  expect((await server.call("POST", "/v1/jobs", { body: { kind: "k", ...NEW } })).status).toBe(400);
});

it("sends its features only to clients that send theirs, also with errors", async () => {
  const { server } = await serverWithJob();
  const asked = async (headers: Record<string, string>, token: string | null = server.admin) => {
    const reply = await server.call("GET", "/v1/version", { headers, token });
    return [reply.status, reply.headers.get(HEADER.features)];
  };
  expect(await asked({ [HEADER.features]: "" })).toEqual([200, "unknown-fields"]);
  expect(await asked({ [HEADER.features]: "of-tomorrow" }, null)).toEqual([401, "unknown-fields"]);
  expect(await asked({})).toEqual([200, null]);
});
