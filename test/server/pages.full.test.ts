/** Very many sessions, and a job with very many long attempts, on the built server at full size. What is asserted is far from
 *  what is measured: machines differ. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, it } from "vitest";
import { perdure } from "../cli/kit.ts";
import { newHome, Proc, tokenIn } from "../e2e/kit.ts";

/** Of a page, with all that is around what it lists. */
const PAGE_BYTES = 16_000_000;
/** Of one request in a row. A server that refuses more often is not just busy. */
const MAX_REFUSALS = 10;

async function served() {
  const home = newHome();
  const proc = new Proc(home, ["server", "--port", "0", "--json", "--data", join(home, "data")], {});
  const said = await proc.ready;
  const admin = tokenIn(said);
  const once = (method: string, path: string, given: { token?: string; body?: object; key?: string } = {}) =>
    fetch(new URL(path, said.url), {
      method,
      headers: {
        authorization: `Bearer ${given.token ?? admin}`,
        ...(given.body === undefined ? {} : { "content-type": "application/json" }),
        ...(given.key === undefined ? {} : { "perdure-session-key": given.key }),
      },
      ...(given.body === undefined ? {} : { body: JSON.stringify(given.body) }),
    });
  /** Repeats a 503 after its Retry-After, as a client does: the machine may be busy, and readers are refused first. */
  const call = async (...args: Parameters<typeof once>) => {
    for (let refusals = 0; ; refusals++) {
      const response = await once(...args);
      const text = await response.text();
      if (response.status !== 503 || refusals === MAX_REFUSALS) return { status: response.status, text };
      const seconds = response.headers.get("retry-after");
      expect(seconds).toMatch(/^[1-3]$/);
      await sleep(Number(seconds) * 1_000);
    }
  };
  const json = async (...args: Parameters<typeof call>) => {
    const { status, text } = await call(...args);
    if (status >= 300) throw new Error(`${args[1]}: ${status} ${text}`);
    return JSON.parse(text);
  };
  const resident = () => Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${proc.pid}/status`, "utf8"))?.[1]) / 1_024;
  return { url: said.url, admin, call, json, resident };
}

type Served = Awaited<ReturnType<typeof served>>;

/** Median milliseconds of a claim that finds a job. */
async function claimMs({ json }: Served, { session, key }: { session: string; key: string }): Promise<number> {
  const took: number[] = [];
  for (let i = 0; i < 30; i++) {
    await json("POST", "/v1/jobs", { body: { kind: "mine" } });
    const begun = performance.now();
    const { jobs } = await json("POST", `/v1/sessions/${session}/claims`, { key, body: { limit: 1, waitMs: 5_000 } });
    took.push(performance.now() - begun);
    expect(jobs).toHaveLength(1);
  }
  return took.sort((a, b) => a - b)[15] as number;
}

it("600 sessions with as many kinds as they may have slow down no claim of another worker", async () => {
  const server = await served();
  const { json, call } = server;
  const open = { name: "w", kinds: ["mine"], slots: 1_000, leaseMs: 600_000 };
  const mine = await json("POST", "/v1/sessions", { body: open });
  const before = await claimMs(server, mine);
  const { token } = await json("POST", "/v1/tokens", {
    body: { name: "greedy", scopes: ["work"], namespace: "default" },
  });
  for (let i = 0; i < 600; i++) {
    const kinds = Array.from({ length: 155 }, (_, k) => `${i} ${k} `.padEnd(200, "k"));
    await json("POST", "/v1/sessions", { token, body: { ...open, kinds } });
  }
  const after = await claimMs(server, mine);
  expect(after).toBeLessThan(20 * before + 100);
  let [pages, workers, bytes] = [0, 0, 0];
  for (let next: string | null = ""; next !== null; pages++) {
    const { status, text } = await call("GET", `/v1/workers${next === "" ? "" : `?after=${next}`}`);
    expect(status).toBe(200);
    const page = JSON.parse(text);
    workers += page.workers.length;
    bytes = Math.max(bytes, text.length);
    next = page.next;
  }
  expect([pages, workers]).toEqual([4, 601]);
  expect(bytes).toBeLessThan(PAGE_BYTES);
  const { code, stdout } = await perdure(["workers"], {
    env: { PERDURE_URL: server.url, PERDURE_TOKEN: server.admin },
  });
  expect(code).toBe(0);
  expect(stdout.length).toBeLessThan(PAGE_BYTES);
}, 300_000);

it("every route returns a job with 545 attempts, long failures and logs within bounds", async () => {
  const server = await served();
  const { json, call } = server;
  const retry = { maxAttempts: 545, backoff: { type: "none" }, onUnknown: "retry" };
  const { id } = await json("POST", "/v1/jobs", { body: { kind: "long", retry } });
  const open = { name: "w", kinds: ["long"], slots: 10, leaseMs: 600_000 };
  const { session, key } = await json("POST", "/v1/sessions", { body: open });
  const log = "l".repeat(65_000);
  const failure = { kind: "error", message: "m".repeat(100_000), stack: "s".repeat(100_000) };
  for (let i = 1; i <= 545; i++) {
    const { jobs } = await json("POST", `/v1/sessions/${session}/claims`, { key, body: { limit: 1, waitMs: 5_000 } });
    const { token, attempt } = jobs[0];
    const report = { jobId: id, attempt, token, reportId: `r${i}`, outcome: { kind: "failed", failure }, log };
    await json("POST", `/v1/sessions/${session}/reports`, { key, body: { reports: [report] } });
  }
  const before = server.resident();
  const paths = [
    "",
    "/attempts",
    "/explain",
    "/events?limit=1000",
    "/logs",
    "/outputs",
    "?view=fluster",
    "?view=noetl",
  ];
  for (const path of [
    ...paths.map((each) => `/v1/jobs/${id}${each}`),
    "/v1/events?limit=1000",
    "/v1/jobs?limit=1000",
  ]) {
    const { status, text } = await call("GET", path);
    expect([path, status]).toEqual([path, 200]);
    expect(text.length).toBeLessThan(PAGE_BYTES);
  }
  const env = { PERDURE_URL: server.url, PERDURE_TOKEN: server.admin };
  for (const args of [
    ["get", id],
    ["get", "--json", id],
    ["explain", id],
    ["logs", id],
    ["logs", "--json", id],
    ["events", id],
  ]) {
    const said = await perdure(args, { env });
    expect([args, said.code]).toEqual([args, 0]);
    expect(said.stdout.length).toBeLessThan(PAGE_BYTES);
  }
  const grown = server.resident() - before;
  expect(grown).toBeLessThan(200);
}, 300_000);
