/** A server on a PostgreSQL whose disk is really full, and then has space again. A separate program, because it mounts:
 *  start it in a mount namespace, as `disk-full.full.test.ts` does. Prints its observations as one line of JSON. The
 *  disk is a small tmpfs; PostgreSQL's write-ahead log is on it too with `--log beside`, and on another disk with
 *  `--log elsewhere`. */
import { execFileSync, spawn, spawnSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdirSync, openSync, readFileSync, rmSync, statfsSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { freePort, pass, until } from "../e2e/machine.ts";
import { type PostgresServer, startServer } from "../postgres/server.ts";

/** What the program saw; `answers` counts submits by status and code, `ready` those of /readyz. */
export interface FullDisk {
  readonly full: { readonly answers: Record<string, number>; readonly ready: Record<string, number> };
  readonly after: { readonly answers: Record<string, number> };
  readonly acknowledged: number;
  /** Acknowledged but not found afterwards; refused as not stored but found. */
  readonly lost: number;
  readonly leftovers: number;
  /** The server's log, from the first refusal on. */
  readonly log: string;
  readonly doctor: { readonly code: number | null; readonly stdout: string };
  readonly doctorAfter: { readonly code: number | null; readonly stdout: string };
  readonly postgresLived: boolean;
}

const DIST = process.env.PERDURE_TEST_DIST ?? fileURLToPath(new URL("../../dist", import.meta.url));
const PROGRAM = join(DIST, "cli", "main.js");
const MIB = 1_024 * 1_024;
/** Enough for the programs of PostgreSQL too, if they have to be copied. */
const DISK_BYTES = 300 * MIB;
/** Space for jobs before the disk is full. */
const LEFT_BYTES = 40 * MIB;
/** Large, and not compressible. */
const PAYLOAD_BYTES = 100_000;
const CLIENTS = 4;
/** Longer than the silence after which a problem counts as over. */
const QUIET_MS = 8_000;

class Load {
  readonly acknowledged: string[] = [];
  readonly refused: string[] = [];
  readonly #url: string;
  readonly #headers: Record<string, string>;
  answers: Record<string, number> = {};
  #next = 0;

  constructor(url: string, token: string) {
    this.#url = url;
    this.#headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
  }

  async submit(bytes = PAYLOAD_BYTES): Promise<number> {
    const key = `key-${this.#next++}`;
    const argv = ["true", randomBytes(bytes).toString("base64").slice(0, bytes)];
    const body = JSON.stringify({ kind: "exec", key, input: { argv } });
    const reply = await fetch(`${this.#url}/v1/jobs`, { method: "POST", headers: this.#headers, body });
    const { id = "", code } = (await reply.json()) as { id?: string; code?: string };
    const answer = code === undefined ? `${reply.status}` : `${reply.status} ${code}`;
    this.answers[answer] = (this.answers[answer] ?? 0) + 1;
    if (reply.ok) this.acknowledged.push(id);
    else if (code === "store_full" || code === "store_unavailable") this.refused.push(key);
    return reply.status;
  }

  async isFound(path: string): Promise<boolean> {
    const reply = await fetch(`${this.#url}${path}`, { headers: this.#headers });
    const { jobs } = (await reply.json()) as { jobs?: unknown[] };
    return reply.ok && (jobs === undefined || jobs.length > 0);
  }

  /** How many of these the server does not have. */
  async missing(ids: readonly string[]): Promise<number> {
    let count = 0;
    for (const id of ids) if (!(await this.isFound(`/v1/jobs/${id}`))) count += 1;
    return count;
  }
}

async function inParallel(run: () => Promise<void>): Promise<void> {
  await Promise.all(Array.from({ length: CLIENTS }, run));
}

async function fillDisk(work: string, isLogBeside: boolean, fullMs: number): Promise<FullDisk> {
  const disk = join(work, "disk");
  mkdirSync(disk);
  execFileSync("mount", ["-t", "tmpfs", "-o", `size=${DISK_BYTES},mode=1777`, "tmpfs", disk]);
  process.env.TMPDIR = disk;
  const postgres = await startServer({
    settings: { shared_buffers: "16MB", min_wal_size: "32MB", max_wal_size: "32MB" },
  });
  if (!isLogBeside) await moveLog(postgres, join(work, "wal"));
  const [data, log, port] = [join(work, "data"), join(work, "server.log"), await freePort()];
  const argv = ["server", "--data", data, "--port", String(port), "--log-format", "json"];
  const env = { PATH: process.env.PATH, HOME: work, PERDURE_DB: postgres.url };
  const server = spawn(process.execPath, [PROGRAM, ...argv], { env, stdio: ["ignore", "ignore", openSync(log, "a")] });
  const doctor = () => {
    const { status, stdout } = spawnSync(process.execPath, [PROGRAM, "doctor", "--data", data], { encoding: "utf8" });
    return { code: status, stdout };
  };
  try {
    const url = `http://127.0.0.1:${port}`;
    const ready = async () => (await fetch(`${url}/readyz`)).status;
    await until("the server is ready", () =>
      ready()
        .then((status) => status === 200)
        .catch(() => false),
    );
    const load = new Load(url, readFileSync(join(data, "token"), "utf8").trim());
    const { bavail, bsize } = statfsSync(disk);
    writeFileSync(join(disk, "ballast"), Buffer.alloc(bavail * bsize - LEFT_BYTES));
    const from = readFileSync(log, "utf8").length;
    let isFull = false;
    await inParallel(async () => {
      while (!isFull) if ((await load.submit()) !== 201) isFull = true;
    });
    const full = { answers: load.answers, ready: {} as Record<string, number> };
    full.answers = load.answers = {};
    const end = performance.now() + fullMs;
    await inParallel(async () => {
      while (performance.now() < end) {
        await load.submit();
        const status = await ready();
        full.ready[status] = (full.ready[status] ?? 0) + 1;
      }
    });
    const doctorFull = doctor();
    const postgresLived = postgres.pid !== undefined;

    rmSync(join(disk, "ballast"));
    if (!postgresLived) await postgres.up();
    load.answers = {};
    await until("jobs are stored again", async () => (await load.submit(10)) === 201);
    await pass(QUIET_MS);
    await load.submit(10);
    await until("the log has the end of it", () => readFileSync(log, "utf8").includes("store.trouble_over"));
    const lost = await load.missing(load.acknowledged);
    if (!(await load.isFound("/v1/jobs?key=key-0"))) throw new Error("a job that was stored is not found by its key");
    let leftovers = 0;
    for (const key of load.refused) if (await load.isFound(`/v1/jobs?key=${key}`)) leftovers += 1;
    return {
      ...{ full, after: { answers: load.answers }, acknowledged: load.acknowledged.length, lost, leftovers },
      ...{ log: readFileSync(log, "utf8").slice(from), doctor: doctorFull, doctorAfter: doctor(), postgresLived },
    };
  } finally {
    server.kill("SIGKILL");
    await postgres.stop("immediate");
  }
}

/** Puts PostgreSQL's write-ahead log on another disk. */
async function moveLog(postgres: PostgresServer, to: string): Promise<void> {
  await postgres.down();
  const from = join(postgres.dataDir, "pg_wal");
  execFileSync("cp", ["-a", from, to]);
  rmSync(from, { recursive: true });
  symlinkSync(to, from);
  await postgres.up();
}

const options = { work: { type: "string" }, log: { type: "string" }, seconds: { type: "string" } } as const;
const { work, log, seconds } = parseArgs({ options }).values;
console.log(JSON.stringify(await fillDisk(work as string, log === "beside", Number(seconds) * 1_000)));
