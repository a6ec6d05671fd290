/** Starts a worker of this process on an engine of this process, and links the two. */

import type { AnyTask } from "../core/task/task.ts";
import type { WorkerHandle, WorkOptions } from "../core/task/work-options.ts";
import type { Report, SettleAnswer } from "../core/worker-protocol.ts";
import type { Engine } from "../engine/engine.ts";
import type { Log } from "../engine/parts.ts";
import { toItem } from "../engine/submit-item.ts";
import type { Blobs } from "../store/blobs.ts";
import { buildWorker } from "../worker/build-worker.ts";
import type { EngineLink } from "../worker/engine-link.ts";
import type { AttemptDirectories } from "../worker/exec/exec-executor.ts";

// A worker's link to an engine in its own process.

/** Commands get no access to the engine: without a server nothing would restrict them to their own children. */
export function localLink(engine: Engine): EngineLink {
  return {
    family: {
      submit: (parent, entry) => engine.submitChild(parent, toItem(entry, parent.namespace)),
      look: (parent, ids) => engine.awaitedChildren(parent, ids),
      list: ({ jobId }) => engine.children(jobId),
    },

    claimsAtOnce: engine.store.claimsAtOnce,
    openSession: async (request) => ({ session: await engine.openSession(request), leaseMs: engine.leaseMs }),
    closeSession: (session) => engine.closeSession(session),
    claim: (session, options) => engine.claim(session, options),
    renew: (session, held, health) => engine.renew(session, held, health),
    report: reportTogether(engine),
    onCancel: (session, call) => engine.onCancel(session, call),
    asset: (hash) => engine.store.runs.asset(hash),
  };
}

interface WaitingReport {
  readonly report: Report;
  readonly resolve: (answer: SettleAnswer) => void;
  readonly reject: (error: unknown) => void;
}

/** Handlers that end in the same turn of the event loop are reported in one call, which costs little more than one report. */
function reportTogether(engine: Engine): EngineLink["report"] {
  let waiting: WaitingReport[] = [];

  async function send(): Promise<void> {
    const calls = waiting;
    waiting = [];
    try {
      const answers = await engine.report(calls.map((call) => call.report));
      for (const [i, call] of calls.entries()) call.resolve(answers[i] as SettleAnswer);
    } catch (error) {
      for (const call of calls) call.reject(error);
    }
  }

  return (report) =>
    new Promise((resolve, reject) => {
      if (waiting.push({ report, resolve, reject }) === 1) engine.clock.tick(() => void send());
    });
}

// Starts a worker of this process on an engine of this process.

export interface LocalWorkerParts {
  readonly engine: Engine;
  readonly namespace: string;
  readonly log: Log;
  /** Without directories for attempts it runs no commands. */
  readonly blobs: Blobs & Partial<AttemptDirectories>;
  /** The workers that are stopped with the engine. */
  readonly running: Set<{ stop(graceMs: number): Promise<void> }>;
}

export async function startWorker(
  { engine, namespace, log, blobs, running }: LocalWorkerParts,
  tasks: readonly AnyTask[],
  options: WorkOptions,
): Promise<WorkerHandle> {
  const { clock } = engine;
  const worker = buildWorker({
    link: localLink(engine),
    clock,
    directories: hasDirectories(blobs) ? blobs : null,
    namespace,
    log,
    tasks,
    options,
  });
  running.add(worker); // before it starts, so that a concurrent close stops it
  await worker.start();
  return worker.handle(() => running.delete(worker));
}

function hasDirectories(blobs: LocalWorkerParts["blobs"]): blobs is Blobs & AttemptDirectories {
  return blobs.begin !== undefined;
}
