/** Jobs out of the store, as fluster's clients know them: by the names that they gave them, or by our ids. One of another
 *  namespace is answered exactly as one that does not exist. */
import { PerdureError } from "../../core/errors.ts";
import { isTerminal } from "../../core/job.ts";
import type { ViewParts } from "../../dialects/dialect.ts";
import { flusterJobId, jobStatusJson } from "../../dialects/fluster/controller.ts";
import { flusterIdTag, isFlusterId } from "../../dialects/fluster/job-key.ts";
import { FLUSTER_TAG, flusterStatus } from "../../dialects/fluster/view.ts";
import { VIEWED_EVENTS } from "../../dialects/read-parts.ts";
import type { Engine } from "../../engine/engine.ts";
import { toInfo } from "../../engine/job-info.ts";
import { isId } from "../../lib/id.ts";
import { nextTurn } from "../../lib/turn.ts";
import type { JobRow } from "../../store/store.ts";
import { viewParts } from "../views.ts";

/** As many as a list has at most: the newest. */
const MAX_LISTED = 1_000;
/** A row may hold two megabytes, of which little is shown: so few are read at a time. */
const PAGE = 40;
const CHILDREN_PAGE = 100;

export class FlusterJobs {
  readonly #engine: Engine;

  constructor(engine: Engine) {
    this.#engine = engine;
  }

  /** Null if there is none. Of jobs that had one name one after the other, the newest. */
  async find(namespace: string, id: string): Promise<JobRow | null> {
    const { store } = this.#engine;
    if (isId(id, "job")) {
      const [row = null] = await store.jobs([id]);
      return row?.namespace === namespace ? row : null;
    }
    if (!isFlusterId(id)) return null;
    const { jobs } = await store.find({ namespace, tag: flusterIdTag(id), order: "newest", limit: 1 });
    const [row = null] = jobs;
    // Anybody may give a job a tag, but it has its id in another place as well.
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
      await nextTurn(); // others have their turn
    } while (cursor !== null && shown.length < MAX_LISTED);
    return shown;
  }

  /** Kills a job and all below it. One that has ended stays as it is, but what it has left running does not. */
  async terminate(row: JobRow, by: string): Promise<void> {
    await this.#engine.command(row.id, { kind: "cancel", by });
    if (!isTerminal(row.state)) return; // the engine passes it on
    let cursor: string | null = null;
    do {
      const from: { cursor?: string } = cursor === null ? {} : { cursor };
      const page = await this.#engine.store.find({ parentId: row.id, limit: CHILDREN_PAGE, ...from });
      for (const child of page.jobs) await this.terminate(child, by);
      cursor = page.next;
      await nextTurn();
    } while (cursor !== null);
  }

  #shown(row: JobRow, parts: ViewParts, message: string | null = null): object {
    return jobStatusJson(flusterStatus(parts), toInfo(row), message);
  }

  /** What its row says, where its events are not needed, or are too many. */
  async #rowAlone(row: JobRow): Promise<ViewParts> {
    const names = row.worker === null ? new Map() : await this.#engine.store.workerNames([row.worker]);
    const workerName = (session: string): string | null => names.get(session) ?? null;
    return { job: toInfo(row), attempts: [], events: [], workerName, now: this.#engine.clock.now() };
  }
}

/** Whether its events and attempts show in a list: how it failed, was cancelled, or failed before. */
function needsEvents({ state, chapter, failures, losses }: JobRow): boolean {
  return chapter > 1 || failures > 0 || losses > 0 || state === "failed" || state === "cancelled";
}
