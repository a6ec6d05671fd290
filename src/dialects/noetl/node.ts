/** What a job of ours is in NoETL's words: a step with a name, a type and its retries. It is kept in annotations, which a
 *  job that came by another door does not have: then the job's kind is its name, and its policy tells of its retries. */
import { isPlain } from "../../core/check.ts";
import type { JobEvent } from "../../core/event.ts";
import type { JobInfo } from "../../core/views.ts";
import { type NoetlRetry, retryOfPolicy } from "./retry.ts";

export const NODE_TYPES = ["http", "shell", "python"] as const;
export type NodeType = (typeof NODE_TYPES)[number];

const NAMES = {
  step: "noetl/step",
  type: "noetl/type",
  retry: "noetl/retry",
  playbook: "noetl/playbook",
  desc: "noetl/desc",
} as const;

export interface NoetlStep {
  readonly step: string;
  readonly type: NodeType;
  readonly retry: NoetlRetry | null;
  readonly playbook: string | null;
  readonly desc: string | null;
}

export function noetlAnnotations({ step, type, retry, playbook, desc }: NoetlStep): Readonly<Record<string, string>> {
  return {
    [NAMES.step]: step,
    [NAMES.type]: type,
    ...(retry === null ? {} : { [NAMES.retry]: JSON.stringify(retry) }),
    ...(playbook === null ? {} : { [NAMES.playbook]: playbook }),
    ...(desc === null ? {} : { [NAMES.desc]: desc }),
  };
}

export interface NoetlNode {
  readonly node_id: string;
  readonly node_name: string;
  readonly node_type: string;
}

/** A step has one name, and it is its id. */
export function nodeOf({ kind, annotations }: JobInfo): NoetlNode {
  const step = annotations[NAMES.step] ?? kind;
  const type = annotations[NAMES.type] ?? (kind === "exec" ? "shell" : kind);
  return { node_id: step, node_name: step, node_type: type };
}

/** As written, with its defaults; null where no retry was asked for. */
export function retryOf({ annotations, policy }: JobInfo): Partial<NoetlRetry> | null {
  if (annotations[NAMES.step] === undefined) return retryOfPolicy(policy);
  const text = annotations[NAMES.retry];
  if (text === undefined) return null;
  try {
    const value: unknown = JSON.parse(text);
    return isPlain(value) ? value : retryOfPolicy(policy);
  } catch {
    return retryOfPolicy(policy); // anyone may give annotations
  }
}

export interface Counted {
  readonly event: JobEvent;
  /** The run that it tells of, among those that are charged, from 1. */
  readonly attempt: number;
  /** The run that would come after it. */
  readonly next: number;
  readonly chapter: number;
}

/** Numbers the runs as `max_attempts` counts them: a run that was handed back, or that waits for others, is not charged and
 *  keeps its number when it comes again; a redrive begins at 1. Our own number of the attempt counts all of them. */
export function counted(events: readonly JobEvent[]): Counted[] {
  let failures = 0;
  let losses = 0;
  let chapter = 1;
  return events.map((event) => {
    const attempt = failures + losses + 1;
    if (event.name === "job.redriven") {
      failures = 0;
      losses = 0;
      chapter += 1;
    } else if ("counters" in event.data) {
      failures = event.data.counters?.failures ?? failures;
      losses = event.data.counters?.losses ?? losses;
    }
    return { event, attempt, next: failures + losses + 1, chapter };
  });
}
