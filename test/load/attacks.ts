/** Large load tests on a built server over SQLite, with figures: readers on a store of a million jobs, clients that all
 *  submit at once, and event streams that are never read. `npm run test:load`, or `npm run test:load -- readers` for
 *  one; `--jobs`, `--readers`, `--clients`, `--streams` and `--seconds` change the sizes, `--dist` tests another build,
 *  and `--profile` names a directory for CPU profiles of the servers.
 *
 *  Guarantees are asserted with wide margins, because the machine may be busy; measurements are printed. */
import { spawn } from "node:child_process";
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { deafStream, figures, hammer, type Result, submitBody, type Target } from "./clients.ts";
import { fill } from "./fill.ts";
import { renewWhile } from "./renewals.ts";

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    jobs: { type: "string", default: "1000000" },
    readers: { type: "string", default: "10,20" },
    clients: { type: "string", default: "1500" },
    streams: { type: "string", default: "300" },
    seconds: { type: "string", default: "15" },
    dist: { type: "string", default: fileURLToPath(new URL("../../dist", import.meta.url)) },
    /** An existing store, such as one created by this program: it is copied. */
    store: { type: "string" },
    profile: { type: "string" },
  },
});
const ms = Number(values.seconds) * 1_000;
const home = mkdtempSync(join(tmpdir(), "perdure-load-"));
const problems: string[] = [];

function expect(what: string, isTrue: boolean): void {
  console.log(`  ${isTrue ? "ok  " : "FAIL"} ${what}`);
  if (!isTrue) problems.push(what);
}

interface Running extends Target {
  /** CPU time used so far. */
  cpuMs(): number;
  stop(): Promise<void>;
}

async function start(name: string, store?: string): Promise<Running> {
  const data = join(home, name);
  mkdirSync(data, { recursive: true });
  if (store !== undefined) copyFileSync(store, join(data, "perdure.db"));
  const profile = values.profile === undefined ? [] : ["--cpu-prof", `--cpu-prof-dir=${values.profile}`];
  const args = [...profile, join(values.dist, "cli", "main.js"), "server", "--data", data, "--port", "0", "--json"];
  const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "pipe"] });
  const ended = new Promise<void>((resolve) => child.once("exit", () => resolve()));
  let words = "";
  const url = await new Promise<string>((resolve, reject) => {
    const look = (text: Buffer) => {
      words += text;
      const found = /"url":\s*"(http[^"]+)"/.exec(words)?.[1];
      if (found !== undefined) resolve(found);
    };
    child.stdout.on("data", look);
    child.stderr.on("data", look);
    void ended.then(() => reject(new Error(`the server has ended: ${words}`)));
  });
  const { hostname, port } = new URL(url);
  const token = readFileSync(join(data, "token"), "utf8").trim();
  return {
    ...{ host: hostname, port: Number(port), token },
    cpuMs: () => cpuMsOf(child.pid as number),
    async stop() {
      child.kill("SIGTERM");
      await ended;
    },
  };
}

async function newToken({ host, port, token }: Target, name: string): Promise<string> {
  const response = await fetch(`http://${host}:${port}/v1/tokens`, {
    method: "POST",
    headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
    body: JSON.stringify({ name, scopes: ["read"], namespace: "default" }),
  });
  return ((await response.json()) as { readonly token: string }).token;
}

/** On Linux, in its ticks of 10 ms; elsewhere 0. */
function cpuMsOf(pid: number): number {
  if (!existsSync(`/proc/${pid}/stat`)) return 0;
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8")
    .replace(/^.*\) /s, "")
    .split(" ");
  return (Number(fields[11]) + Number(fields[12])) * 10;
}

function show(what: string, result: Result): void {
  console.log(`  ${what.padEnd(30)} ${figures(result)}`);
}

const submit = { method: "POST", path: "/v1/jobs", body: submitBody };
const READS = [
  "/v1/queues",
  "/v1/jobs?limit=100",
  "/v1/jobs?queue=none&limit=100",
  "/v1/jobs?state=succeeded&queue=nightly&order=oldest",
  "/v1/jobs?submittedBefore=1000000000000",
  "/v1/jobs?name=*zzz*",
  "/v1/jobs?reason=poison",
  "/v1/jobs?state=failed&state=cancelled&limit=100",
  "/v1/workers",
  "/v1/status",
  "/v1/events?after=0&limit=1000",
];

async function readers(): Promise<void> {
  let store = values.store;
  if (store === undefined) {
    store = join(home, "many.db");
    console.log(`filling a store with ${values.jobs} jobs`);
    await fill(store, Number(values.jobs));
  }
  const server = await start("readers", store);
  for (const path of READS) {
    const first = await hammer(server, { clients: 1, ms: 1, requests: [{ method: "GET", path }] });
    show(path, first);
  }
  for (const count of values.readers.split(",").map(Number)) {
    console.log(`${count} readers`);
    const requests = READS.map((path) => ({ method: "GET", path }));
    const reading = hammer(server, { clients: count, ms, requests });
    const [reads, writes, health, renewals] = await Promise.all([
      reading,
      hammer(server, { clients: 1, ms, requests: [submit], pauseMs: 50 }),
      hammer(server, { clients: 1, ms, requests: [{ method: "GET", path: "/healthz" }], pauseMs: 50 }),
      renewWhile(server, reading),
    ]);
    show("reads", reads);
    show("submits", writes);
    show("/healthz", health);
    const q = (at: number) => `${Math.round(renewals.quantile(at))} ms`;
    console.log(
      `  ${"renewals".padEnd(30)} p50 ${q(0.5)}, p99 ${q(0.99)}, max ${q(1)}; ` +
        `${renewals.answered} answered, ${renewals.refused} refused, ${renewals.lost} leases lost`,
    );
    expect(
      "renewals are answered within a second, and none is refused",
      renewals.quantile(1) < 1_000 && renewals.refused === 0,
    );
    expect("no lease is lost", renewals.lost === 0);
    expect("submits are done within 2 s", writes.quantile(0.99) < 2_000);
    expect("/healthz answers within 2 s", health.quantile(1) < 2_000);
    expect("no connection is reset", reads.resets + writes.resets + health.resets === 0);
  }
  await server.stop();
}

async function clients(): Promise<void> {
  const server = await start("clients");
  console.log("32 clients that submit");
  const best = await hammer(server, { clients: 32, ms, requests: [submit] });
  show("submits", best);
  console.log(`${values.clients} clients that submit at once, and honour Retry-After`);
  const [flood, health] = await Promise.all([
    hammer(server, { clients: Number(values.clients), ms, requests: [submit], honour: true }),
    hammer(server, { clients: 1, ms, requests: [{ method: "GET", path: "/healthz" }], pauseMs: 50 }),
  ]);
  show("submits", flood);
  show("/healthz", health);
  expect("no connection is reset", flood.resets === 0);
  expect("refusals carry Retry-After", flood.unexplained === 0);
  expect("answers come within 3 s", flood.quantile(0.99) < 3_000);
  expect("half of the best throughput is kept", flood.perSecond(201) > best.perSecond(201) / 2);
  await server.stop();
}

const BYTES_PER_EVENT = 200; // at least
const KERNEL_BYTES = 16 * 1024 * 1024;

async function streams(): Promise<void> {
  const server = await start("streams", values.store);
  // Admission is per caller: streams that are never read have a separate token.
  const deafToken = await newToken(server, "deaf");
  console.log("submits and one stream that is read, without unread ones");
  const run = async () => {
    const before = server.cpuMs();
    const results = await Promise.all([
      hammer(server, { clients: 16, ms, requests: [submit] }),
      hammer(server, { clients: 1, ms, requests: [{ method: "GET", path: "/v1/events?after=0", stream: true }] }),
    ]);
    console.log(`  processor time of the server: ${server.cpuMs() - before} ms`);
    return results;
  };
  const [before, feedBefore] = await run();
  show("submits", before);
  console.log(`  events read: ${feedBefore.events}`);
  console.log(`${values.streams} streams that never read, from the beginning on`);
  const deaf = Array.from({ length: Number(values.streams) }, () => deafStream({ ...server, token: deafToken }));
  const [during, feed] = await run();
  show("submits", during);
  console.log(`  events read: ${feed.events}`);
  for (const stream of deaf) stream.poke();
  await new Promise((resolve) => setTimeout(resolve, 1_000));
  const cut = deaf.filter((stream) => stream.isCut()).length;
  console.log(`  unread streams closed: ${cut} of ${deaf.length}`);
  expect("submits are done within 2 s", during.quantile(0.99) < 2_000);
  expect("the feed keeps half of its speed", feed.events > feedBefore.events / 2);
  // The kernel buffers some megabytes for a peer that reads nothing: a server notices only beyond that.
  if (ms > 12_000 && feed.events * BYTES_PER_EVENT > KERNEL_BYTES)
    expect("unread streams are closed", cut > deaf.length / 2);
  for (const stream of deaf) stream.end();
  await server.stop();
}

const attacks: Readonly<Record<string, () => Promise<void>>> = { readers, clients, streams };
try {
  if (!existsSync(join(values.dist, "cli", "main.js"))) throw new Error("build first: npm run build");
  for (const [name, attack] of Object.entries(attacks)) {
    if (positionals.length > 0 && !positionals.includes(name)) continue;
    console.log(`\n${name}`);
    await attack();
  }
} finally {
  rmSync(home, { recursive: true, force: true });
}
console.log(problems.length === 0 ? "\nall held" : `\n${problems.length} did not hold`);
process.exitCode = problems.length === 0 ? 0 : 1;
