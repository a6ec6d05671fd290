/** Jobs of fluster's clients on this server: launch, find, list and terminate. */

import { createHash } from "node:crypto";
import type { Mutable } from "../../../core/check.ts";
import { PerdureError } from "../../../core/errors.ts";
import type { ExecInput } from "../../../core/input/exec-input.ts";
import { isTerminal } from "../../../core/job/job.ts";
import { NO_INPUT } from "../../../core/worker-protocol.ts";
import { checkBuiltinKind } from "../../../engine/check-builtin.ts";
import type { Engine } from "../../../engine/engine.ts";
import { LIMITS } from "../../../engine/limits.ts";
import { toInfo } from "../../../engine/read-job.ts";
import type { SubmitItem } from "../../../engine/submit-item.ts";
import { toSubmitItem } from "../../../engine/submit-item.ts";
import { nextTurn } from "../../../lib/clock.ts";
import { isId } from "../../../lib/id.ts";
import { isOver } from "../../../lib/text.ts";
import type { RouteCall, ServerParts } from "../../../server/context.ts";
import { principal, storeItems } from "../../../server/routes/submit.ts";
import { viewParts } from "../../../server/views.ts";
import type { JobRow } from "../../../store/store.ts";
import type { ViewParts } from "../../dialect.ts";
import { VIEWED_EVENTS } from "../../read-view.ts";
import { FLUSTER_PARENT, type FlusterLaunch, flusterJobId, jobStatusJson, readLaunch } from "../controller.ts";
import { FLUSTER_TAG, flusterIdTag, flusterStatus, isFlusterId } from "../view.ts";

// Finds jobs by the names that fluster's clients gave them, or by Perdure's ids. A job of another namespace is answered
// like one that does not exist.

/** The limit of a list: the newest. */
const MAX_LISTED = 1_000;
/** A row may hold two megabytes, of which little is shown, so only this many are read at a time. */
const PAGE = 40;
const CHILDREN_PAGE = 100;

export class FlusterJobs {
  readonly #engine: Engine;

  constructor(engine: Engine) {
    this.#engine = engine;
  }

  /** Null if there is none. If several jobs had the name, the newest. */
  async find(namespace: string, id: string): Promise<JobRow | null> {
    const { store } = this.#engine;
    if (isId(id, "job")) {
      const [row = null] = await store.jobs([id]);
      return row?.namespace === namespace ? row : null;
    }
    if (!isFlusterId(id)) return null;
    const { jobs } = await store.find({ namespace, tag: flusterIdTag(id), order: "newest", limit: 1 });
    const [row = null] = jobs;
    // Any job can have such a tag, so the annotation is checked too.
    return row !== null && flusterJobId(toInfo(row)) === id ? row : null;
  }

  async get(namespace: string, id: string): Promise<JobRow> {
    const row = await this.find(namespace, id);
    if (row !== null) return row;
    throw new PerdureError("job_not_found", `Job ${JSON.stringify(id.slice(0, 200)).slice(1, -1)} not found`);
  }

  async status(row: JobRow): Promise<object> {
    if (row.revision <= VIEWED_EVENTS) return this.#shown(row, await viewParts({ engine: this.#engine }, row));
    const message = `It has ${row.revision} events: its attempts are not listed here; perdure get shows them.`;
    return this.#shown(row, await this.#rowAlone(row), message);
  }

  /** Newest first, without their attempts. */
  async list(namespace: string): Promise<object[]> {
    const { store } = this.#engine;
    const shown: object[] = [];
    let cursor: string | null = null;
    do {
      const from: { cursor?: string } = cursor === null ? {} : { cursor };
      const limit = Math.min(PAGE, MAX_LISTED - shown.length);
      const page = await store.find({ namespace, tag: FLUSTER_TAG, order: "newest", limit, ...from });
      for (const row of page.jobs) {
        const isLong = row.revision > VIEWED_EVENTS;
        const parts =
          needsEvents(row) && !isLong ? await viewParts({ engine: this.#engine }, row) : await this.#rowAlone(row);
        shown.push(jobStatusJson({ ...flusterStatus(parts), attempts: [] }, parts.job));
      }
      cursor = page.next;
      await nextTurn(this.#engine.clock); // let other work run
    } while (cursor !== null && shown.length < MAX_LISTED);
    return shown;
  }

  /** Kills a job and its descendants. An ended job stays unchanged, but its running descendants are killed. */
  async terminate(row: JobRow, by: string): Promise<void> {
    await this.#engine.command(row.id, { kind: "cancel", by });
    if (!isTerminal(row.state)) return; // the engine cancels descendants
    let cursor: string | null = null;
    do {
      const from: { cursor?: string } = cursor === null ? {} : { cursor };
      const page = await this.#engine.store.find({ parentId: row.id, limit: CHILDREN_PAGE, ...from });
      for (const child of page.jobs) await this.terminate(child, by);
      cursor = page.next;
      await nextTurn(this.#engine.clock);
    } while (cursor !== null);
  }

  #shown(row: JobRow, parts: ViewParts, message: string | null = null): object {
    return jobStatusJson(flusterStatus(parts), toInfo(row), message);
  }

  /** From the row alone, if its events are not needed or are too many. */
  async #rowAlone(row: JobRow): Promise<ViewParts> {
    const names = row.worker === null ? new Map() : await this.#engine.store.sessions.names([row.worker]);
    const workerName = (session: string): string | null => names.get(session) ?? null;
    return { job: toInfo(row), attempts: [], events: [], workerName, now: this.#engine.clock.now() };
  }
}

/** Whether a list needs its events and attempts: it failed, was cancelled, or failed before. */
function needsEvents({ state, chapter, failures, losses }: JobRow): boolean {
  return chapter > 1 || failures > 0 || losses > 0 || state === "failed" || state === "cancelled";
}

// `LaunchJob` stores a job under the client's name, which can be used once. A client that repeats a call gets
// `already_exists`, as from fluster's own controller.

export async function launchJob(
  parts: ServerParts,
  jobs: FlusterJobs,
  call: RouteCall,
): Promise<{ readonly jobId: string }> {
  const launch = readLaunch(call.body, parts.dialects.fluster);
  const { name, parent: parentId } = launch;
  // The key decides which of several launches is stored. This check saves most repeats the upload of their bundle.
  if ((await jobs.find(call.namespace, name)) !== null) throw alreadyExists(name);
  const parent = parentId === null ? null : await jobs.get(call.namespace, parentId);
  const [answer] = await storeItems(parts, call, [await itemOf(parts, call, launch, parent)]);
  if (answer?.status === "ok" && answer.created) return { jobId: name };
  if (answer?.status !== "refused" || answer.error.code === "key_conflict") throw alreadyExists(name);
  throw answer.error;
}

async function itemOf(parts: ServerParts, call: RouteCall, { job, bundle }: FlusterLaunch, parent: JobRow | null) {
  const upload = bundle === null ? null : await uploaded(parts, Buffer.from(bundle, "base64"));
  const { task: kind, options = {} } = job;
  const input =
    upload === null ? job.input : ({ ...(job.input as ExecInput), stdinFile: upload.stdinFile } as ExecInput);
  const required = checkBuiltinKind(kind, input, upload?.id);
  const payload = input === undefined ? NO_INPUT : JSON.stringify(input);
  if (isOver(payload, LIMITS.payloadBytes)) throw tooLarge();
  const item: Mutable<SubmitItem> = toSubmitItem({
    ...{ kind, payload, namespace: call.namespace, required },
    options: {
      ...options,
      ...(upload === null ? {} : { upload: upload.id }),
      ...(parent === null ? {} : { parent: parent.id }),
      annotations: {
        ...options.annotations,
        ...(parent === null ? {} : { [FLUSTER_PARENT]: flusterJobId(toInfo(parent)) }),
      },
    },
  });
  item.by = principal(call);
  item.token = call.who.id;
  item.isWideKey = true; // one name is one job, under any parent
  return item;
}

/** Stored under the future job's id. A file that no job refers to is removed later. */
async function uploaded({ engine }: ServerParts, bytes: Buffer) {
  const id = engine.newUpload();
  await engine.writeUpload(id, 0, once(bytes), bytes.length);
  const sha256 = createHash("sha256").update(bytes).digest("hex");
  return { id, stdinFile: { bytes: bytes.length, sha256 } };
}

async function* once(bytes: Buffer): AsyncGenerator<Uint8Array> {
  yield bytes;
}

function alreadyExists(name: string): PerdureError {
  return new PerdureError("key_conflict", `Job ${name} already exists`, { path: "name" });
}

function tooLarge(): PerdureError {
  const limit = `serialized_entrypoint and everything stored with it may have ${LIMITS.payloadBytes} bytes in base64`;
  const message = `${limit}; put large values into bundle_blob, or store them where the worker can read them`;
  return new PerdureError("body_too_large", message, { path: "serialized_entrypoint" });
}
