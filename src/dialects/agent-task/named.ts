/** A manifest that is applied again is the same task, by its namespace and name, as in Kubernetes. It is never updated: a job keeps
 *  what it was submitted with, so a manifest that differs is refused with what differs. */
import type { JobInfo } from "../../core/views.ts";
import type { Difference, NamedDocuments, ReadEntry } from "../dialect.ts";
import { taskDifferences } from "./differences.ts";
import { DEFAULT_NAMESPACE, taskKey } from "./task-key.ts";
import { ANNOTATION, TASK_KIND } from "./words.ts";

export const namedTasks: NamedDocuments = {
  key: ({ options }) => keyIn(options?.annotations ?? {}),
  called: (entry) => `${TASK_KIND} ${shortName(entry)}`,
  reference,
  differences: taskDifferences,
  instead,
  isNameKey: ({ annotations }, key) => key === keyIn(annotations),
};

function keyIn(annotations: JobInfo["annotations"]): string {
  return taskKey(...partsOf(annotations));
}

function partsOf(annotations: JobInfo["annotations"]): [name: string, namespace: string] {
  const { [ANNOTATION.name]: name = "", [ANNOTATION.namespace]: namespace } = annotations;
  return [name, namespace ?? DEFAULT_NAMESPACE];
}

function shortName(entry: ReadEntry): string {
  const [name, namespace] = partsOf(entry.options?.annotations ?? {});
  return namespace === DEFAULT_NAMESPACE ? name : `${namespace}/${name}`;
}

/** Its name only where that is sure to find it, and needs no quotes. */
function reference(job: JobInfo, entry: ReadEntry): string {
  const name = shortName(entry);
  return job.key === keyIn(entry.options?.annotations ?? {}) && /^[\w./-]+$/.test(name) ? name : job.id;
}

/** Which option of `perdure resubmit` changes what. */
const OPTIONS: readonly (readonly [path: RegExp, option: string])[] = [
  [/^spec\.role$/, "--role NAME"],
  [/^spec\.prompt$/, "--prompt TEXT"],
  [/^spec\.model\.name$/, "--model NAME"],
  [/^spec\.retry\.maxAttempts$/, "--max-attempts N"],
  [/^spec\.(retry\.(b|maxB)ackoffSeconds|budget\.)/, "--retry JSON"],
  [/^spec\.timeout$/, "--timeout TIME"],
  [/^spec\.env\b/, "--env NAME=VALUE"],
  [/^spec\.command\b/, "-- COMMAND"],
];

function instead(job: JobInfo | null, entry: ReadEntry, differences: readonly Difference[]): string {
  const others = "use another metadata.name or pass --key KEY";
  const options = OPTIONS.filter(([path]) => differences.some((each) => path.test(each.path))).map(([, text]) => text);
  return job === null || options.length === 0
    ? others
    : `${others}, or submit a changed copy: perdure resubmit ${reference(job, entry)} ${options.join(" ")}`;
}
