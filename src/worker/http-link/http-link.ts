/** A worker's link to an engine over HTTP, with the same methods as in one process. Calls are retried: a server that cannot be
 *  reached, restarts or answers late only causes delays.
 *
 *  Not promised: that a call is carried out only once. Claims and reports have ids, so repeating them is harmless. */
import { HEADER, toWireHealth, toWireUsage } from "../../contract/wire.ts";
import type {
  HeldWire,
  RenewAnswerWire,
  RenewRequestWire,
  SessionOpened,
  SessionRequestWire,
} from "../../contract/worker-schemas.ts";
import type { HeldAttempt, RenewAnswer, SettleAnswer } from "../../core/worker-protocol.ts";
import type { Clock } from "../../lib/clock.ts";
import type { FieldLog } from "../../lib/log.ts";
import { isDenied, isGone, isRefused, mayPass } from "../../wire/repeat.ts";
import { WireError } from "../../wire/wire-error.ts";
import type { EngineLink, LinkSessionRequest } from "../engine-link.ts";
import { fetchAsset } from "./asset.ts";
import { httpChildren } from "./children.ts";
import { HttpClaims } from "./claims.ts";
import { serverCalls } from "./http-call.ts";
import { inSession, type LinkParts, type LinkSession, untilAnswered } from "./link-parts.ts";
import { followNotices } from "./notices.ts";
import { OutageLog } from "./outage-log.ts";
import { ReportQueue } from "./report-queue.ts";

export interface HttpLinkOptions {
  readonly url: string;
  /** Called before each request. */
  readonly token: () => string;
  /** The namespace, for a token that is valid for all. */
  readonly namespace: string | null;
  readonly clock: Clock;
  readonly random: () => number;
  readonly log: FieldLog;
  /** A file of certificates to trust in addition. */
  readonly ca?: string | undefined;
  /** The interval of renewals; default 2 s. */
  readonly heartbeatMs?: number | undefined;
  /** The lease to request; default: the server's. */
  readonly leaseMs?: number | undefined;
}

export interface HttpLink extends EngineLink {
  /** For other calls to the same server. */
  readonly parts: LinkParts;
  /** Null for a session that was not opened by this link. */
  sessionOf(id: string): { readonly key: string; readonly isCurrent: boolean } | null;
  /** Aborts calls in progress. Reports without an answer are lost. */
  close(): void;
}

const HEARTBEAT_MS = 2_000;
/** Sessions that are remembered, since reports of earlier ones may be in progress. */
const KEPT_SESSIONS = 10;
const CLOSE_MS = 5_000;
const GONE: RenewAnswer = Object.freeze({
  alive: false,
  leaseMs: 0,
  drain: false,
  lost: [],
  cancel: [],
  overspent: [],
  unheard: [],
});
const STALE: SettleAnswer = Object.freeze({ status: "stale", recorded: null });

export function httpLink(options: HttpLinkOptions): HttpLink {
  const { clock, random, log, heartbeatMs = HEARTBEAT_MS, leaseMs } = options;
  const calls = serverCalls(options);
  const closing = new AbortController();
  const outage = new OutageLog(clock, log);
  const parts: LinkParts = { calls, clock, random, outage, closed: closing.signal };
  const claims = new HttpClaims(parts, `${Math.floor(random() * 2 ** 48).toString(36)}-`);
  const sessions = new Map<string, LinkSession>();
  const queues = new Map<string, ReportQueue>();
  const drains = new Map<string, () => void>();
  let claimsAtOnce = 1;
  let isFirst = true;
  let current = "";

  async function openSession(request: LinkSessionRequest, given?: { readonly signal: AbortSignal }) {
    const body = JSON.stringify(toSessionWire(request, leaseMs));
    const signal = given?.signal ?? closing.signal;
    const opened = await untilAnswered(parts, () => calls.json<SessionOpened>("openSession", { body, signal }), {
      signal,
      // A mistake in the options is reported at once; a worker that has been connected before keeps retrying.
      shouldRetry: (error) => mayPass(error) && !(isFirst && isMistake(error)),
    });
    isFirst = false;
    outage.answered();
    const { session: id, key } = opened;
    claimsAtOnce = Math.max(1, opened.claimsAtOnce);
    const session: LinkSession = { id, key, leaseMs: opened.leaseMs };
    sessions.set(id, session);
    forgetOldSessions(id);
    current = id;
    queues.set(id, new ReportQueue(parts, session, () => current === id));
    return { session: id, leaseMs: session.leaseMs };
  }

  /** Their reports have been answered, or never will be. */
  function forgetOldSessions(newest: string): void {
    for (const id of [...sessions.keys()]) {
      if (sessions.size <= KEPT_SESSIONS) return;
      if (id === newest || id === current) continue;
      sessions.delete(id);
      queues.delete(id);
      drains.delete(id);
    }
  }

  async function renew(session: LinkSession, body: string): Promise<RenewAnswer> {
    try {
      // Leaves time for another renewal within the lease.
      const { key, ...answer } = await inSession<RenewAnswerWire>(parts, session, "renewSession", body, {
        totalMs: session.leaseMs / 2,
      });
      if (key !== undefined) session.key = key;
      // Servers of earlier versions do not return `overspent`.
      return { ...answer, overspent: answer.overspent ?? [], unheard: [] };
    } catch (error) {
      if (isGone(error)) return GONE;
      outage.failed(error);
      throw error;
    }
  }

  function sessionOf(id: string) {
    const session = sessions.get(id);
    return session === undefined ? null : { key: session.key, isCurrent: current === id };
  }

  return {
    parts,
    heartbeatMs,
    family: httpChildren(parts, sessionOf),
    access({ jobToken, namespace }) {
      if (jobToken === undefined) return {};
      return { PERDURE_URL: calls.shown, PERDURE_TOKEN: jobToken, PERDURE_NAMESPACE: namespace };
    },
    get claimsAtOnce() {
      return claimsAtOnce;
    },
    openSession,

    async closeSession(id) {
      const session = sessions.get(id);
      if (session === undefined) return;
      const ask = { params: { session: id }, headers: { [HEADER.sessionKey]: session.key }, totalMs: CLOSE_MS };
      await calls.json("closeSession", ask).catch((error: unknown) => {
        // The session ends with its lease.
        if (!isGone(error)) log("warn", "cannot close the session", { session: id, error: (error as Error).message });
      });
    },

    claim: (id, options) => claims.claim(known(sessions, id), options),

    async renew(id, held, health) {
      const session = known(sessions, id);
      const wire: RenewRequestWire = { held: held.map(toHeldWire) };
      if (health !== undefined) wire.health = toWireHealth(health);
      const body = JSON.stringify(wire);
      try {
        return await renew(session, body);
      } catch (error) {
        if (!isRefused(error)) throw error;
        // The lease must not depend on usage, progress and logs: job ids and attempts alone cannot be refused.
        const { message } = error as Error;
        log("error", "renewal refused, its usage, progress and logs are dropped", { session: id, error: message });
        const idsOnly = held.map(({ jobId, attempt }) => ({ jobId, attempt }));
        return renew(session, JSON.stringify({ held: idsOnly }));
      }
    },

    report: (report, id) => queues.get(id)?.report(report) ?? Promise.resolve(STALE),

    // One long poll returns cancels and drains.
    onCancel(id, call) {
      const stop = new AbortController();
      const listener = { onCancel: call, onDrain: () => drains.get(id)?.() };
      void followNotices(parts, known(sessions, id), listener, stop.signal);
      return () => stop.abort();
    },
    onDrain(id, call) {
      drains.set(id, call);
      return () => drains.delete(id);
    },

    sessionOf,
    asset: (hash) => fetchAsset(parts, hash),

    close() {
      closing.abort();
      calls.close();
    },
  };
}

// Field by field: a server refuses unknown fields.

function toSessionWire(request: LinkSessionRequest, leaseMs: number | undefined): SessionRequestWire {
  const { name, host, pid, kinds, queues, labels, slots, process: named, defaults } = request; // the namespace is a header
  const wire: SessionRequestWire = { name, host, pid, kinds: [...kinds], slots, labels };
  wire.queues = queues === null ? null : [...queues];
  if (named !== undefined) wire.process = named;
  if (defaults !== undefined) wire.defaults = defaults as NonNullable<SessionRequestWire["defaults"]> | null;
  if (leaseMs !== undefined) wire.leaseMs = leaseMs;
  return wire;
}

function toHeldWire({ jobId, attempt, usage, progress, log }: HeldAttempt): HeldWire {
  const wire: HeldWire = { jobId, attempt };
  if (usage != null) wire.usage = toWireUsage(usage);
  if (progress != null) wire.progress = progress;
  if (log != null) wire.log = log;
  return wire;
}

function isMistake(error: unknown): boolean {
  return isDenied(error) || (error instanceof WireError && error.isWrongAddress);
}

function known(sessions: ReadonlyMap<string, LinkSession>, id: string): LinkSession {
  const session = sessions.get(id);
  if (session === undefined) throw new Error(`session ${id} was not opened by this link`);
  return session;
}
