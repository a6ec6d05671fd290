/** Checks of the server: that it answers and accepts the token, its version, secrets and clock. */

import type { StoreTrouble } from "../../client/admin.ts";
import type { PerdureClient } from "../../client/client.ts";
import { Perdure } from "../../client/connect.ts";
import { API_VERSION } from "../../contract/wire.ts";
import { showMs } from "../../core/duration.ts";
import { type ErrorCode, PerdureError } from "../../core/errors.ts";
import type { Target } from "../target/target.ts";
import { version } from "../version.ts";
import { type CheckResult, errorText, note, ok, problem, warning } from "./finding.ts";

const SKEW_MS = 2_000;
/** Short, as an unreachable server is one of the findings. */
const TIMEOUT = "5s";

export function clientOf({ url, token, namespace }: Extract<Target, { kind: "server" }>): Promise<PerdureClient> {
  return Perdure.connect(url, { token, namespace, timeout: TIMEOUT, patience: 0 });
}

export async function checkReach({ admin }: PerdureClient, url: string): Promise<CheckResult[]> {
  const { origin } = new URL(url);
  const answers = ok(`${origin} answers`);
  try {
    const found = await admin.version();
    return [answers, judgeVersion(found.version, found.api)];
  } catch (error) {
    if (isAbout(error, "unauthorized", "forbidden")) return [answers]; // reported by the check of the token
    if (isAbout(error, "server_unreachable")) {
      return [problem(error.message, "start it with `perdure up` or `perdure server`, or check --server")];
    }
    return [problem(`${origin}: ${errorText(error)}`, "check --server: is there a proxy, or another program?")];
  }
}

function isAbout(error: unknown, ...codes: readonly ErrorCode[]): error is PerdureError {
  return error instanceof PerdureError && codes.includes(error.code);
}

/** A check that the token does not allow is a note, not a problem. */
export function ifAllowed(run: () => Promise<readonly CheckResult[]>): () => Promise<readonly CheckResult[]> {
  return async () => {
    try {
      return await run();
    } catch (error) {
      if (isAbout(error, "unauthorized", "forbidden")) return [note("not checked: this token does not allow it")];
      throw error;
    }
  };
}

export function judgeVersion(theirs: string, api: number): CheckResult {
  const ours = version();
  if (api !== API_VERSION) {
    const words = `the server has version ${theirs} with API ${api}, and this is ${ours} with API ${API_VERSION}`;
    return problem(words, "use the same version on both sides");
  }
  if (theirs === ours) return ok(`the server has the same version, ${ours}`);
  return warning(`the server has version ${theirs}, and this is ${ours}`, "use the same version on both sides");
}

export async function checkToken({ admin }: PerdureClient): Promise<CheckResult[]> {
  try {
    const { id, name, scopes, namespace } = await admin.identity();
    const where = namespace === null ? "all namespaces" : `the namespace ${namespace}`;
    return [
      ok(`token ${id} (${name}) has ${scopes.length === 1 ? "scope" : "scopes"} ${scopes.join(", ")} in ${where}`),
    ];
  } catch (error) {
    if (isAbout(error, "unauthorized")) {
      const advice = "set PERDURE_TOKEN, or pass a file with another token as --token-file";
      return [problem("the server refused the token: it was revoked, has expired, or is of another server", advice)];
    }
    if (isAbout(error, "forbidden")) return [problem(error.message, "check --namespace, or use another token")];
    throw error;
  }
}

export async function checkStatus({ admin }: PerdureClient): Promise<CheckResult[]> {
  const { store, storeMs, storeFault = null, storeTrouble = null } = await admin.status();
  if (storeFault !== null) {
    const advice = "remove the cause; the server then reopens the database, and logs store_up";
    return [problem(`the server refuses writes: ${store}: ${storeFault}`, advice)];
  }
  if (storeTrouble !== null) return [judgeTrouble(store, storeTrouble)];
  const name = store === "sqlite" ? "SQLite" : "PostgreSQL";
  return [ok(`the server's ${name} database answers${typeof storeMs === "number" ? ` in ${showMs(storeMs)}` : ""}`)];
}

function judgeTrouble(store: string, { kind, cause, requests, forMs }: StoreTrouble): CheckResult {
  const advice =
    kind === "full"
      ? "free space on the disk of the database; no restart is needed"
      : "check the database; the server logs store.trouble with the cause, and store.trouble_over when it works again";
  const count = `${requests} ${requests === 1 ? "request" : "requests"} failed in ${showMs(forMs)}`;
  return problem(`the store of the server (${store}) is ${kind}: ${cause ?? "cause not reported"}; ${count}`, advice);
}

/** A server with an unreadable secret file runs until its next start, which fails; and a replaced secret keeps signing. */
export async function checkSecrets({ admin }: PerdureClient): Promise<CheckResult[]> {
  const { secretFault } = await admin.status();
  if (secretFault === undefined) return [note("the server does not report on its signing secrets")];
  if (secretFault === null) return [ok("the server can read its signing secrets")];
  const advice = "make the file readable for the user of the server, with mode 600; the server then reloads it";
  return [problem(`the server cannot read its signing secrets: ${secretFault}`, advice)];
}

export async function checkClock({ admin }: PerdureClient): Promise<CheckResult[]> {
  const before = Date.now();
  const { now } = await admin.status();
  return [judgeClock(now, before, Date.now())];
}

/** The duration of the request is not counted as a difference. */
export function judgeClock(theirs: number, before: number, after: number): CheckResult {
  const off = theirs - (before + after) / 2;
  const doubt = (after - before) / 2;
  const words = `this clock and the server's are ${showMs(Math.abs(off))} apart`;
  if (Math.abs(off) - doubt <= SKEW_MS) return ok(words);
  const advice =
    off > 0
      ? "synchronize both with NTP; a SQLite server whose clock was set back stays ahead until it is restarted with no unfinished job"
      : "synchronize both with NTP; instants passed here, such as --run-at, are another moment there";
  return warning(`${words}: the server is ${off > 0 ? "ahead" : "behind"}`, advice);
}

export const notReached = [note("not checked: the server does not answer")];
