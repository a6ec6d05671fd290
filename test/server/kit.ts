/** A real server in this process, on a free port of the loopback, over a file or a PostgreSQL schema, for tests that speak
 *  to it by fetch or by socket. Everything is closed when the test, or the file, is over. */
import { randomBytes, randomFillSync } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Scope } from "../../src/core/access.ts";
import { playbookReader } from "../../src/embedded/playbook-reader.ts";
import { storeClock } from "../../src/embedded/store-clock.ts";
import { Engine } from "../../src/engine/engine.ts";
import type { EngineOptions } from "../../src/engine/parts.ts";
import type { Clock } from "../../src/lib/clock.ts";
import { idMaker } from "../../src/lib/id.ts";
import { systemClock } from "../../src/lib/system-clock.ts";
import { ADMISSION, type AdmissionLimits } from "../../src/server/admission.ts";
import { jobToken } from "../../src/server/attempt-credentials.ts";
import { KeyRing } from "../../src/server/key-ring.ts";
import { createLog } from "../../src/server/log.ts";
import { createServer, type Server, type ServerOptions } from "../../src/server/server.ts";
import { TokenBook } from "../../src/server/tokens.ts";
import type { Blobs } from "../../src/store/blobs.ts";
import { directoryBlobs } from "../../src/store/directory-blobs.ts";
import { openStore } from "../../src/store/open.ts";
import type { Store } from "../../src/store/store.ts";
import { newSchema } from "../postgres/kit.ts";

export type StoreName = "sqlite" | "postgres";

export interface KitOptions extends ServerOptions {
  readonly store?: StoreName;
  /** The address of an existing store, as of another server; it is not removed. */
  readonly url?: string;
  readonly leaseMs?: number;
  readonly retention?: EngineOptions["retention"];
  readonly isGone?: EngineOptions["isGone"];
  readonly clock?: Clock;
  readonly wrapStore?: (store: Store) => Store;
  /** Default: the same for all servers of a store. */
  readonly keys?: KeyRing;
}

export interface TokenWish {
  readonly name?: string;
  readonly scopes?: readonly Scope[];
  readonly namespace?: string | null;
  readonly expiresInMs?: number | null;
}

export interface Reply {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  // Tests know what they requested.
  // biome-ignore lint/suspicious/noExplicitAny: the body of any reply
  readonly body: any;
}

export interface TestServer {
  readonly url: string;
  readonly port: number;
  readonly storeUrl: string;
  readonly engine: Engine;
  readonly store: Store;
  readonly server: Server;
  readonly tokens: TokenBook;
  readonly blobs: Blobs;
  readonly keys: KeyRing;
  /** A token with all scopes, for all namespaces. */
  readonly admin: string;
  /** Lines of the log, at debug. */
  readonly logged: string[];
  token(wish?: TokenWish): Promise<string>;
  /** The own token of an attempt, as its command finds it. */
  jobToken(id: string, attempt: number): string;
  /** One request with the admin's token, or another; a body is sent as JSON, a text or bytes as they are. */
  call(method: string, path: string, options?: CallOptions): Promise<Reply>;
  close(): Promise<void>;
}

export interface CallOptions {
  readonly token?: string | null;
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal;
}

/** The test runs in the server's own process, and the machine may be busy: long turns and slow writes are not an overload here. */
const PATIENT: Partial<AdmissionLimits> = {
  ...{ maxLagMs: Number.POSITIVE_INFINITY, maxReadLagMs: Number.POSITIVE_INFINITY },
  pace: { ...ADMISSION.pace, targetMs: Number.POSITIVE_INFINITY },
  reads: { ...ADMISSION.reads, maxWaitMs: 60_000 },
};

const rings = new Map<string, KeyRing>();

function ringOf(storeUrl: string): KeyRing {
  const secret = { text: randomBytes(32).toString("base64url"), signsFrom: null, until: null };
  const ring = rings.get(storeUrl) ?? new KeyRing([secret], systemClock.now);
  rings.set(storeUrl, ring);
  return ring;
}

/** Whoever opens it closes it: `onTestFinished(server.close)` or `afterAll(server.close)`. */
export async function startServer(options: KitOptions = {}): Promise<TestServer> {
  const {
    store: kind = "sqlite",
    url,
    leaseMs,
    retention,
    isGone,
    clock: base = systemClock,
    wrapStore = (store) => store,
    admission = {},
    keys: givenKeys,
    ...given
  } = options;
  const directory = mkdtempSync(join(tmpdir(), "perdure-server-"));
  const storeUrl = url ?? (kind === "postgres" ? newSchema("server").url : join(directory, "jobs.db"));
  const newSecret = () => randomBytes(24).toString("base64url");
  const store = wrapStore(await openStore({ url: storeUrl, clock: base, random: Math.random, newSecret }));
  const shared = await storeClock(base, store, () => {});
  const { clock } = shared;
  const logged: string[] = [];
  const log = createLog({ write: (line) => void logged.push(line), now: clock.now, level: "debug" });
  const newId = idMaker({ now: clock.now, randomBytes: (bytes) => randomFillSync(bytes) });
  const blobs = directoryBlobs(join(directory, "artifacts"));
  const engine = new Engine({
    ...{ store, clock, random: Math.random, newId, log, name: "test", outputs: blobs },
    readPlaybook: playbookReader({}),
    ...(leaseMs === undefined ? {} : { leaseMs }),
    ...(retention === undefined ? {} : { retention }),
    ...(isGone === undefined ? {} : { isGone }),
  });
  engine.start();
  const tokens = await TokenBook.open({ store, clock, randomBytes, log });
  const storeKind = /^postgres/.test(storeUrl) ? "postgres" : "sqlite";
  const keys = givenKeys ?? ringOf(storeUrl);
  const server = createServer(
    { engine, blobs, tokens, keys, log, version: "0.0.0-test", storeKind },
    { ...given, admission: { ...PATIENT, ...admission } },
  );
  const address = await server.listen();

  async function token(wish: TokenWish = {}): Promise<string> {
    const { name = "test", scopes = ["admin"], namespace = null, expiresInMs = null } = wish;
    return (await tokens.create({ name, scopes, namespace, expiresInMs })).token;
  }
  const admin = await token({ name: "admin" });

  async function call(method: string, path: string, { token = admin, body, headers = {}, signal }: CallOptions = {}) {
    const response = await fetch(`${address.url}${path}`, {
      method,
      headers: {
        ...(token === null ? {} : { authorization: `Bearer ${token}` }),
        ...(body === undefined ? {} : { "content-type": "application/json" }),
        ...headers,
      },
      ...(body === undefined
        ? {}
        : { body: typeof body === "string" || body instanceof Uint8Array ? body : JSON.stringify(body) }),
      ...(signal === undefined ? {} : { signal }),
    });
    const text = await response.text();
    const isJson = response.headers.get("content-type")?.startsWith("application/json") && text !== "";
    return { status: response.status, headers: response.headers, text, body: isJson ? JSON.parse(text) : null };
  }

  return {
    ...{ ...address, storeUrl, engine, store, server, tokens, blobs, keys, admin, logged, token, call },
    jobToken: (id, attempt) => jobToken(keys, id, attempt),
    async close() {
      await server.stop(1_000);
      tokens.close();
      await engine.stop();
      shared.stop();
      await store.close();
      rmSync(directory, { recursive: true, force: true });
    },
  };
}
