/** Submits jobs. Everything is checked here: what passes can be stored, and a bad item of a list never affects its
 *  neighbours. */
import { createHash } from "node:crypto";
import { ConfigError, type ErrorCode, PerdureError, show } from "../core/errors.ts";
import { RESOURCE_PREFIX } from "../core/input/resources.ts";
import { actionName, rowName } from "../core/job/job-name.ts";
import { DEFAULT_PRIORITY, NO_LABELS, submitJob } from "../core/job/lifecycle.ts";
import { checkedName } from "../core/names.ts";
import { RUN_KIND } from "../core/playbook/playbook.ts";
import { nextTurn } from "../lib/clock.ts";
import { jsonDepth } from "../lib/json-text.ts";
import { isOver } from "../lib/text.ts";
import type { InsertAnswer, NewJob, TransactionClient } from "../store/store.ts";
import { redriveChildren } from "./children/cascade.ts";
import {
  type Parents,
  parentFacts,
  parentsOf,
  refuseChild,
  refuseChildKey,
  storedKey,
} from "./children/child-rules.ts";
import { toEngineTime } from "./command.ts";
import { LIMITS } from "./limits.ts";
import { notifyObserver, type ObservedJob, observed } from "./observer.ts";
import type { EngineParts } from "./parts.ts";
import { policyHash } from "./policy-hash.ts";
import type { SubmitAnswer, SubmitItem } from "./submit-item.ts";
import { checkUpload, dropUploads } from "./upload.ts";

/** Stores the items in lists of bounded length, so that a long one blocks neither this event loop nor the write lock; a
 *  store outside this process stores one list while the next is made. If some lists cannot be stored, each of their items
 *  is refused; the other lists are stored. */
export async function submit(
  parts: EngineParts,
  items: readonly SubmitItem[],
  client?: TransactionClient,
): Promise<SubmitAnswer[]> {
  if (client !== undefined) for (const item of items) refuseChild(item);
  await parts.defaults.fill(items);
  const { together, beside } = parts.store.lists;
  if (items.length <= together || client !== undefined) {
    return submitList(parts, items, await parentsOf(parts, items), client);
  }
  // Once for all lists: they share the number of children that a parent may still have.
  const parents = await parentsOf(parts, items);
  const lists: (readonly SubmitItem[])[] = [];
  for (let from = 0; from < items.length; from += together) lists.push(items.slice(from, from + together));
  const results: Promise<PromiseSettledResult<SubmitAnswer[]>>[] = [];
  for (const list of lists) {
    const result = Promise.allSettled([submitList(parts, list, parents)]).then(([one]) => one);
    results.push(result);
    if (beside)
      await nextTurn(parts.clock); // lets the statement go out
    else if ((await result).status === "rejected" && results.length === 1) break;
  }
  return joined(lists, await Promise.all(results));
}

function joined(
  lists: readonly (readonly SubmitItem[])[],
  results: readonly PromiseSettledResult<SubmitAnswer[]>[],
): SubmitAnswer[] {
  const failed = results.find((result) => result.status === "rejected");
  if (failed !== undefined && (!results.some(isFulfilled) || !(failed.reason instanceof PerdureError))) {
    throw failed.reason;
  }
  return results.flatMap((result, i): SubmitAnswer[] => {
    if (isFulfilled(result)) return result.value;
    const error = result.reason as PerdureError;
    return (lists[i] as readonly SubmitItem[]).map(() => ({ status: "refused", error }));
  });
}

function isFulfilled<T>(result: PromiseSettledResult<T>): result is PromiseFulfilledResult<T> {
  return result.status === "fulfilled";
}

async function submitList(
  parts: EngineParts,
  items: readonly SubmitItem[],
  parents: Parents | null,
  client?: TransactionClient,
): Promise<SubmitAnswer[]> {
  const now = parts.clock.now();
  const answers: SubmitAnswer[] = new Array(items.length);
  const jobs: NewJob[] = [];
  const places: number[] = [];
  const uploads = await refusedUploads(parts, items);
  items.forEach((item, i) => {
    try {
      const refusal = uploads?.get(i);
      if (refusal !== undefined) throw refusal;
      if (item.kind === RUN_KIND) throw reservedKind();
      jobs.push(newJob(parts, item, now, parents));
      places.push(i);
    } catch (error) {
      if (!(error instanceof PerdureError)) throw error;
      answers[i] = { status: "refused", error };
    }
  });
  const stored =
    client === undefined
      ? await observed(parts, "submit", jobs.length, () => parts.store.insert(jobs, now))
      : await within(parts, client, jobs, now);
  let inserted = false;
  const badly: number[] = [];
  const unused: string[] = [];
  stored.forEach((answer, k) => {
    const i = places[k] as number;
    const upload = items[i]?.upload;
    // The key belongs to another job: the upload is not needed. Refused for any other reason it is kept for another submit.
    const isNamed = answer.status === "exists" || answer.status === "conflict";
    if (upload !== undefined && isNamed && answer.id !== upload) unused.push(upload);
    if (answer.status === "inserted") {
      inserted = true;
      answers[i] = { status: "ok", id: answer.id, created: true, chapter: 1, state: "queued" };
    } else if (answer.status === "exists") {
      const { id, chapter, state } = answer;
      answers[i] = { status: "ok", id, created: false, chapter, state };
      const isBad = state === "failed" || state === "cancelled";
      if (isBad && items[i]?.parent?.attempt != null) badly.push(i);
    } else if (answer.status === "conflict") {
      const message = `the key ${show(items[i]?.key)} belongs to ${answer.id}, which has another kind, queue or payload; use another key`;
      answers[i] = refused("key_conflict", message);
    } else {
      answers[i] = refused(answer.code, answer.message);
    }
  });
  // Within a caller's transaction it is unknown which jobs will exist: the pruner removes the upload.
  if (unused.length > 0 && client === undefined) await dropUploads(parts, unused);
  // Within a caller's transaction the jobs do not exist yet: its commit wakes waiting callers.
  if (inserted && client === undefined) {
    parts.hub.ready.fire();
    parts.hub.written.fire();
    notifyObserver(parts, (observer) => observer.submitted?.(newJobs(jobs, stored)));
  }
  for (const i of badly) answers[i] = await afterRedrive(parts, items[i] as SubmitItem, answers[i] as SubmitAnswer);
  return answers;
}

/** Its jobs are runs, which have a definition. */
function reservedKind(): ConfigError {
  const problem = `${show(RUN_KIND)} is reserved for runs of playbooks`;
  return new ConfigError({ path: "kind", given: RUN_KIND, problem, fix: "start a run, or use another kind" });
}

function newJobs(jobs: readonly NewJob[], stored: readonly InsertAnswer[]): ObservedJob[] {
  return jobs.flatMap(({ id, namespace, queue, kind }, i) =>
    stored[i]?.status === "inserted" ? [{ id, namespace, queue, kind }] : [],
  );
}

/** Uploads that do not match their items, by the index of the item; null if there are no uploads. */
async function refusedUploads(
  parts: EngineParts,
  items: readonly SubmitItem[],
): Promise<ReadonlyMap<number, PerdureError> | null> {
  if (!items.some(({ upload }) => upload !== undefined)) return null;
  const refusals = new Map<number, PerdureError>();
  for (const [i, { upload, payload, namespace = "default", parent, ...item }] of items.entries()) {
    if (upload === undefined) continue;
    const key = storedKey({ ...item, parent: parent ?? null });
    try {
      await checkUpload(parts, { upload, payload, namespace, key });
    } catch (error) {
      if (!(error instanceof PerdureError)) throw error;
      refusals.set(i, error);
    }
  }
  return refusals;
}

/** A child that had failed or was cancelled, submitted again by a later attempt of its parent. */
async function afterRedrive(parts: EngineParts, { parent }: SubmitItem, answer: SubmitAnswer): Promise<SubmitAnswer> {
  if (answer.status !== "ok" || parent?.attempt == null) return answer;
  if (!(await redriveChildren(parts, { jobId: parent.id, attempt: parent.attempt }, [answer]))) return answer;
  const [row] = await parts.store.jobs([answer.id]);
  return row == null ? answer : { ...answer, state: row.state, chapter: row.chapter };
}

/** Within the caller's transaction. */
async function within(parts: EngineParts, client: TransactionClient, jobs: readonly NewJob[], now: number) {
  const { store } = parts;
  if (store.insertWithin === undefined) {
    const problem = "requires PostgreSQL: jobs in SQLite are not in your database";
    throw new ConfigError({ path: "submit.client", given: "a client", problem });
  }
  const answers: InsertAnswer[] = [];
  const { together } = store.lists;
  for (let from = 0; from < jobs.length; from += together) {
    answers.push(...(await store.insertWithin(client, jobs.slice(from, from + together), now)));
  }
  return answers;
}

function refused(code: ErrorCode, message: string): SubmitAnswer {
  return { status: "refused", error: new PerdureError(code, message) };
}

export function newJob(parts: EngineParts, item: SubmitItem, now: number, parents: Parents | null): NewJob {
  const namespace = checkedName(item.namespace ?? "default", "namespace");
  const queue = checkedName(item.queue ?? "default", "queue");
  const kind = checkedName(item.kind, "kind");
  const payload = checkedPayload(item.payload);
  const given = item.key ?? null;
  if (given !== null) checkedName(given, "key", LIMITS.key);
  const parent = item.parent ?? null;
  const above = parent === null ? null : parentFacts(parent.id, { key: given, namespace }, parents);
  if (given !== null && (parent === null || item.isWideKey === true)) refuseChildKey(given);
  const key = storedKey(item);
  const labels = item.labels ?? NO_LABELS;
  if (labels !== NO_LABELS) checkLabels(labels);
  const tags = checkedTags(item.tags ?? NO_TAGS);
  const runAt = item.runAt !== undefined ? wallInstant(parts, item.runAt, "runAt") : now + (item.delayMs ?? 0);
  const expireInMs = item.expireInMs ?? null;
  const priority = checkedPriority(item.priority ?? DEFAULT_PRIORITY);
  const timeoutMs = item.timeoutMs ?? null;
  const deadlineAt = item.deadlineAt == null ? null : wallInstant(parts, item.deadlineAt, "deadline");
  // No spreads: V8 is two hundred times slower when fields are added to a spread object.
  const terms = {
    kind,
    queue,
    namespace,
    runAt,
    expireInMs,
    policy: item.policy,
    labels,
    priority,
    timeoutMs,
    deadlineAt,
    parentId: parent === null ? null : parent.id,
    sources: item.sources ?? null,
    token: item.token ?? null,
  };
  return {
    id: item.upload ?? parts.newId("job"),
    namespace,
    queue,
    kind,
    labels,
    priority,
    runAt,
    timeoutMs,
    expireInMs,
    deadlineAt,
    policy: item.policy,
    key,
    bodyHash: key === null ? null : bodyHashes(item, queue),
    tags,
    payload,
    policyHash: policyHash(item.policy),
    owner: item.owner ?? null,
    transition: submitJob(terms, now, item.by == null ? null : checkedName(item.by, "by")),
    parent,
    depth: above === null ? 0 : above.depth + 1,
    annotations: item.annotations === undefined ? null : annotationText(item.annotations),
    name: item.name === undefined ? storedName(kind, item.annotations, payload) : checkedName(item.name, "name"),
    action: item.annotations === undefined ? null : actionName(item.annotations),
  };
}

/** The name made for a job without one, so that it can be searched for. Null if that is its kind. */
function storedName(kind: string, annotations: SubmitItem["annotations"], payload: string): string | null {
  const isBuiltin = kind === "exec" || kind === "http";
  if (!isBuiltin && annotations === undefined) return null;
  const made = rowName({ name: null, kind, annotations: annotations ?? {}, payload });
  return made === kind ? null : made;
}

/** Null without annotations. */
function annotationText(annotations: Readonly<Record<string, string>>): string | null {
  const entries = Object.entries(annotations);
  if (entries.length === 0) return null;
  if (entries.length > LIMITS.annotations) {
    const allowed = `at most ${LIMITS.annotations} annotations`;
    throw new ConfigError({ path: "annotations", given: entries.length, allowed });
  }
  for (const [label, value] of entries) {
    checkedName(label, "annotations");
    if (typeof value !== "string" || !value.isWellFormed() || value.includes("\0")) {
      const allowed = "text, well-formed and without NUL";
      throw new ConfigError({ path: `annotations.${label}`, given: value, allowed });
    }
  }
  const text = JSON.stringify(Object.fromEntries(entries));
  if (!isOver(text, LIMITS.annotationBytes)) return text;
  const allowed = `at most ${LIMITS.annotationBytes} bytes in all`;
  throw new ConfigError({ path: "annotations", given: null, allowed, shown: "more" });
}

const NO_TAGS: readonly string[] = Object.freeze([]);

function checkedPriority(value: number): number {
  if (Number.isInteger(value) && value >= 0 && value <= 9) return value;
  throw new ConfigError({ path: "priority", given: value, allowed: "a whole number from 0 (first) to 9" });
}

/** Converts an instant by the wall clock to the engine's clock. */
function wallInstant({ clock }: EngineParts, value: number, path: string): number {
  if (Number.isFinite(value) && value >= 0 && value <= 8.64e15) return toEngineTime(clock, Math.round(value));
  throw new ConfigError({ path, given: value, allowed: "an instant: a Date, or milliseconds since 1970 (UTC)" });
}

function checkLabels(labels: Readonly<Record<string, string>>): void {
  const entries = Object.entries(labels);
  // Resources are stored as labels, but do not count as such.
  const count = entries.filter(([label]) => !label.startsWith(RESOURCE_PREFIX)).length;
  if (count > LIMITS.labels) {
    throw new ConfigError({ path: "labels", given: count, allowed: `at most ${LIMITS.labels} labels` });
  }
  for (const [label, value] of entries) {
    checkedName(label, "labels");
    checkedName(value, `labels.${label}`);
  }
}

function checkedTags(tags: readonly string[]): readonly string[] {
  if (tags.length === 0) return NO_TAGS;
  if (tags.length > LIMITS.tags) {
    throw new ConfigError({ path: "tags", given: tags.length, allowed: `at most ${LIMITS.tags} tags` });
  }
  return [...new Set(tags.map((tag, i) => checkedName(tag, `tags[${i}]`)))];
}

export function checkedPayload(payload: string): string {
  if (isOver(payload, LIMITS.payloadBytes)) {
    const message = `payload: over the limit of ${LIMITS.payloadBytes} bytes; store the data elsewhere and submit its address`;
    throw new PerdureError("invalid_payload", message, { path: "payload" });
  }
  // Neither can be stored byte for byte; JSON has escapes for both.
  if (!payload.isWellFormed() || payload.includes("\0")) {
    const message = "payload: not JSON: contains an unescaped NUL or half of a surrogate pair";
    throw new PerdureError("invalid_payload", message, { path: "payload" });
  }
  if (payload.length > LIMITS.jsonDepth && jsonDepth(payload) > LIMITS.jsonDepth) {
    const message = `payload: nested more than ${LIMITS.jsonDepth} levels deep`;
    throw new PerdureError("invalid_payload", message, { path: "payload" });
  }
  return payload;
}

/** What a later submit with its key is compared with: see `isSameBody`. */
function bodyHashes({ kind, payload, openQueue = false }: SubmitItem, queue: string): string {
  const own = bodyHash(kind, queue, payload);
  return openQueue && queue !== "default" ? `${bodyHash(kind, "default", payload)} ${own}` : own;
}

function bodyHash(kind: string, queue: string, payload: string): string {
  return createHash("sha256")
    .update(JSON.stringify([kind, queue]))
    .update(payload)
    .digest("base64url");
}
