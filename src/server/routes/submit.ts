/** Submits. The input of a job is the text of the request, byte for byte; everything else is checked by the same code as in
 *  the library, and a mistake is told under the name that it has on the wire. */

import { statusOf } from "../../contract/error-status.ts";
import type { JobRequest, Submitted } from "../../contract/schemas.ts";
import { checkKeys, isPlain } from "../../core/check.ts";
import { ConfigError, ERROR_CODES, PerdureError } from "../../core/errors.ts";
import type { Mutable } from "../../core/mutable.ts";
import type { PolicyInput } from "../../core/policy.ts";
import type { SubmitOptions } from "../../core/submit-options.ts";
import { NO_INPUT } from "../../core/work.ts";
import { checkBuiltinKind } from "../../engine/check-builtin.ts";
import type { SubmitAnswer, SubmitItem } from "../../engine/submit.ts";
import { toSubmitItem } from "../../engine/submit-request.ts";
import { sliceOf, slicesOf } from "../../lib/json-slices.ts";
import { Slices } from "../../lib/slices.ts";
import { storable } from "../../lib/text.ts";
import { LaneQuota, tokenOwner } from "../lane-quota.ts";
import { type Call, type Handlers, JsonText, type ServerParts } from "../parts.ts";
import { PolicyCache, RequestPolicies } from "../policy-cache.ts";
import { familyRoutes } from "./family.ts";

/** Names of those who ask are kept up to this length. */
const MAX_NAME = 200;

/** Stores the one job of a request, within the quota; as a child of this attempt, if there is one. */
export type SubmitOne = (call: Call, parent?: SubmitItem["parent"]) => Promise<JsonText>;

export function submitRoutes(parts: ServerParts): Handlers {
  const { engine, log, limits } = parts;
  const policies = new PolicyCache();

  async function submitOne(call: Call, parent: SubmitItem["parent"] = null): Promise<JsonText> {
    try {
      const item = toItem(call, call.body, call.text, policies);
      if (parent !== null) item.parent = parent;
      const [answer] = (await storeItems(parts, call, [item])) as [SubmitAnswer];
      if (answer.status !== "ok") throw answer.error;
      return new JsonText(JSON.stringify(submitted(answer)), answer.created ? 201 : 200);
    } catch (error) {
      throw inWireWords(error, "");
    }
  }

  function toItem(call: Call, request: unknown, text: string, known: Pick<PolicyCache, "of">): Mutable<SubmitItem> {
    if (!isPlain(request)) throw new ConfigError({ path: "submit", given: request, allowed: "an object" });
    const { kind, input, retry, ...options } = request as JobRequest;
    checkKeys(options, OPTION_KEYS, "submit");
    checkBuiltinKind(kind, input, options.upload);
    const payload = sliceOf(text, "input") ?? NO_INPUT;
    const { namespace } = call;
    const policy = retry === undefined ? {} : { policy: known.of(retry), retry: retry as PolicyInput };
    const item: Mutable<SubmitItem> = toSubmitItem({
      ...{ kind, payload, namespace, ...policy },
      options: options as SubmitOptions, // durations are checked there
    });
    item.by = principal(call);
    // What a job submits with its own token is its child, while this attempt of it runs.
    const { job } = call.who;
    if (job === undefined) {
      item.token = call.who.id;
      return item;
    }
    if (item.parent != null && item.parent.id !== job.id) {
      const allowed = `${job.id}, or nothing: with its own token a job submits children of its own`;
      throw new ConfigError({ path: "submit.parent", given: item.parent.id, allowed });
    }
    item.parent = job;
    return item;
  }

  return {
    ...familyRoutes(parts, submitOne),

    submitJob: (call) => submitOne(call),

    async submitJobs(call) {
      const { jobs } = call.body as { readonly jobs: readonly unknown[] };
      const texts = slicesOf(call.text, "jobs") ?? [];
      const answers: object[] = new Array(jobs.length);
      const items: SubmitItem[] = [];
      const places: number[] = [];
      const known = new RequestPolicies(policies, limits.policiesPerRequest);
      const slices = new Slices(engine.clock);
      for (let i = 0; i < jobs.length; i++) {
        if (slices.isOver) {
          await slices.next();
          // Nobody waits for the answer any more, and nothing is stored yet.
          if (call.reply.raw.closed) throw new PerdureError("closed", "the client has closed the connection");
        }
        try {
          items.push(toItem(call, jobs[i], texts[i] as string, known));
          places.push(i);
        } catch (error) {
          if (!(error instanceof PerdureError)) throw error;
          answers[i] = refusal(error, i);
        }
      }
      const stored = items.length === 0 ? [] : await storeItems(parts, call, items);
      stored.forEach((answer, k) => {
        const i = places[k] as number;
        answers[i] = answer.status === "ok" ? submitted(answer) : refusal(answer.error, i);
      });
      return new JsonText(JSON.stringify({ answers }));
    },
  };

  function refusal(error: PerdureError, place: number): object {
    const { code, message, path } = inWireWords(error, `jobs[${place}]`) as PerdureError;
    if (statusOf(code) < 500 && code !== "store_refused") return { error: { code, message, path } };
    // The words of a database may name its tables, files and hosts.
    if (!engine.storeState.failed(error, "requests")) {
      log("error", "a job of a list could not be stored", { code, error: message });
    }
    return { error: { code, message: ERROR_CODES[code], path: null } };
  }
}

/** One for all routes of a server: calls at the same time count each other's lanes. */
const quotas = new WeakMap<ServerParts, LaneQuota>();

/** Stores jobs within the quota of whoever asks. Workers may publish queues for kinds: these count, and so they are filled in
 *  before. */
export async function storeItems(
  parts: ServerParts,
  call: Call,
  items: readonly SubmitItem[],
): Promise<SubmitAnswer[]> {
  const { engine, limits } = parts;
  const quota = quotas.get(parts) ?? new LaneQuota({ store: engine.store, clock: engine.clock, limits });
  quotas.set(parts, quota);
  await engine.fillDefaults(items);
  const owner = tokenOwner(call.who.id, principal(call));
  return quota.submit(items, owner, (admitted) => engine.submit(admitted));
}

const OPTION_KEYS = [
  ...["key", "queue", "priority", "delay", "runAt", "tags", "timeout", "expireIn", "deadline", "labels"],
  ...["resources", "annotations", "parent", "upload", "name", "sources"],
];

function submitted({ id, created, chapter, state }: SubmitAnswer & { readonly status: "ok" }): Submitted {
  return { id, created, chapter, state };
}

/** Who asks, as events tell it. */
export function principal({ who }: Call): string {
  return storable(`${who.job === undefined ? "token" : "job"}:${who.name}`, MAX_NAME);
}

/** Where a caller of the library says `submit.tags` or `payload`, one of the wire says `tags` and `input`, after the place
 *  in its list. */
export function inWireWords(error: unknown, place: string): unknown {
  if (!(error instanceof PerdureError) || error.path === null) return error;
  const { code, path, message } = error;
  const field = path
    .replace(/^(submit|jobs|redrive|redriveMany)(\.|$)/, "")
    .replace(/^(payload|exec|http)(?=[.[]|$)/, "input");
  const named = field === "" || place === "" || field.startsWith("[") ? place + field : `${place}.${field}`;
  const rest = message.startsWith(path) ? message.slice(path.length).replace(/^: /, "") : message;
  const words = named === "" ? rest : `${named}: ${rest}`;
  return new PerdureError(code, words, { ...(named === "" ? {} : { path: named }), cause: error });
}
