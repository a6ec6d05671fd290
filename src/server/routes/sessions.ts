/** The worker protocol: sessions, claims, renewals, reports. The hot path of a server: everything here is done for each job, so there
 *  are no object spreads, and replies are serialized once.
 *
 *  Every call but the first one proves its session with the session key. */
import { fromWireHealth, toWireUsage, type WireHealth } from "../../contract/wire.ts";
import type {
  ClaimRequestWire,
  RenewAnswerWire,
  RenewRequestWire,
  ReportWire,
  SessionOpened,
  SessionRequestWire,
} from "../../contract/worker-schemas.ts";
import { PerdureError, show } from "../../core/errors.ts";
import { isName, MAX_NAME } from "../../core/names.ts";
import type { TaskOptions } from "../../core/task/task.ts";
import type { ClaimedJob, HeldAttempt, Report, SettleAnswer } from "../../core/worker-protocol.ts";
import { isId } from "../../lib/id.ts";
import { storable } from "../../lib/text.ts";
import type { ClaimAnswer } from "../../store/store.ts";
import { jobToken, provenSession, readLease, sessionKey, sessionOf } from "../attempt-credentials.ts";
import { ClaimSize } from "../claim-size.ts";
import { JsonText, type RouteCall, type RouteHandlers, type ServerParts } from "../context.ts";
import { Notices } from "../notices.ts";
import { keptProgress, toReport } from "../wire-format.ts";

export function sessionRoutes(parts: ServerParts): RouteHandlers {
  const { engine, keys, log, limits } = parts;
  const claimSize = new ClaimSize();
  const notices = new Notices(engine);

  /** Releases jobs that do not fit into a reply; not counted as attempts. Other sessions may claim them soon, this one after a
   *  lease. */
  async function release(session: string, jobs: readonly ClaimedJob[]): Promise<void> {
    const attempts = jobs.map(({ id, attempt }) => ({ jobId: id, attempt }));
    await engine.releaseUnheard(session, attempts).catch((error: unknown) => {
      // The worker never renews them, so the engine releases them after a lease.
      log("warn", "cannot release jobs that exceed the reply size", { session, error });
    });
  }

  /** Releases the jobs of a claim whose reply is not delivered, unless a repeated claim has delivered them meanwhile. */
  async function releaseClaim(
    session: string,
    claimId: string | null,
    answer: ClaimAnswer,
    why: string,
  ): Promise<void> {
    const { jobs, delivery } = answer;
    try {
      if (claimId !== null && delivery !== null) await engine.withdrawClaim({ session, claimId, delivery });
      else {
        const attempts = jobs.map(({ id, attempt }) => ({ jobId: id, attempt }));
        await engine.releaseUnheard(session, attempts, { undelivered: true });
      }
      log("info", why, { session, jobs: jobs.length });
    } catch (error) {
      // The worker never renews them, so the engine releases them after a lease.
      log("warn", "cannot release jobs of an undelivered claim", { session, error });
    }
  }

  function releaseIfUndelivered(call: RouteCall, session: string, claimId: string | null, answer: ClaimAnswer): void {
    const { raw } = call.reply;
    const unlessSent = () => {
      if (!raw.writableFinished) void releaseClaim(session, claimId, answer, "claim not delivered, jobs released");
    };
    if (raw.closed || raw.destroyed || call.reply.request.raw.socket.destroyed) unlessSent();
    else raw.once("close", unlessSent);
  }

  return {
    async openSession(call): Promise<SessionOpened> {
      keys.requireInUse();
      const request = call.body as SessionRequestWire;
      const { leaseMs } = request;
      const session = await engine.openSession({
        namespace: call.namespace,
        name: storable(request.name, 200),
        host: storable(request.host ?? "", 200),
        pid: request.pid ?? 0,
        process: request.process == null ? null : storable(request.process, 500),
        kinds: request.kinds.map((kind, i) => named(kind, `kinds[${i}]`)),
        queues: request.queues?.map((queue, i) => named(queue, `queues[${i}]`)) ?? null,
        labels: checkedLabels(request.labels ?? {}),
        slots: request.slots,
        ...(request.defaults == null ? {} : { defaults: request.defaults as Readonly<Record<string, TaskOptions>> }),
        ...(leaseMs === undefined ? {} : { leaseMs }),
        owner: call.who.id,
        most: limits.sessionsPerToken,
      });
      const key = sessionKey(keys, session, call.namespace);
      return { session, key, leaseMs: leaseMs ?? engine.leaseMs, claimsAtOnce: engine.store.claimsAtOnce };
    },

    async closeSession(call) {
      const session = sessionOf(parts, call);
      await engine.closeSession(session);
      claimSize.forget(session);
      notices.forget(session);
    },

    async renewSession(call): Promise<RenewAnswerWire> {
      const { session, isFormer } = provenSession(parts, call);
      const { held, health } = call.body as RenewRequestWire;
      const attempts = held.map(toHeld);
      const answer = await engine.renew(session, attempts, health && fromWireHealth(health as WireHealth));
      const { alive, leaseMs, lost, cancel, drain, overspent } = answer;
      const renewed = { alive, leaseMs, lost, cancel, drain, overspent };
      // The secret was replaced: a key of the new secret stays valid when the old one is not accepted any more.
      return isFormer && alive ? { ...renewed, key: sessionKey(keys, session, call.namespace) } : renewed;
    },

    async claimJobs(call) {
      const session = sessionOf(parts, call);
      const { limit, waitMs = 0, claimId: givenId, last = false, room } = call.body as ClaimRequestWire;
      const claimId = givenId === undefined ? null : storable(givenId, 100);
      const grant = call.request.replyGrant;
      const answer = await engine.claim(session, {
        limit: claimSize.limit(session, limit, grant?.freeBytes),
        ...{ claimId, last, waitMs },
        signal: call.signal,
        ...(room === undefined ? {} : { room: { cpu: room.cpu, memory: room.memory } }),
      });
      const { alive, drain } = answer;
      let jobs = answer.jobs;
      if (jobs.length > 0 && call.isTokenOver) {
        await releaseClaim(session, claimId, answer, "token of a claim ended, jobs released");
        jobs = [];
      }
      if (jobs.length > 0) releaseIfUndelivered(call, session, claimId, answer);
      if (!alive) claimSize.forget(session);
      else {
        const fitting = claimSize.fitting(session, jobs, grant?.freeBytes);
        if (fitting < jobs.length) {
          await release(session, jobs.slice(fitting));
          jobs = jobs.slice(0, fitting);
        }
      }
      // The store returns exactly the fields of the protocol. Commands also get a job token.
      jobs = jobs.map((job) => (job.kind === "exec" ? { ...job, jobToken: jobToken(keys, job.id, job.attempt) } : job));
      return new JsonText(JSON.stringify({ alive, drain, jobs }));
    },

    async reportAttempts(call) {
      const session = sessionOf(parts, call);
      const { reports } = call.body as { readonly reports: readonly ReportWire[] };
      const answers: SettleAnswer[] = new Array(reports.length);
      const valid: Report[] = [];
      const indexes: number[] = [];
      for (let i = 0; i < reports.length; i++) {
        const report = reports[i] as ReportWire;
        const lease = readLease(report.token);
        if (!isId(report.jobId, "job")) answers[i] = UNKNOWN;
        else if (lease?.session !== session || lease.attempt !== report.attempt) answers[i] = STALE;
        else {
          valid.push(toReport(report));
          indexes.push(i);
        }
      }
      const settled = valid.length === 0 ? [] : await engine.report(valid);
      for (let k = 0; k < settled.length; k++) answers[indexes[k] as number] = settled[k] as SettleAnswer;
      return new JsonText(JSON.stringify({ answers }));
    },

    async waitForNotice(call) {
      const session = sessionOf(parts, call);
      const { waitMs = 0 } = (call.body ?? {}) as { readonly waitMs?: number };
      return notices.wait(session, waitMs, call.signal);
    },
  };
}

const STALE: SettleAnswer = Object.freeze({ status: "stale", recorded: null });
const UNKNOWN: SettleAnswer = Object.freeze({ status: "unknown_job" });

function toHeld(held: RenewRequestWire["held"][number], i: number): HeldAttempt {
  const { jobId, attempt, usage, log = null } = held;
  if (!isId(jobId, "job")) throw refusal(`held[${i}].jobId`, jobId, "the id of a job");
  const reported = usage == null ? null : toWireUsage(usage);
  return { jobId, attempt, usage: reported, progress: keptProgress(held.progress), log };
}

function checkedLabels(labels: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  for (const [label, value] of Object.entries(labels)) {
    named(label, "labels");
    named(value, `labels.${label}`);
  }
  return labels;
}

// The rule for names of jobs, with which they are compared.
function named(value: string, path: string): string {
  if (isName(value)) return value;
  throw refusal(path, value, `text of 1 to ${MAX_NAME} characters without control characters`);
}

function refusal(path: string, given: unknown, allowed: string): PerdureError {
  return new PerdureError("invalid_request", `${path}: must be ${allowed}; got ${show(given)}.`, { path });
}
