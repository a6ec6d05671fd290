/** A server in this process with fluster's controller calls, and optionally a worker that runs commands. */
import { spawnSync } from "node:child_process";
import { onTestFinished } from "vitest";
import { exec } from "../../src/core/input/builtin.ts";
import { flusterRoutes } from "../../src/dialects/fluster/server/routes.ts";
import { startWorker } from "../../src/embedded/local-worker.ts";
import type { ServerParts } from "../../src/server/context.ts";
import type { AttemptPlaces } from "../../src/store/blobs.ts";
import { type CallOptions, type KitOptions, type Reply, startServer, type TestServer } from "../server/kit.ts";

export const SERVICE = "/fluster.cluster.ControllerService";

export interface FlusterServer extends TestServer {
  /** One call of the Connect protocol, with JSON. */
  rpc(name: string, body: unknown, options?: CallOptions): Promise<Reply>;
  /** `GetJobStatus`. */
  // biome-ignore lint/suspicious/noExplicitAny: tests look into it as they like.
  status(jobId: string): Promise<any>;
  /** Starts a worker that runs commands, also Python code. */
  work(): Promise<void>;
  /** Waits for the end of the job, and returns its status. */
  // biome-ignore lint/suspicious/noExplicitAny: tests look into it as they like.
  ended(jobId: string): Promise<any>;
}

export async function startFluster(options: KitOptions = {}): Promise<FlusterServer> {
  let parts: ServerParts | undefined;
  const server = await startServer({
    ...options,
    routes(given) {
      parts = given;
      return flusterRoutes(given);
    },
  });
  onTestFinished(() => server.close());
  const rpc: FlusterServer["rpc"] = (name, body, { headers = {}, ...more } = {}) =>
    server.call("POST", `${SERVICE}/${name}`, {
      body,
      headers: { "connect-protocol-version": "1", ...headers },
      ...more,
    });
  const status: FlusterServer["status"] = async (jobId) => (await rpc("GetJobStatus", { jobId })).body.job;
  return {
    ...server,
    rpc,
    status,
    async work() {
      const blobs = (parts as ServerParts).blobs as ServerParts["blobs"] & AttemptPlaces;
      const running = new Set<{ stop(graceMs: number): Promise<void> }>();
      const { engine } = server;
      const at = { engine, namespace: "default", log: () => {}, blobs, running };
      const worker = await startWorker(at, [exec], { name: "worker-1", runtimes: ["python"], concurrency: 4 });
      onTestFinished(() => worker.stop({ grace: 0 }));
    },
    async ended(jobId) {
      const { jobs } = await server.store.find({ tag: `fluster:${jobId}` });
      const job = jobs[0];
      if (job === undefined) throw new Error(`no job ${jobId}`);
      await server.engine.waitForEnd(job.id, job.chapter, { timeoutMs: 25_000 });
      return status(jobId);
    },
  };
}

/** The pickle of a Python expression, in base64. */
export function pickled(expression: string, before = ""): string {
  const program = `${before}\nimport base64, pickle, sys\nsys.stdout.write(base64.b64encode(pickle.dumps(${expression})).decode())`;
  const { status, stdout, stderr } = spawnSync("python3", ["-c", program], { encoding: "utf8" });
  if (status !== 0) throw new Error(`python3: ${stderr}`);
  return stdout;
}
