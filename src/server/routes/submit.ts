/** Submits of jobs and of child jobs. The input of a job is stored as the text of the request, byte for byte; everything else is
 *  checked by the same code as in the library. */

import type { JobRequest, Submitted } from "../../contract/schemas.ts";
import { statusOf } from "../../contract/wire.ts";
import { checkKeys, isPlain, type Mutable } from "../../core/check.ts";
import { ConfigError, ERROR_CODES, PerdureError } from "../../core/errors.ts";
import type { Usage } from "../../core/job/job.ts";
import { resolvePolicy } from "../../core/policy/resolve-policy.ts";
import { WIRE_OPTION_NAMES } from "../../core/task/submit-options.ts";
import { NO_INPUT } from "../../core/worker-protocol.ts";
import { checkBuiltinKind } from "../../engine/check-builtin.ts";
import type { AdmitLanes, StartedRun } from "../../engine/runs/start-run.ts";
import type { SubmitAnswer, SubmitItem } from "../../engine/submit-item.ts";
import { toSubmitItem } from "../../engine/submit-item.ts";
import { sliceOf, slicesOf } from "../../lib/json-text.ts";
import { Slices } from "../../lib/slices.ts";
import { storable } from "../../lib/text.ts";
import { JsonText, type RouteCall, type RouteHandlers, type ServerParts } from "../context.ts";
import { findJob, heldAttempt, leasedAttempt } from "../find-job.ts";
import { type LaneOwner, LaneQuota, tokenOwner } from "../lane-quota.ts";
import { PolicyCache, RequestPolicies } from "../policy-cache.ts";

interface ChildrenRequest {
  readonly ids?: readonly string[];
  readonly cursor?: string;
}

interface UsageRequest {
  readonly attempt: number;
  readonly usage: Usage;
}

/** Child jobs: for handlers of remote workers, which prove that they hold the parent, and for processes with a job token. */
function childRoutes(parts: ServerParts, submitOne: SubmitOne): RouteHandlers {
  const { engine } = parts;
  return {
    async submitChild(call) {
      return submitOne(call, await heldAttempt(parts, call));
    },

    async lookChildren(call) {
      const { id, attempt } = await heldAttempt(parts, call);
      const { ids, cursor = null } = (call.body ?? {}) as ChildrenRequest;
      if (ids === undefined) return engine.childPage(id, cursor);
      return { children: await engine.awaitedPage({ jobId: id, attempt }, ids), next: null };
    },

    async setUsage(call) {
      const { attempt, usage } = call.body as UsageRequest;
      const { id, attempt: own } = await reporterOf(parts, call);
      if (own !== attempt) throw new PerdureError("forbidden", "a job can only set the usage of its running attempt");
      if (await engine.setUsage(id, attempt, usage)) return undefined;
      throw new PerdureError("lease_lost", `attempt ${attempt} of ${id} is not running`);
    },
  };
}

/** The attempt whose usage a caller may set: that of its job token, or one that its session holds. No other token is accepted,
 *  whatever its scopes: usage counts towards a budget, and the job ends when that is spent. */
async function reporterOf(
  parts: ServerParts,
  call: RouteCall,
): Promise<{ readonly id: string; readonly attempt: number }> {
  const { job } = call.who;
  if (job === undefined) return leasedAttempt(parts, call);
  const { id } = await findJob(parts, call);
  if (id !== job.id) throw new PerdureError("forbidden", "this job token is for another job");
  return job;
}

/** Limit of the caller's name in events. */
const MAX_NAME = 200;

/** Stores the job of a request, within the quota; as a child of `parent`, if given. */
type SubmitOne = (call: RouteCall, parent?: SubmitItem["parent"]) => Promise<JsonText>;

export function submitRoutes(parts: ServerParts): RouteHandlers {
  const { engine, log, limits } = parts;
  const policies = new PolicyCache();

  async function submitOne(call: RouteCall, parent: SubmitItem["parent"] = null): Promise<JsonText> {
    try {
      const item = toItem(call, call.body, call.text, policies);
      if (parent !== null) item.parent = parent;
      const [answer] = (await storeItems(parts, call, [item])) as [SubmitAnswer];
      if (answer.status !== "ok") throw answer.error;
      return new JsonText(JSON.stringify(submitted(answer)), answer.created ? 201 : 200);
    } catch (error) {
      throw withWirePath(error, "");
    }
  }

  function toItem(
    call: RouteCall,
    request: unknown,
    text: string,
    known: Pick<PolicyCache, "of">,
  ): Mutable<SubmitItem> {
    if (!isPlain(request)) throw new ConfigError({ path: "submit", given: request, allowed: "an object" });
    const { kind, input, retry, ...options } = request as JobRequest;
    checkKeys(options, WIRE_OPTION_NAMES, "submit");
    const required = checkBuiltinKind(kind, input, options.upload);
    const payload = sliceOf(text, "input") ?? NO_INPUT;
    const { namespace } = call;
    const policy = retry === undefined ? {} : { policy: known.of(retry), retry };
    const item: Mutable<SubmitItem> = toSubmitItem({
      ...{ kind, payload, namespace, required, ...policy },
      options, // checked there
    });
    item.by = principal(call);
    // A job submitted with a job token is a child of that job.
    const { job } = call.who;
    if (job === undefined) {
      item.token = call.who.id;
      return item;
    }
    if (item.parent != null && item.parent.id !== job.id) {
      const allowed = `${job.id}, or nothing: with a job token, that job is the parent`;
      throw new ConfigError({ path: "submit.parent", given: item.parent.id, allowed });
    }
    item.parent = job;
    return item;
  }

  return {
    ...childRoutes(parts, submitOne),

    submitJob: (call) => submitOne(call),

    async submitJobs(call) {
      const { jobs } = call.body as { readonly jobs: readonly unknown[] };
      const texts = slicesOf(call.text, "jobs") ?? [];
      const answers: object[] = new Array(jobs.length);
      const items: SubmitItem[] = [];
      const indexes: number[] = [];
      const known = new RequestPolicies(policies, limits.policiesPerRequest);
      const slices = new Slices(engine.clock);
      for (let i = 0; i < jobs.length; i++) {
        if (slices.isOver) {
          await slices.next();
          // Nothing is stored yet.
          if (call.reply.raw.closed) throw new PerdureError("closed", "the client has closed the connection");
        }
        try {
          items.push(toItem(call, jobs[i], texts[i] as string, known));
          indexes.push(i);
        } catch (error) {
          if (!(error instanceof PerdureError)) throw error;
          answers[i] = refusal(error, i);
        }
      }
      const stored = items.length === 0 ? [] : await storeItems(parts, call, items);
      stored.forEach((answer, k) => {
        const i = indexes[k] as number;
        answers[i] = answer.status === "ok" ? submitted(answer) : refusal(answer.error, i);
      });
      return new JsonText(JSON.stringify({ answers }));
    },
  };

  function refusal(error: PerdureError, index: number): object {
    const { code, message, path } = withWirePath(error, `jobs[${index}]`) as PerdureError;
    if (statusOf(code) < 500 && code !== "store_refused") return { error: { code, message, path } };
    // Messages of a database may contain names of tables, files and hosts.
    if (!engine.storeState.failed(error, "requests")) {
      log("error", "cannot store a job of a list", { code, error: message });
    }
    return { error: { code, message: ERROR_CODES[code], path: null } };
  }
}

const NO_POLICY = resolvePolicy(1);

/** One per server, so that concurrent calls count each other's lanes. */
const quotas = new WeakMap<ServerParts, LaneQuota>();

/** Stores jobs within the quota of the caller. Defaults published by workers are filled in before, since they can set the queue. */
export async function storeItems(
  parts: ServerParts,
  call: RouteCall,
  items: readonly SubmitItem[],
): Promise<SubmitAnswer[]> {
  const { engine } = parts;
  await engine.fillDefaults(items);
  return quotaOf(parts).submit(items, ownerOf(call), (admitted) => engine.submit(admitted));
}

function quotaOf(parts: ServerParts): LaneQuota {
  const { engine, limits } = parts;
  const quota = quotas.get(parts) ?? new LaneQuota({ store: engine.store, clock: engine.clock, limits });
  quotas.set(parts, quota);
  return quota;
}

function ownerOf(call: RouteCall): LaneOwner {
  return tokenOwner(call.who.id, principal(call));
}

/** Starts a run if the quota of the caller has place for its lane and those of its steps. Lanes of steps count for the namespace
 *  once they exist, and not for a token. */
export function runAdmission(parts: ServerParts, call: RouteCall): AdmitLanes {
  return async (lanes, store) => {
    const owner = ownerOf(call);
    const items = lanes.map((lane) => ({ ...lane, payload: NO_INPUT, policy: NO_POLICY }));
    let started: StartedRun | undefined;
    const answers = await quotaOf(parts).submit(items, owner, async (admitted) => {
      if (admitted.length === items.length) started = await store(owner.key);
      const { id = "", chapter = 1, state = "blocked" } = started ?? {};
      // Lanes of steps are not there yet, so they are not remembered.
      return admitted.map((item) => ({
        status: "ok",
        id,
        chapter,
        state,
        created: item === items[0] && started?.created === true,
      }));
    });
    const refusal = answers.find((answer) => answer.status === "refused");
    if (refusal?.status === "refused") throw refusal.error;
    return started as StartedRun;
  };
}

function submitted({ id, created, chapter, state }: SubmitAnswer & { readonly status: "ok" }): Submitted {
  return { id, created, chapter, state };
}

/** The caller, as shown in events. */
export function principal({ who }: RouteCall): string {
  return storable(`${who.job === undefined ? "token" : "job"}:${who.name}`, MAX_NAME);
}

/** Converts the path of an error from the names of the library (`submit.tags`, `payload`) to those of the API (`tags`, `input`), after
 *  the position in a list. */
export function withWirePath(error: unknown, prefix: string): unknown {
  if (!(error instanceof PerdureError) || error.path === null) return error;
  const { code, path, message } = error;
  const field = path
    .replace(/^(submit|jobs|redrive|redriveMany)(\.|$)/, "")
    .replace(/^(payload|exec|http)(?=[.[]|$)/, "input");
  const wirePath = field === "" || prefix === "" || field.startsWith("[") ? prefix + field : `${prefix}.${field}`;
  // Some messages begin with the name of their field as a word: `playbook shop/orders does not exist`.
  if (wirePath === path && message.startsWith(`${path} `)) return error;
  const problem = message.startsWith(path) ? message.slice(path.length).replace(/^: /, "") : message;
  const text = wirePath === "" ? problem : `${wirePath}: ${problem}`;
  return new PerdureError(code, text, { ...(wirePath === "" ? {} : { path: wirePath }), cause: error });
}
