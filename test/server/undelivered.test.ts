/** Claims whose replies do not reach their workers. */
import { once } from "node:events";
import { connect } from "node:net";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { HEADER } from "../../src/contract/wire.ts";
import type { Store } from "../../src/store/store.ts";
import { gate } from "../kit.ts";
import { startServer } from "./kit.ts";
import { DONE, openWorker } from "./worker-kit.ts";

/** Only guards against hanging. */
const WAIT = { timeout: 60_000 };

/** A server whose next claim that finds jobs is answered by its store only when `go` is opened; or one whose next claim comes to
 *  its store only then. */
async function openBench(held: "answer" | "call" = "answer") {
  const claimed = gate();
  const go = gate();
  let isHeld = false;
  const wrapStore = (store: Store): Store => ({
    ...store,
    async claim(...given) {
      if (held === "call" && !isHeld) {
        isHeld = true;
        claimed.open();
        await go.passed;
      }
      const answers = await store.claim(...given);
      if (isHeld || answers.every(({ jobs }) => jobs.length === 0)) return answers;
      isHeld = true;
      claimed.open();
      await go.passed;
      return answers;
    },
  });
  // No renewal gives anything back while the test runs.
  const server = await startServer({ wrapStore, leaseMs: 3_600_000 });
  onTestFinished(server.close);
  const worker = await openWorker(server);
  const submitted = await server.call("POST", "/v1/jobs", { body: { kind: "k" } });
  const id = submitted.body.id as string;
  const stateOf = async () => (await server.call("GET", `/v1/jobs/${id}`)).body;
  /** A claim whose caller leaves when the store has claimed a job for it. Resolves when the server has noticed. */
  async function leave(body: object): Promise<void> {
    const text = JSON.stringify({ limit: 1, waitMs: 30_000, ...body });
    const head = [
      `POST /v1/sessions/${worker.session}/claims HTTP/1.1`,
      ...["host: 127.0.0.1", `authorization: Bearer ${server.admin}`, `${HEADER.sessionKey}: ${worker.key}`],
      ...["content-type: application/json", `content-length: ${text.length}`, "", text],
    ];
    const socket = connect(server.port, "127.0.0.1");
    socket.write(head.join("\r\n"));
    await claimed.passed;
    const isOver = once(socket.resume(), "close");
    socket.end();
    await isOver; // the server ends its side when it finds that ours has ended
  }
  const logged = (part: string) => vi.waitFor(() => expect(server.logged.join("\n")).toContain(part), WAIT);
  return { server, worker, id, stateOf, leave, go, logged };
}

describe("a claim whose reply cannot be delivered", () => {
  it.each([{ claimId: "c1" }, {}])("is released at once, also for the same session (%o)", async (body) => {
    const { worker, id, stateOf, leave, go, server } = await openBench();
    await leave(body);
    go.open();
    await vi.waitFor(async () => expect(await stateOf()).toMatchObject({ state: "queued", attempt: 1 }), WAIT);
    expect(await stateOf()).toMatchObject({ failures: 0, losses: 0 });
    if ("claimId" in body) expect(await worker.claim({ ...body, waitMs: 0 })).toEqual([]);
    const again = await worker.take();
    expect(again).toMatchObject({ id, attempt: 2 });
    await worker.report(again, DONE);
    expect(await stateOf()).toMatchObject({ state: "succeeded", attempt: 2 });
    expect((await server.call("GET", `/v1/jobs/${id}/explain`)).text).toContain("the attempt had not started");
  });

  it("is kept by a repeated claim that has got it meanwhile", async () => {
    const { worker, id, stateOf, leave, go, logged } = await openBench();
    await leave({ claimId: "c1" });
    const [again] = await worker.claim({ claimId: "c1" });
    expect(again).toMatchObject({ id, attempt: 1 });
    go.open();
    await logged("claim not delivered, jobs released");
    expect(await stateOf()).toMatchObject({ state: "running", attempt: 1 });
    await worker.report(again as NonNullable<typeof again>, DONE);
    expect(await stateOf()).toMatchObject({ state: "succeeded", attempt: 1 });
  });

  it("is kept by a repeated claim that was answered before", async () => {
    const { worker, id, stateOf, leave, go, logged } = await openBench("call");
    await leave({ claimId: "c1" });
    const [first] = await worker.claim({ claimId: "c1" });
    expect(first).toMatchObject({ id, attempt: 1 });
    go.open();
    await logged("claim not delivered, jobs released");
    expect(await stateOf()).toMatchObject({ state: "running", attempt: 1 });
    await worker.report(first as NonNullable<typeof first>, DONE);
    expect(await stateOf()).toMatchObject({ state: "succeeded", attempt: 1 });
  });

  it("is kept by the last claim with its id, after which the id gets nothing more", async () => {
    const { worker, id, leave, go, logged, server } = await openBench();
    await leave({ claimId: "c1" });
    expect(await worker.claim({ claimId: "c1", last: true })).toMatchObject([{ id, attempt: 1 }]);
    go.open();
    await logged("claim not delivered, jobs released");
    await server.call("POST", "/v1/jobs", { body: { kind: "k" } });
    expect(await worker.claim({ claimId: "c1", waitMs: 30_000 })).toMatchObject([{ id, attempt: 1 }]);
    expect(await worker.claim({ claimId: "c2", last: true })).toEqual([]);
    expect(await worker.claim({ claimId: "c2", waitMs: 30_000 })).toEqual([]);
    expect(await worker.claim({ claimId: "c3" })).toHaveLength(1);
  });
});
