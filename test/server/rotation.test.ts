/** Servers whose signing secret is replaced while workers and commands are running. */
import { createHmac } from "node:crypto";
import { describe, expect, it, onTestFinished } from "vitest";
import { HEADER } from "../../src/contract/wire.ts";
import { KeyRing, type Secret } from "../../src/server/key-ring.ts";
import { startServer } from "./kit.ts";
import { DONE, openWorker } from "./worker-kit.ts";

const EXEC = { kind: "exec", input: { argv: ["true"] } };
const FORMER = "f".repeat(32);
const NEW: Secret = { text: "n".repeat(40), signsFrom: null, until: null };

function former(signed: string): string {
  return createHmac("sha256", FORMER).update(signed).digest("base64url");
}

describe("the signing secret of a server", () => {
  it("is replaced without a lost session, lease or token of a command", async () => {
    const time = { now: 0 };
    const first: Secret = { text: "a".repeat(40), signsFrom: null, until: null };
    const keys = new KeyRing([first], () => time.now);
    const server = await startServer({ keys });
    onTestFinished(server.close);
    const worker = await openWorker(server, { kinds: ["exec"] });
    const { id } = (await server.call("POST", "/v1/jobs", { body: EXEC })).body;
    const job = await worker.take();
    const renew = async (key: string) => {
      const headers = { [HEADER.sessionKey]: key };
      return worker.call("POST", "/renew", { headers, body: { held: [{ jobId: id, attempt: 1 }] } });
    };
    const asJob = async (token: string) => (await server.call("GET", `/v1/jobs/${id}`, { token })).status;

    expect((await renew(worker.key)).body.key).toBeUndefined();
    keys.replace([NEW, { ...first, until: 1_000 }]);
    const renewed = await renew(worker.key);
    expect(renewed).toMatchObject({ status: 200, body: { alive: true, lost: [] } });
    const { key } = renewed.body;
    expect(key).not.toBe(worker.key);
    expect((await renew(key)).body.key).toBeUndefined();
    expect(await asJob(job.jobToken as string)).toBe(200);
    await server.call("POST", "/v1/jobs", { body: EXEC });
    const next = await worker.take(); // with the key it had: both are good

    time.now = 1_000;
    expect((await renew(worker.key)).status).toBe(403);
    expect(await asJob(job.jobToken as string)).toBe(401);
    expect((await renew(key)).status).toBe(200);
    expect((await server.call("GET", `/v1/jobs/${next.id}`, { token: next.jobToken as string })).status).toBe(200);
  });

  it("of an earlier version is good for what it signed, and forges nothing once it is over", async () => {
    const time = { now: 0 };
    const old: Secret = { text: FORMER, signsFrom: null, until: 1_000, isUnnamed: true };
    const server = await startServer({ keys: new KeyRing([NEW, old], () => time.now) });
    onTestFinished(server.close);
    const worker = await openWorker(server, { kinds: ["exec"] });
    const { id } = (await server.call("POST", "/v1/jobs", { body: EXEC })).body;
    const job = await worker.take();
    const key = former(`session:${worker.session}:default`);
    const token = `pdj_${id.slice(4)}_1_${former(`job:${id}:1`)}`;
    const statuses = async () => {
      const held = { held: [{ jobId: id, attempt: 1 }] };
      const renewed = await worker.call("POST", "/renew", { headers: { [HEADER.sessionKey]: key }, body: held });
      return [renewed.status, (await server.call("GET", `/v1/jobs/${id}`, { token })).status];
    };
    expect(await statuses()).toEqual([200, 200]);
    time.now = 1_000;
    expect(await statuses()).toEqual([403, 401]);
    expect((await worker.report(job, DONE)).status).toBe("accepted");
  });

  it("that a server does not have yet makes it not ready, and no refusal", async () => {
    const ahead = new KeyRing([NEW], () => 0);
    const behind = new KeyRing([{ ...NEW, text: "b".repeat(40) }], () => 0);
    const server = await startServer({ keys: ahead });
    onTestFinished(server.close);
    const late = await startServer({ url: server.storeUrl, keys: behind });
    onTestFinished(late.close);
    const worker = await openWorker(server);
    behind.missing = ahead.current.print;
    const at = `/v1/sessions/${worker.session}/renew`;
    const headers = { [HEADER.sessionKey]: worker.key };
    const refused = await late.call("POST", at, { headers, body: { held: [] } });
    expect(refused).toMatchObject({ status: 503, body: { code: "signing_key_missing" } });
    expect(refused.headers.get("retry-after")).not.toBeNull();
    expect((await late.call("GET", "/readyz", { token: null })).status).toBe(503);
    const opened = { name: "w", kinds: ["k"], slots: 1 };
    const notOpened = await late.call("POST", "/v1/sessions", { body: opened });
    expect(notOpened).toMatchObject({ status: 503, body: { code: "signing_key_missing" } });
    behind.replace([NEW]);
    behind.missing = null;
    expect((await late.call("POST", at, { headers, body: { held: [] } })).status).toBe(200);
    expect((await late.call("GET", "/readyz", { token: null })).status).toBe(200);
    expect((await late.call("POST", "/v1/sessions", { body: opened })).status).toBe(201);
  });
});
