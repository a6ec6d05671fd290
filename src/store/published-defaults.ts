/** What a session publishes of its tasks, read back. */
import type { TaskOptions } from "../core/task.ts";

/** Of a session; empty where its task has no defaults. */
export interface PublishedDefaults {
  readonly session: string;
  readonly worker: string;
  readonly options: TaskOptions;
}

/** Of more than these, older ones are not asked. */
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
