/** A server over a file that outlives it, so that it can be stopped and started again at the same address; a client of it;
 *  and an engine of this process on the same file, which runs jobs and shows what the client ought to say. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Perdure as Client, type ConnectOptions, type PerdureClient } from "../../src/client/index.ts";
import { Perdure } from "../../src/index.ts";
import { freePort } from "../e2e/machine.ts";
import { type KitOptions, startServer, type TestServer } from "../server/kit.ts";

export interface ClientKit extends AsyncDisposable {
  readonly url: string;
  readonly token: string;
  readonly server: TestServer;
  readonly client: PerdureClient;
  /** On the same file. */
  readonly embedded: Perdure;
  /** The number of calls that the client has made to a path that ends so. */
  calls(path: string): number;
  /** Resolves when a call to a path that ends so goes out. */
  nextCall(path: string): Promise<void>;
  connect(options?: Partial<ConnectOptions>): Promise<PerdureClient>;
  stop(): Promise<void>;
  /** At the same address. */
  start(): Promise<void>;
  close(): Promise<void>;
}

export async function openKit(options: KitOptions = {}): Promise<ClientKit> {
  const directory = mkdtempSync(join(tmpdir(), "perdure-client-"));
  const file = join(directory, "jobs.db");
  let server = await startServer({ ...options, url: file, port: await freePort() });
  let isUp = true;
  const { url, port, admin: token } = server;
  const made: string[] = [];
  const watchers = new Set<{ readonly path: string; readonly call: () => void }>();
  const counted = ((input: string, init: RequestInit) => {
    const { pathname } = new URL(input);
    made.push(pathname);
    for (const watcher of watchers) if (pathname.endsWith(watcher.path)) watcher.call();
    return fetch(input, init);
  }) as typeof fetch;
  const clients: PerdureClient[] = [];
  const connect = async (given: Partial<ConnectOptions> = {}) => {
    const client = await Client.connect(url, { token, fetch: counted, ...given });
    clients.push(client);
    return client;
  };
  const client = await connect();
  const embedded = await Perdure.open(file);
  async function stop(): Promise<void> {
    if (isUp) await server.close();
    isUp = false;
  }
  async function close(): Promise<void> {
    for (const each of clients) await each.close();
    await embedded.close();
    await stop();
    rmSync(directory, { recursive: true, force: true });
  }
  return {
    ...{ url, token, client, embedded, connect, stop, close },
    get server() {
      return server;
    },
    calls: (path) => made.filter((each) => each.endsWith(path)).length,
    nextCall: (path) =>
      new Promise((resolve) => {
        const watcher = {
          path,
          call: () => {
            watchers.delete(watcher);
            resolve();
          },
        };
        watchers.add(watcher);
      }),
    async start() {
      server = await startServer({ ...options, url: file, port });
      isUp = true;
    },
    [Symbol.asyncDispose]: close,
  };
}
