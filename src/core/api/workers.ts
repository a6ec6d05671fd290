/** Workers in the library's API. */

import { asBoolean, checkOptions } from "../check.ts";
import { type Duration, toMs } from "../duration.ts";
import type { SessionRow } from "../job/views.ts";
import type { AnyTask } from "../task/task.ts";
import type { StopOptions, WorkerHandle, WorkOptions } from "../task/work-options.ts";
import type { PageOptions } from "./queues.ts";

export interface WorkersApi {
  /** Workers that are alive or ended recently; reads all, a page at a time. Where there are very many, pass a page: it holds up
   *  to 200 after the session named. */
  workers(page?: PageOptions): Promise<SessionRow[]>;
  /** Drains a worker, by its session: it claims no more jobs, and those it runs continue. */
  drain(session: string): Promise<void>;
  /** Starts a worker in this process for these tasks. */
  work(tasks: readonly AnyTask[], options?: WorkOptions): Promise<WorkerHandle>;
}

const DEFAULT_GRACE = "30s";

/** `force` ends what runs without any grace period. */
export function checkStop(options: StopOptions): { readonly graceMs: number; readonly force: boolean } {
  checkOptions(options, ["grace", "force"], "stop");
  const force = asBoolean(options.force ?? false, "stop.force");
  return { graceMs: toMs(options.grace ?? DEFAULT_GRACE, "stop.grace"), force };
}

export function checkGrace(options: { grace?: Duration }, path: string): number {
  checkOptions(options, ["grace"], path);
  return toMs(options.grace ?? DEFAULT_GRACE, `${path}.grace`);
}
