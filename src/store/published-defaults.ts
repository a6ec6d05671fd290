/** The task defaults that sessions publish, read back. */
import type { TaskOptions } from "../core/task/task.ts";
import type { PublishedDefaults } from "./port/sessions.ts";

/** How many of the newest sessions are searched. */
export const NEWEST_SESSIONS = 1_000;

export interface PublishedRow {
  readonly session: string;
  readonly worker: string;
  /** JSON, by kind. */
  readonly defaults: string;
}

export function toPublished(row: PublishedRow | undefined, kind: string): PublishedDefaults | null {
  if (row === undefined) return null;
  const all = JSON.parse(row.defaults) as Readonly<Record<string, TaskOptions>>;
  return {
    session: row.session,
    worker: row.worker,
    options: Object.hasOwn(all, kind) ? (all[kind] as TaskOptions) : {},
  };
}
