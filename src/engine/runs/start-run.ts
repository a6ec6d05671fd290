/** Starts a run: pins its definition, checks its input and stores its job, which waits in the state `blocked` until the run has
 *  ended. Its first message is written with it. */
import { createHash } from "node:crypto";
import type { PlaybookInput } from "../../core/api/playbooks.ts";
import type { checkRunOptions } from "../../core/api/runs.ts";
import { ConfigError, PerdureError, show } from "../../core/errors.ts";
import { toPayload } from "../../core/input/submit-check.ts";
import { checkInputs } from "../../core/playbook/input-check.ts";
import { RUN_KIND } from "../../core/playbook/playbook.ts";
import { resolvePolicy } from "../../core/policy/resolve-policy.ts";
import { newRunProgress } from "../../core/run/start.ts";
import type { InsertAnswer, NewJob, NewLane } from "../../store/store.ts";
import { notifyObserver, observed } from "../observer.ts";
import type { EngineParts } from "../parts.ts";
import type { Definition, Playbooks } from "../playbooks/playbooks.ts";
import { checkedPayload, newJob } from "../submit.ts";
import type { SubmitAnswer } from "../submit-item.ts";
import { lanesOfRun } from "./run-lanes.ts";

export interface NewRunRequest {
  readonly namespace: string;
  readonly playbook: PlaybookInput;
  readonly input?: Readonly<Record<string, unknown>> | undefined;
  readonly options: ReturnType<typeof checkRunOptions>;
  /** Who starts it, if known. */
  readonly by: string | null;
  /** Checks a quota before the run is stored. */
  readonly admit?: AdmitLanes;
  /** The id of the token it is started with. */
  readonly token?: string;
}

/** `lanes`: of the run, and of its steps. Calls `store` with the owner of new lanes, unless they are refused. */
export type AdmitLanes = (
  lanes: readonly NewLane[],
  store: (owner: string) => Promise<StartedRun>,
) => Promise<StartedRun>;

export type StartedRun = Omit<Extract<SubmitAnswer, { status: "ok" }>, "status">;

/** It ends by its steps, never by attempts of its own. */
const POLICY = resolvePolicy(1);

export async function startRun(parts: EngineParts, playbooks: Playbooks, request: NewRunRequest): Promise<StartedRun> {
  const definition = await playbooks.definition(request.namespace, request.playbook);
  const now = parts.clock.now();
  const job = runJob(parts, request, definition, now);
  if (request.admit === undefined) return storeRun(parts, request, job, now);
  const { namespace, queue, kind, labels } = job;
  const below = await Promise.all(Object.values(definition.pins).map((hash) => playbooks.load(hash)));
  const lanes = lanesOfRun({ namespace, queue, kind, labels }, [definition.playbook, ...below]);
  return request.admit(lanes, (owner) => storeRun(parts, request, Object.assign(job, { owner }), now));
}

async function storeRun(parts: EngineParts, request: NewRunRequest, job: NewJob, now: number): Promise<StartedRun> {
  const [answer] = (await observed(parts, "submit", 1, () => parts.store.insert([job], now))) as [InsertAnswer];
  switch (answer.status) {
    case "inserted":
      parts.hub.written.fire();
      notifyObserver(parts, (observer) => observer.submitted?.([job]));
      return { id: answer.id, created: true, chapter: 1, state: "blocked" };
    case "exists":
      return { id: answer.id, created: false, chapter: answer.chapter, state: answer.state };
    case "conflict": {
      const message = `the key ${show(request.options.key)} belongs to ${answer.id}, which has another playbook or input; use another key`;
      throw new PerdureError("key_conflict", message);
    }
    default:
      throw new PerdureError(answer.code, answer.message);
  }
}

function runJob(parts: EngineParts, request: NewRunRequest, definition: Definition, now: number): NewJob {
  const { hash, playbook, version, pins } = definition;
  const { key, timeoutMs = playbook.timeoutMs, name = playbook.name, ...options } = request.options;
  const { value, problems } = checkInputs(playbook.inputs, request.input);
  const [problem] = problems;
  if (problem !== undefined) {
    const text = problems.map(({ message }) => message).join("; ");
    throw new ConfigError({ path: "input", given: request.input, problem: text });
  }
  const data = checkedPayload(toPayload({ inputs: value, workload: null }));
  const { path } = playbook;
  const payload = JSON.stringify({ playbook: { name: playbook.name, path, version, hash } });
  const { namespace, by, token } = request;
  const item = {
    ...options,
    ...{ kind: RUN_KIND, payload, policy: POLICY, namespace, name, by, key: key ?? null },
    ...(token === undefined ? {} : { token }),
  };
  const job = newJob(parts, item, now, null);
  // The same path is the same playbook for a key, whatever its latest version is.
  const given = typeof request.playbook === "string" ? request.playbook : hash;
  const body = createHash("sha256")
    .update(JSON.stringify([RUN_KIND, job.queue, given]))
    .update(data);
  const deadlineAt = timeoutMs === null ? null : now + timeoutMs;
  return Object.assign(job, {
    bodyHash: key === undefined ? null : body.digest("base64url"),
    action: path ?? playbook.name,
    run: { playbook: hash, pins, data, deadlineAt, origin: null, progress: newRunProgress() },
  });
}
