/** Workers on a real server, with a wire in between that a test can cut: whole, or right after a request was taken. */
import { mkdtempSync, rmSync } from "node:fs";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import type { AnyTask } from "../../src/core/task/task.ts";
import { type ConnectOptions, connectWorker } from "../../src/worker/connect-worker.ts";
import { type KitOptions, startServer, type TestServer } from "../server/kit.ts";

export interface Wire {
  readonly url: string;
  /** Where it leads to. */
  port: number;
  /** Takes no connections, and drops those there are. */
  cut(): void;
  mend(): void;
  /** The server hears so much later that a worker has closed a connection, as behind a proxy. */
  hangUpLate(ms: number): void;
  /** Every n-th reply does not get through, although its request did; 0: all do. */
  loseEvery(n: number): void;
  readonly lost: number;
}

export async function openWire(port: number): Promise<Wire> {
  const sockets = new Set<Socket>();
  let isCut = false;
  let every = 0;
  let lateMs = 0;
  let replies = 0;
  let lost = 0;
  const proxy = createServer((near) => {
    if (isCut) return void near.destroy();
    const far = connect(wire.port, "127.0.0.1");
    for (const socket of [near, far]) {
      sockets.add(socket);
      socket.on("error", () => {});
      socket.on("close", () => {
        sockets.delete(socket);
        near.destroy();
        if (lateMs === 0) far.destroy();
        else setTimeout(() => far.destroy(), lateMs);
      });
    }
    near.on("data", (bytes) => far.write(bytes));
    far.on("data", (bytes) => {
      replies += 1;
      if (every > 0 && replies % every === 0) {
        lost += 1;
        near.destroy();
      } else near.write(bytes);
    });
  });
  await new Promise<void>((resolve) => proxy.listen(0, "127.0.0.1", resolve));
  const drop = () => {
    for (const socket of sockets) socket.destroy();
  };
  onTestFinished(async () => {
    drop();
    await new Promise<void>((resolve) => proxy.close(() => resolve()));
  });
  const wire = {
    url: `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`,
    port,
    cut() {
      isCut = true;
      drop();
    },
    mend() {
      isCut = false;
    },
    hangUpLate(ms: number) {
      lateMs = ms;
    },
    loseEvery(n: number) {
      every = n;
    },
    get lost() {
      return lost;
    },
  };
  return wire;
}

export interface WireBench {
  server: TestServer;
  readonly wire: Wire;
  readonly logged: string[];
  work(tasks: readonly AnyTask[], options?: Partial<ConnectOptions>): ReturnType<typeof connectWorker>;
  submit(kind: string, input?: unknown, options?: object): Promise<string>;
  // biome-ignore lint/suspicious/noExplicitAny: a job as the API shows it
  get(path: string): Promise<any>;
  ended(id: string): Promise<{ state: string; attempt: number; losses: number; result: unknown; reason: string }>;
  /** Another server over the same store, at the other end of the wire. */
  restart(): Promise<void>;
}

export function tempDir(): string {
  const dir = mkdtempSync(join(tmpdir(), "perdure-http-"));
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
  return dir;
}

export async function openWireBench(options: KitOptions = {}): Promise<WireBench> {
  const url = join(tempDir(), "jobs.db");
  const first = await startServer({ url, ...options });
  const token = first.admin;
  const wire = await openWire(first.port);
  const logged: string[] = [];
  const bench: WireBench = {
    server: first,
    wire,
    logged,
    async work(tasks, given = {}) {
      const logger = (level: string, message: string) => void logged.push(`${level}: ${message}`);
      const worker = await connectWorker(wire.url, tasks, { token, logger, dir: tempDir(), ...given });
      onTestFinished(() => worker.stop({ grace: 0 }));
      return worker;
    },
    async submit(kind, input = null, more = {}) {
      const { body, text } = await bench.server.call("POST", "/v1/jobs", { token, body: { kind, input, ...more } });
      if (typeof body?.id !== "string" && typeof body?.job?.id !== "string") throw new Error(text);
      return body.id ?? body.job.id;
    },
    get: async (path) => (await bench.server.call("GET", path, { token })).body,
    async ended(id) {
      for (;;) {
        const { body } = await bench.server.call("POST", "/v1/jobs/wait", {
          token,
          body: { jobs: [{ id, chapter: 1 }], waitMs: 20_000 },
        });
        if (body.ended.includes(id)) return bench.get(`/v1/jobs/${id}`);
      }
    },
    async restart() {
      wire.cut();
      await bench.server.close();
      bench.server = await startServer({ url, ...options });
      wire.port = bench.server.port;
      wire.mend();
    },
  };
  onTestFinished(() => bench.server.close());
  return bench;
}
