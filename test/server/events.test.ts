import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { HEADER } from "../../src/contract/wire.ts";
import { inFull } from "../tier.ts";
import { type StoreName, startServer, type TestServer } from "./kit.ts";
import { BROKE, runOne } from "./worker-kit.ts";

interface Sent {
  readonly id: number;
  readonly event: string;
  readonly data: { seq: number; jobId: string | null; name: string };
}

describe.each(inFull<StoreName>(["sqlite", "postgres"]))("events over %s", (store) => {
  let server: TestServer;
  const call: TestServer["call"] = (...args) => server.call(...args);
  const submit = async (body: object = {}, headers = {}) =>
    (await call("POST", "/v1/jobs", { body: { kind: "nobody", ...body }, headers })).body.id as string;

  beforeAll(async () => {
    server = await startServer({ store });
  });
  afterAll(() => server.close());

  /** An open stream; `take` resolves with the next events. */
  async function stream(path: string, headers: Record<string, string> = {}, token = server.admin) {
    const leave = new AbortController();
    const response = await fetch(`${server.url}${path}`, {
      ...{ signal: leave.signal },
      headers: { authorization: `Bearer ${token}`, accept: "text/event-stream", ...headers },
    });
    expect([response.status, response.headers.get("content-type")]).toEqual([200, "text/event-stream; charset=utf-8"]);
    expect(response.headers.get("x-content-type-options")).toBe("nosniff");
    const reader = (response.body as ReadableStream<Uint8Array>).pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    const ready: Sent[] = [];
    async function take(count: number): Promise<Sent[]> {
      while (ready.length < count) {
        const { value, done } = await reader.read();
        if (done) break;
        text += value;
        const blocks = text.split("\n\n");
        text = blocks.pop() as string;
        ready.push(...blocks.map(parsed).filter((event) => event !== null));
      }
      return ready.splice(0, count);
    }
    return { take, leave: () => leave.abort() };
  }

  it("returns pages that continue where the last one ended", async () => {
    const id = await runOne(server, BROKE, { retry: false });
    const page = async (query: string) => (await call("GET", `/v1/events?${query}`)).body;
    const names: string[] = [];
    for (let after: number | null = 0; after !== null; ) {
      const { events, next } = await page(`limit=2&after=${after}`);
      names.push(...events.filter((event: { jobId: string }) => event.jobId === id).map(nameOf));
      after = next;
    }
    expect(names).toEqual(["job.submitted", "attempt.started", "attempt.failed"]);
    const back: string[] = [];
    for (let from: string | null = ""; from !== null; ) {
      const { events, next }: { events: { name: string }[]; next: number | null } = (
        await call("GET", `/v1/jobs/${id}/events?order=newest&limit=2${from}`)
      ).body;
      back.push(...events.map(nameOf));
      from = next === null ? null : `&before=${next}`;
    }
    expect(back).toEqual(names.toReversed());
    const accept = { headers: { accept: "text/event-stream" } };
    const refused = await call("GET", "/v1/events?order=newest", accept);
    expect([refused.status, refused.body.path]).toEqual([400, "order"]);
    const own = (await call("GET", `/v1/jobs/${id}/events`)).body;
    expect([own.events.map(nameOf), own.next]).toEqual([names, null]);
  });

  it("streams from now on, unless the client sends a position", async () => {
    const before = await submit();
    const fresh = await stream("/v1/events");
    const id = await submit();
    const [event] = (await fresh.take(1)) as [Sent];
    expect(event).toMatchObject({ event: "job.submitted", data: { jobId: id, seq: event.id, name: "job.submitted" } });
    const from = await stream("/v1/events?after=0");
    const all = await from.take(2);
    expect(all[0]?.id).toBeLessThan(event.id);
    const ofJob = await stream(`/v1/jobs/${before}/events?after=0`);
    await call("POST", `/v1/jobs/${before}/cancel`);
    expect((await ofJob.take(2)).map((sent) => sent.event)).toEqual(["job.submitted", "job.cancelled"]);
    for (const open of [fresh, from, ofJob]) open.leave();
  });

  it("resumes by Last-Event-ID without gaps or repeats while others write", async () => {
    const first = await stream("/v1/events");
    let writing = true;
    const ids: string[] = [];
    const writer = (async () => {
      while (writing) ids.push(...(await Promise.all(Array.from({ length: 5 }, () => submit()))));
    })();
    const seen: Sent[] = [];
    let open = first;
    for (let round = 0; round < 8; round++) {
      const events = await open.take(7);
      seen.push(...events);
      open.leave();
      open = await stream("/v1/events?after=0", { "last-event-id": String(events.at(-1)?.id) });
    }
    writing = false;
    await writer;
    const last = await submit();
    while (seen.at(-1)?.data.jobId !== last) seen.push(...(await open.take(1)));
    open.leave();
    const told = seen.map((event) => event.id);
    expect(told).toEqual([...new Set(told)].sort((a, b) => a - b));
    expect(new Set(seen.map((event) => event.data.jobId))).toEqual(new Set([...ids, last]));
  });

  it("shows events of one namespace to a token that is bound to it, or a call that names it", async () => {
    const headers = { [HEADER.namespace]: "room" };
    const bound = await server.token({ namespace: "room" });
    const streams = [
      await stream("/v1/events", {}, bound),
      await stream("/v1/events", headers),
      await stream("/v1/events"),
    ] as const;
    const outside = await submit();
    const inside = await submit({}, headers);
    for (const open of streams.slice(0, 2)) {
      expect((await open.take(1)).map((event) => event.data.jobId)).toEqual([inside]);
    }
    expect((await streams[2].take(2)).map((event) => event.data.jobId)).toEqual([outside, inside]);
    for (const open of streams) open.leave();
    const page = (await call("GET", "/v1/events?limit=1000", { headers })).body;
    expect(page.events.map(({ name, jobId }: { name: string; jobId: string | null }) => [name, jobId])).toEqual([
      ["token.created", null],
      ["job.submitted", inside],
    ]);
    expect((await call("GET", `/v1/jobs/${outside}/events`, { headers })).status).toBe(404);
  });

  it("refuses an invalid position", async () => {
    for (const id of ["x", "1.5", "-1", "99999999999999999", "1 2"]) {
      const headers = { accept: "text/event-stream", "last-event-id": id };
      const refused = await call("GET", "/v1/events", { headers });
      expect([id, refused.status, refused.body.code]).toEqual([id, 400, "invalid_request"]);
    }
    expect((await call("GET", "/v1/events?after=x")).status).toBe(400);
  });

  it("ends its streams when it stops", async () => {
    const own = await startServer({ store });
    const response = await fetch(`${own.url}/v1/events`, {
      headers: { authorization: `Bearer ${own.admin}`, accept: "text/event-stream" },
    });
    const text = response.text();
    await own.server.stop(5_000);
    expect(await text).toBe("retry: 1000\n\n");
    await own.close();
  });
});

function nameOf(event: { readonly name: string }): string {
  return event.name;
}

function parsed(block: string): Sent | null {
  const fields = Object.fromEntries(
    block.split("\n").map((line) => [line.split(": ", 1)[0], line.slice(line.indexOf(": ") + 2)]),
  );
  if (fields.data === undefined) return null;
  return { id: Number(fields.id), event: fields.event as string, data: JSON.parse(fields.data) };
}
