/** The lanes that a run and its steps will use, as far as its definition shows: for the quota of whoever starts it. The label of a
 *  connection may come from a template, and a path too, so there may be more. */
import { resourceLabels } from "../../core/input/resources.ts";
import { inlinePlaybooks } from "../../core/playbook/paths.ts";
import { type Playbook, type PlaybookStep, RUN_KIND } from "../../core/playbook/playbook.ts";
import type { NewLane } from "../../store/store.ts";

/** Of the run, first; then those of its steps, each once. */
export function lanesOfRun(run: NewLane, playbooks: readonly Playbook[]): NewLane[] {
  const { namespace, queue, labels: ofRun } = run;
  const lanes = new Map<string, NewLane>([["", run]]);
  const waiting = [...playbooks];
  for (let playbook = waiting.pop(); playbook !== undefined; playbook = waiting.pop()) {
    for (const step of playbook.steps) {
      const kind = kindOf(step);
      if (kind === null) continue;
      const { options } = step;
      const own =
        options.resources === null ? options.labels : { ...options.labels, ...resourceLabels(options.resources) };
      const lane = { namespace, queue: options.queue ?? queue, kind, labels: { ...ofRun, ...own } };
      lanes.set(JSON.stringify([lane.queue, kind, Object.entries(lane.labels).sort()]), lane);
    }
    for (const [, inline] of inlinePlaybooks(playbook)) waiting.push(inline);
  }
  return [...lanes.values()];
}

function kindOf({ action }: PlaybookStep): string | null {
  if (action === null || action.type === "wait") return null;
  if (action.type === "task") return action.task;
  if (action.type === "playbook") return RUN_KIND;
  return action.type === "python" || action.type === "shell" ? "exec" : action.type;
}
