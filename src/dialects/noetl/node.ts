/** What a job of ours is for NoETL: a step with a name, a type and its retries. It is kept in annotations, which a job that was
 *  not submitted as a NoETL file does not have: then the job's kind is its name, and its retries are those of its policy. */
import { isPlain } from "../../core/check.ts";
import type { JobInfo } from "../../core/job/views.ts";
import { type NoetlRetry, retryOfPolicy } from "./retry.ts";

export const NODE_TYPES = ["http", "shell", "python"] as const;
export type NodeType = (typeof NODE_TYPES)[number];

/** The annotation that holds the name of the step. */
export const STEP = "noetl/step";

const NAMES = {
  step: STEP,
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
