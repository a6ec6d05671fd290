/** A job as NoETL's step: name, type and retries, stored in annotations. A job that is not from a NoETL file has its
 *  kind as name, and the retries of its policy. */
import { isPlain } from "../../core/check.ts";
import type { JobInfo } from "../../core/job/views.ts";
import { type NoetlRetry, retryOfPolicy } from "./retry.ts";

export const NODE_TYPES = ["http", "shell", "python"] as const;
export type NodeType = (typeof NODE_TYPES)[number];

/** The annotation with the name of the step. */
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

/** A step's name is its id. */
export function nodeOf({ kind, annotations }: JobInfo): NoetlNode {
  const step = annotations[NAMES.step] ?? kind;
  const type = annotations[NAMES.type] ?? (kind === "exec" ? "shell" : kind);
  return { node_id: step, node_name: step, node_type: type };
}

/** As written, with defaults; null without a retry. */
export function retryOf({ annotations, policy }: JobInfo): Partial<NoetlRetry> | null {
  if (annotations[NAMES.step] === undefined) return retryOfPolicy(policy);
  const text = annotations[NAMES.retry];
  if (text === undefined) return null;
  try {
    const value: unknown = JSON.parse(text);
    return isPlain(value) ? value : retryOfPolicy(policy);
  } catch {
    return retryOfPolicy(policy); // annotations are not checked at submit
  }
}
