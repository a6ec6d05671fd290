import { describe, expect, it } from "vitest";
import { deadUrl, fakeServer } from "../../../test/http-worker/fake-server.ts";
import { job, never, newLink, OPENED, openLink, REQUEST, refusal } from "../../../test/http-worker/link-kit.ts";
import { gate } from "../../../test/kit.ts";
import { IS_FULL } from "../../../test/tier.ts";

const jobs = (...numbers: number[]) => ({ json: { alive: true, drain: false, jobs: numbers.map(job) } });
const NOTHING = jobs();

describe("a claim", () => {
  it("sends its session, key and token, and stays within the limits of the server", async () => {
    const { link, server, session } = await openLink(() => jobs(1), { namespace: "team" });
    const answer = await link.claim(session, { limit: 9_999, waitMs: 99_999, signal: never() });
    expect(answer).toMatchObject({ alive: true, jobs: [job(1)] });
    const [asked] = server.asked;
    expect(asked).toMatchObject({ method: "POST", path: "/v1/sessions/ses_1/claims" });
    expect(asked?.body).toMatchObject({ limit: 500, waitMs: 30_000 });
    expect(asked?.headers).toMatchObject({
      ...{ authorization: "Bearer secret", "perdure-session-key": "key_1", "perdure-namespace": "team" },
    });
    expect(link.claimsAtOnce).toBe(2);
  });

  it("whose reply was lost is repeated with its id; the next has another", async () => {
    let left = 3;
    const { link, server, session, clock } = await openLink(() => (left-- > 0 ? "cut" : jobs(1, 2)));
    const answer = await link.claim(session, { limit: 10, waitMs: 0, signal: never() });
    expect(answer.jobs).toHaveLength(2);
    const ids = server.asked.map(({ body }) => body.claimId);
    expect(ids).toHaveLength(4);
    expect(new Set(ids).size).toBe(1);
    // On a kept connection it is repeated at once; then after 100 and 200, drawn in the middle of the upper half.
    expect(clock.pauses).toEqual([75, 150]);
    await link.claim(session, { limit: 10, waitMs: 0, signal: never() });
    expect(server.asked.at(-1)?.body.claimId).not.toBe(ids[0]);
  });

  it("cancelled while the server holds it is sent again, so that no claimed job is lost", async () => {
    const held = gate();
    const { link, server, session } = await openLink(({ body }) => {
      if (body.waitMs === 0) return jobs(7);
      held.open();
      return "hang";
    });
    const stop = new AbortController();
    const claim = link.claim(session, { limit: 100, waitMs: 30_000, signal: stop.signal });
    await held.passed;
    stop.abort();
    expect((await claim).jobs).toEqual([job(7)]);
    await server.asked[0]?.gone; // the server need not hold it any longer
    expect(server.asked[1]?.body).toEqual({ ...server.asked[0]?.body, waitMs: 0, last: true });
  });

  it("brings, in its last word too, what its jobs need and may show", async () => {
    const held = gate();
    const claimed = { ...job(7), needs: { cpu: 500, memory: 1_024 }, jobToken: "pdj_7" };
    const { link, server, session } = await openLink(({ body }) => {
      if (body.waitMs === 0) return { json: { alive: true, drain: false, jobs: [claimed] } };
      held.open();
      return "hang";
    });
    const giveUp = new AbortController();
    const claim = link.claim(session, { limit: 5, waitMs: 30_000, signal: giveUp.signal });
    await held.passed;
    giveUp.abort();
    expect((await claim).jobs).toEqual([claimed]);
    expect(link.access?.(claimed)).toEqual({
      ...{ PERDURE_URL: server.url, PERDURE_TOKEN: "pdj_7", PERDURE_NAMESPACE: "default" },
    });
    expect(link.access?.(job(1))).toEqual({});
  });

  it("that never reached the server is not sent again when it is cancelled", async () => {
    const server = await fakeServer(() => OPENED);
    const { link, clock } = newLink(server.url);
    const { session } = await link.openSession(REQUEST);
    await server.close();
    const stop = new AbortController();
    clock.after = (_ms, call, options) => {
      if (options?.background) return () => {};
      stop.abort();
      setImmediate(call);
      return () => {};
    };
    const answer = await link.claim(session, { limit: 1, waitMs: 0, signal: stop.signal });
    expect(answer).toEqual({ alive: true, drain: false, jobs: [] });
  });

  it("waits for Retry-After of a busy server, and retries after server errors", async () => {
    const answers = [
      refusal(503, "overloaded", { "retry-after": "2" }),
      refusal(500, "internal"),
      refusal(503, "closed"),
      { status: 502, text: "<h1>Bad Gateway</h1>" },
      { text: '{"alive": tru', headers: { "content-type": "application/json" } },
      jobs(1),
    ];
    const { link, server, session, clock, logged } = await openLink(() => answers.shift() ?? NOTHING);
    expect((await link.claim(session, { limit: 1, waitMs: 0, signal: never() })).jobs).toHaveLength(1);
    expect(server.asked).toHaveLength(6);
    expect(new Set(server.asked.map(({ body }) => body.claimId)).size).toBe(1);
    expect(clock.pauses[0]).toBeGreaterThanOrEqual(2_000);
    expect(clock.pauses.slice(1)).toEqual([150, 300, 600, 1_200]);
    expect(logged.at(-1)).toMatch(/^info: server answers again seconds=\d+ failedCalls=\d+$/);
  });

  it("retries slowly when the token is refused, and logs what to do", async () => {
    const answers = [refusal(401, "unauthorized"), refusal(401, "unauthorized"), jobs(1)];
    const { link, session, clock, logged } = await openLink(() => answers.shift() ?? NOTHING);
    expect((await link.claim(session, { limit: 1, waitMs: 0, signal: never() })).jobs).toHaveLength(1);
    expect(clock.pauses.every((ms) => ms >= 5_000)).toBe(true);
    expect(logged.filter((line) => line.startsWith("error: "))).toHaveLength(1);
    expect(logged[0]).toContain("a valid token of the scope work");
  });

  it("finds its session over where the server does not know it, or refuses its key for a whole lease", async () => {
    const unknown = await openLink(() => refusal(404, "not_found"));
    expect(await unknown.link.claim("ses_1", { limit: 1, waitMs: 0, signal: never() })).toMatchObject({ alive: false });
    const other = await openLink(() => refusal(403, "forbidden"));
    expect(await other.link.claim("ses_1", { limit: 1, waitMs: 0, signal: never() })).toMatchObject({ alive: false });
    expect(other.clock.pauses.length).toBeGreaterThanOrEqual(3);
  });

  it("that the server cannot read is an error at once", async () => {
    const { link, session, clock } = await openLink(() => refusal(400, "invalid_request"));
    const claim = link.claim(session, { limit: 1, waitMs: 0, signal: never() });
    await expect(claim).rejects.toMatchObject({ code: "invalid_request" });
    expect(clock.pauses).toEqual([]);
  });

  it.runIf(IS_FULL)("with a reply that is too large is dropped, and the next requests fewer", async () => {
    const big = `${JSON.stringify(jobs().json)}${" ".repeat(65 * 1_048_576)}`;
    const replies = [{ text: big, headers: { "content-type": "application/json" } }, jobs(1)];
    const { link, server, session, logged } = await openLink(() => replies.shift() ?? NOTHING);
    expect((await link.claim(session, { limit: 400, waitMs: 0, signal: never() })).jobs).toEqual([]);
    expect(logged[0]).toContain("is over 67108864 bytes");
    expect((await link.claim(session, { limit: 400, waitMs: 0, signal: never() })).jobs).toHaveLength(1);
    expect(server.asked.map(({ body }) => body.limit)).toEqual([400, 100]);
  });

  it("is repeated at once on a new connection when a kept one was closed under it", async () => {
    const { link, server, session, clock } = await openLink(({ turn }) => (turn > 1 ? "cut" : jobs(1)));
    expect((await link.claim(session, { limit: 1, waitMs: 0, signal: never() })).jobs).toHaveLength(1);
    expect(server.asked.map(({ turn }) => turn)).toEqual([2, 1]);
    expect(clock.pauses).toEqual([]);
  });

  it("that gets no answer in its time is repeated", async () => {
    const held = gate();
    const { link, server, session, clock } = await openLink(() => {
      if (held.isOpen) return jobs(1);
      held.open();
      return "hang";
    });
    const claim = link.claim(session, { limit: 1, waitMs: 0, signal: never() });
    await held.passed;
    clock.timeUp();
    expect((await claim).jobs).toHaveLength(1);
    expect(server.asked[1]?.body).toEqual(server.asked[0]?.body);
  });
});

describe("opening a session", () => {
  it("waits for a server that cannot be reached yet, and logs that once", async () => {
    const { link, clock, logged } = newLink(await deadUrl());
    const stop = new AbortController();
    const opening = link.openSession(REQUEST, { signal: stop.signal });
    while (clock.pauses.reduce((sum, ms) => sum + ms, 0) < 125_000) await new Promise((r) => setImmediate(r));
    stop.abort();
    await expect(opening).rejects.toMatchObject({ code: expect.stringMatching(/closed|server_unreachable/) });
    expect(logged).toHaveLength(1);
    expect(logged[0]).toMatch(
      /^warn: server call failed, retrying code="server_unreachable" error="the server at http:.* cannot be reached: .*ECONNREFUSED/,
    );
    expect(Math.max(...clock.pauses)).toBeLessThanOrEqual(3_000);
  });

  it.each([
    ["a wrong token", refusal(401, "unauthorized"), "unauthorized"],
    ["a token without the right", refusal(403, "forbidden"), "forbidden"],
    ["another program", { text: "<html>", headers: { "content-type": "text/html" } }, "not_found"],
    ["another path", { status: 404, text: "no such page" }, "not_found"],
    ["a redirect", { status: 302, text: "", headers: { location: "http://127.0.0.1:1/" } }, "not_found"],
    ["a request that is refused", refusal(400, "invalid_request"), "invalid_request"],
  ] as const)("fails at once for %s", async (_, answer, code) => {
    const server = await fakeServer(() => answer);
    const { link, clock } = newLink(server.url);
    await expect(link.openSession(REQUEST)).rejects.toMatchObject({ code });
    expect(clock.pauses).toEqual([]);
  });

  it("keeps retrying where it has worked before", async () => {
    const answers = [OPENED, refusal(401, "unauthorized"), refusal(503, "closed"), OPENED];
    const server = await fakeServer(() => answers.shift() ?? "cut");
    const { link, logged } = newLink(server.url);
    await link.openSession(REQUEST);
    expect(await link.openSession(REQUEST)).toEqual({ session: "ses_1", leaseMs: 15_000 });
    expect(logged.map((line) => line.split(":")[0])).toEqual(["error", "warn", "info"]);
  });

  it.each(["ftp://x", "localhost:4400", "http://user:pw@x", "http://x/?token=1", ""])(
    "refuses the address %j",
    (url) => {
      expect(() => newLink(url)).toThrow(expect.objectContaining({ code: "invalid_config", path: "url" }));
    },
  );

  it("keeps a path in front of the API's", async () => {
    const server = await fakeServer(() => OPENED);
    await newLink(`${server.url}/perdure/`).link.openSession(REQUEST);
    expect(server.asked[0]?.path).toBe("/perdure/v1/sessions");
  });
});
