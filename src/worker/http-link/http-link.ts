/** A worker's link to an engine behind HTTP: the same verbs as in one process. What it adds is patience: a server that is
 *  away, restarts or answers too late changes nothing but the time things take.
 *
 *  What it does not promise: that a call was carried out only once. Claims and reports have ids, so it does not matter. */
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
import { isDenied, isGone, isRefused, mayPass } from "../../wire/repeat.ts";
import { WireError } from "../../wire/wire-error.ts";
import type { EngineLink, LinkSessionRequest } from "../engine-link.ts";
import { httpChildren } from "./children.ts";
import { HttpClaims } from "./claims.ts";
import { serverCalls } from "./http-call.ts";
import { inSession, type LinkParts, type LinkSession, untilAnswered } from "./link-parts.ts";
import { followNotices } from "./notices.ts";
import { type LinkLog, OutageLog } from "./outage-log.ts";
import { ReportQueue } from "./report-queue.ts";

export interface HttpLinkOptions {
  readonly url: string;
  /** Asked before each call. */
  readonly token: () => string;
  /** For a token of all namespaces: which one is meant. */
  readonly namespace: string | null;
  readonly clock: Clock;
  readonly random: () => number;
  readonly log: LinkLog;
  /** A file of certificates that are trusted too. */
  readonly ca?: string | undefined;
  /** The time between two renewals; default 2 s. */
  readonly heartbeatMs?: number | undefined;
  /** The lease to ask for; default: the server's. */
  readonly leaseMs?: number | undefined;
}

export interface HttpLink extends EngineLink {
  /** For others who speak to the same server. */
  readonly parts: LinkParts;
  /** Null for a session that was never opened here. */
  sessionOf(id: string): { readonly key: string; readonly isCurrent: boolean } | null;
  /** Ends what is under way. Reports that were not answered are lost. */
  close(): void;
}

const HEARTBEAT_MS = 2_000;
/** Old ones whose reports may still be on their way. */
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
      // A mistake in the options shows at once; a worker that has worked goes on trying.
      isWorthWaiting: (error) => mayPass(error) && !(isFirst && isMistake(error)),
    });
    isFirst = false;
    outage.answered();
    const { session: id, key } = opened;
    claimsAtOnce = Math.max(1, opened.claimsAtOnce);
    const session: LinkSession = { id, key, leaseMs: opened.leaseMs };
    sessions.set(id, session);
    forget(id);
    current = id;
    queues.set(id, new ReportQueue(parts, session, () => current === id));
    return { session: id, leaseMs: session.leaseMs };
  }

  /** Those before the last one: their reports have been answered, or never will be. */
  function forget(newest: string): void {
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
      // In time for another try within the lease.
      const { key, ...answer } = await inSession<RenewAnswerWire>(parts, session, "renewSession", body, {
        totalMs: session.leaseMs / 2,
      });
      if (key !== undefined) session.key = key;
      // A server of an earlier version says nothing of budgets.
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
        // Its lease ends it too.
        if (!isGone(error)) log("warn", `cannot end session ${id}: ${(error as Error).message}`);
      });
    },

    claim: (id, asked) => claims.claim(known(sessions, id), asked),

    async renew(id, held, health) {
      const session = known(sessions, id);
      const wire: RenewRequestWire = { held: held.map(toHeldWire) };
      if (health !== undefined) wire.health = toWireHealth(health);
      const body = JSON.stringify(wire);
      try {
        return await renew(session, body);
      } catch (error) {
        if (!isRefused(error)) throw error;
        // The lease must not depend on what attempts report: their bare names do not grow, and hold nothing to refuse.
        log("error", `usage, progress and logs in a renewal were refused and are dropped: ${(error as Error).message}`);
        const bare = held.map(({ jobId, attempt }) => ({ jobId, attempt }));
        return renew(session, JSON.stringify({ held: bare }));
      }
    },

    report: (report, id) => queues.get(id)?.report(report) ?? Promise.resolve(STALE),

    // One held call tells both.
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

    close() {
      closing.abort();
      calls.close();
    },
  };
}

// Each field by name: what an engine in the same process gets besides, a server would refuse.

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
