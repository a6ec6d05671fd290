/** A job as an AgentTask: metadata, spec, status and children. */

import { isPlain } from "../../core/check.ts";
import { failureText } from "../../core/decision/failure.ts";
import { CPU_LABEL, MEMORY_LABEL } from "../../core/input/resources.ts";
import { jobName, madeName } from "../../core/job/job-name.ts";
import type { JobInfo } from "../../core/job/views.ts";
import { givenKey } from "../../core/task/task.ts";
import type { ViewParts } from "../dialect.ts";
import { isOriginTag } from "../shared.ts";
import { ANNOTATION, API_VERSION, OUR_VARIABLES, PREFIX, PROMPT_FILE, TASK_KIND, VARIABLE } from "./fields.ts";
import { type AgentPhase, type AgentStatus, agentPhase, agentStatus, wholeSeconds } from "./status.ts";

// A job's name as an AgentTask: that of its manifest, else its own name or key.

function taskName(job: JobInfo): string {
  const given = job.name === madeName(job) ? null : job.name;
  return annotation(job, ANNOTATION.name) ?? given ?? givenKey(job.parentId, job.key) ?? jobName(job);
}

function annotation({ annotations }: Pick<JobInfo, "annotations">, name: string): string | null {
  return annotations !== undefined && Object.hasOwn(annotations, name) ? (annotations[name] as string) : null;
}

// Children are listed in the parent's status: their failures can be read there without further requests.

interface AgentChild {
  readonly name: string;
  readonly id: string;
  readonly phase: AgentPhase;
  /** Why it failed, or why it is retried. */
  readonly reason?: string;
}

interface AgentChildren {
  /** Up to 100, failed ones first. */
  readonly children?: readonly AgentChild[];
  /** Set if there are more. */
  readonly moreChildren?: true;
}

export function agentChildren({ children: found, now }: Pick<ViewParts, "children" | "now">): AgentChildren {
  if (found === undefined || found.jobs.length === 0) return {};
  const failed = found.jobs.filter(({ state }) => state === "failed");
  const others = found.jobs.filter(({ state }) => state !== "failed");
  return {
    children: [...failed, ...others].map((job) => agentChild(job, now)),
    ...(found.more ? { moreChildren: true } : {}),
  };
}

function agentChild(job: JobInfo, now: number | undefined): AgentChild {
  const phase = phaseOf(job, now);
  const isBad = job.state === "failed" || isRetried(job);
  const reason = isBad ? reasonOf(job) : null;
  return { name: taskName(job), id: job.id, phase, ...(reason === null ? {} : { reason }) };
}

function reasonOf({ failure, reason }: JobInfo): string | null {
  return failure == null ? (reason === "lost" ? "worker lost" : reason) : failureText(failure);
}

/** Like `agentPhase`, but from the row alone: the failure of a queued job is that of the attempt before its retry, and
 *  an exceeded budget without a failure is that of time. */
function phaseOf(job: JobInfo, now = job.submittedAt): AgentPhase {
  if (isRetried(job)) return now < job.runAt ? "Retrying" : "Pending";
  const isTime = job.reason === "budget" && job.budgets.length === 0 && job.failure?.class !== "budget";
  return isTime ? "Failed" : agentPhase(job, [], now);
}

function isRetried({ state, failure }: JobInfo): boolean {
  return state === "queued" && (failure ?? null) !== null;
}

// A job as an AgentTask: the manifest it came from, as far as it is known, with its status. A job from elsewhere is shown
// the same way, under a derived name. The view of a task can be applied again.

export interface AgentTaskView {
  readonly apiVersion: string;
  readonly kind: typeof TASK_KIND;
  readonly metadata: Readonly<Record<string, unknown>>;
  readonly spec: Readonly<Record<string, unknown>>;
  readonly status: AgentStatus & AgentChildren;
}

export function agentTaskView(parts: ViewParts): AgentTaskView {
  const { job } = parts;
  return {
    apiVersion: annotation(job, ANNOTATION.apiVersion) ?? API_VERSION,
    kind: TASK_KIND,
    metadata: metadataOf(job),
    spec: agentSpecOf(job),
    status: { ...agentStatus(parts), ...agentChildren(parts) },
  };
}

function metadataOf(job: JobInfo): Record<string, unknown> {
  const namespace = annotation(job, ANNOTATION.namespace);
  const labels = labelsOf(job.tags);
  const annotations = Object.entries(job.annotations ?? {}).filter(([name]) => !name.startsWith(PREFIX));
  return {
    name: taskName(job),
    ...(namespace === null ? {} : { namespace }),
    ...(labels.length === 0 ? {} : { labels: Object.fromEntries(labels) }),
    ...(annotations.length === 0 ? {} : { annotations: Object.fromEntries(annotations) }),
    uid: job.id,
    creationTimestamp: wholeSeconds(job.submittedAt),
  };
}

/** Labels from tags, without the tag of a resubmit's origin. */
export function labelsOf(tags: readonly string[]): [name: string, text: string][] {
  return tags.flatMap((tag): [string, string][] => {
    const [, name, text] = /^([^=]+)=(.*)$/.exec(tag) ?? [];
    return name === undefined || text === undefined || isOriginTag(tag) ? [] : [[name, text]];
  });
}

interface AgentCommandInput {
  readonly argv: readonly unknown[];
  readonly env: Readonly<Record<string, unknown>>;
  readonly files: Readonly<Record<string, unknown>>;
  readonly limits: Readonly<Record<string, unknown>>;
}

function inputOf({ kind, payload }: Pick<JobInfo, "kind" | "payload">): AgentCommandInput {
  const given = (kind === "exec" && isPlain(payload) ? payload : {}) as Record<string, unknown>;
  const object = (value: unknown) => (isPlain(value) ? (value as Record<string, unknown>) : {});
  const shell = typeof given.command === "string" ? ["/bin/sh", "-c", given.command] : [];
  return {
    argv: Array.isArray(given.argv) ? given.argv : shell,
    ...{ env: object(given.env), files: object(given.files), limits: object(given.limits) },
  };
}

/** What the spec is made from. */
type SpecParts = Pick<JobInfo, "kind" | "payload" | "annotations" | "labels" | "policy" | "timeoutMs" | "parentId">;

/** Also used by `perdure describe`. */
export function agentSpecOf(job: SpecParts): Record<string, unknown> {
  const { argv, env, files, limits } = inputOf(job);
  const role = annotation(job, ANNOTATION.role);
  const tier = annotation(job, ANNOTATION.tier) ?? env[VARIABLE.tier];
  const prompt = promptOf(env, files);
  const model = modelOf(env);
  const own = Object.entries(env).filter(([name]) => !OUR_VARIABLES.includes(name));
  const { tokens, costUsd } = job.policy.budget;
  const resources = resourcesOf(job, limits);
  return {
    ...(prompt === undefined ? {} : { prompt }),
    ...(model === null ? {} : { model }),
    ...(argv.length === 0 ? {} : { command: argv }),
    ...(own.length === 0 ? {} : { env: own.map(([name, value]) => ({ name, value })) }),
    ...(role === null ? {} : { role }),
    ...(tier === undefined ? {} : { tier }),
    retry: retryOf(job),
    ...(tokens === null && costUsd === null
      ? {}
      : {
          budget: {
            ...(costUsd === null ? {} : { maxCostUsd: costUsd }),
            ...(tokens === null ? {} : { maxTokens: tokens }),
          },
        }),
    ...(job.timeoutMs === null ? {} : { timeout: job.timeoutMs / 1_000 }),
    ...(job.parentId === null ? {} : { parentTaskId: job.parentId }),
    ...(resources === null ? {} : { resources }),
  };
}

function promptOf(env: AgentCommandInput["env"], files: AgentCommandInput["files"]): unknown {
  const file = env[VARIABLE.promptFile] === undefined ? undefined : files[PROMPT_FILE];
  if (typeof file === "string") return Buffer.from(file, "base64").toString("utf8");
  return env[VARIABLE.prompt];
}

/** Only the name, if there is nothing else. */
function modelOf(env: AgentCommandInput["env"]): unknown {
  const { [VARIABLE.model]: name, [VARIABLE.modelEndpoint]: endpoint, [VARIABLE.modelProvider]: provider } = env;
  if (endpoint === undefined && provider === undefined) return name ?? null;
  return {
    ...(name === undefined ? {} : { name }),
    ...(endpoint === undefined ? {} : { endpoint }),
    ...(provider === undefined ? {} : { provider }),
  };
}

/** The effective numbers of task, role, tier and preset. */
function retryOf({ policy: { maxAttempts, backoff } }: Pick<JobInfo, "policy">): object {
  if (backoff.type !== "exponential") return { maxAttempts };
  return { maxAttempts, backoffSeconds: backoff.initialMs / 1_000, maxBackoffSeconds: backoff.maxMs / 1_000 };
}

function resourcesOf({ labels }: Pick<JobInfo, "labels">, limits: AgentCommandInput["limits"]): object | null {
  const { [CPU_LABEL]: cpu, [MEMORY_LABEL]: memory } = labels;
  const requests = { ...(cpu === undefined ? {} : { cpu: `${cpu}m` }), ...(memory === undefined ? {} : { memory }) };
  const limited = limits.memory === undefined ? {} : { memory: String(limits.memory) };
  if (Object.keys({ ...requests, ...limited }).length === 0) return null;
  return {
    ...(Object.keys(requests).length === 0 ? {} : { requests }),
    ...(Object.keys(limited).length === 0 ? {} : { limits: limited }),
  };
}
