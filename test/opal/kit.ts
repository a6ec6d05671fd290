/** A server in this process with OPAL's routes, and optionally a worker that runs the example's engine. */
import { onTestFinished } from "vitest";
import { exec } from "../../src/core/input/builtin.ts";
import { opalRoutes } from "../../src/dialects/opal/server/routes.ts";
import { opalSettings } from "../../src/dialects/opal/settings.ts";
import { startWorker } from "../../src/embedded/local-worker.ts";
import type { ServerParts } from "../../src/server/context.ts";
import type { AttemptPlaces } from "../../src/store/blobs.ts";
import { type KitOptions, startServer, type TestServer } from "../server/kit.ts";
import { ENGINE } from "./api.ts";

export { ENGINE, TEN_KEYS } from "./api.ts";

export interface OpalKit extends KitOptions {
  readonly engine?: readonly string[] | null;
  readonly anonymous?: boolean;
  readonly env?: Readonly<Record<string, string>>;
}

export interface OpalServer extends TestServer {
  /** Starts a worker that runs commands. */
  work(): Promise<void>;
  /** Sends a form, as OPAL's clients do. */
  form(fields: Readonly<Record<string, string | Blob>>, token?: string | null): Promise<Response>;
  /** Waits for the job's end. */
  ended(opalId: string): Promise<void>;
}

export async function startOpal(options: OpalKit = {}): Promise<OpalServer> {
  const { engine = ENGINE, anonymous = false, env = {}, ...rest } = options;
  const routes = opalRoutes({ engine, anonymous, settings: opalSettings(env) }, rest.host ?? "127.0.0.1");
  let parts: ServerParts | undefined;
  const server = await startServer({
    ...rest,
    routes(context) {
      parts = context;
      return routes(context);
    },
  });
  onTestFinished(() => server.close());
  const { url, admin, engine: runs } = server;

  return {
    ...server,
    async work() {
      const blobs = (parts as ServerParts).blobs as ServerParts["blobs"] & AttemptPlaces;
      const log = () => {};
      const running = new Set<{ stop(graceMs: number): Promise<void> }>();
      const worker = await startWorker({ engine: runs, namespace: "default", log, blobs, running }, [exec], {});
      onTestFinished(() => worker.stop({ grace: 0 }));
    },
    form(fields, token = admin) {
      const body = new FormData();
      for (const [name, value] of Object.entries(fields)) body.append(name, value);
      const headers = token === null ? {} : { authorization: `Bearer ${token}` };
      return fetch(`${url}/api/jobs`, { method: "POST", headers, body });
    },
    async ended(opalId) {
      const { jobs } = await server.store.find({ key: `opal:${opalId}` });
      const job = jobs[0];
      if (job === undefined) throw new Error(`no job ${opalId}`);
      await runs.waitForEnd(job.id, job.chapter, { timeoutMs: 20_000 });
    },
  };
}
