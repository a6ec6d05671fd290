/** What the engine's events of workers say. All of them name the namespace: by it they are found. */
import type { NewSession } from "../core/work.ts";

export function startedWorker({ id, name, kinds, namespace }: NewSession) {
  return { v: 1, session: id, worker: name, kinds, namespace };
}

export function endedWorker(session: string, namespace: string, why: "stopped" | "gone") {
  return { v: 1, session, why, namespace };
}
