/** The paths by which steps name other playbooks. A relative path belongs to the file that it is in, so it is replaced before a
 *  playbook is stored: by its path from the first file, or by the catalog path beside the playbook's own. Paths with templates
 *  are filled when their step starts and are left as they are. */
import { hasTemplate } from "../template/template.ts";
import type { Playbook, PlaybookStep, StepAction } from "./playbook.ts";

type PlaybookAction = Extract<StepAction, { type: "playbook" }>;

/** The fixed paths of its steps and of those of inline playbooks, each once. */
export function fixedPaths(playbook: Playbook): string[] {
  const found = new Set<string>();
  for (const { action } of playbook.steps) {
    if (action?.type !== "playbook") continue;
    if (action.inline !== null) for (const path of fixedPaths(action.inline)) found.add(path);
    else if (action.path !== null && !hasTemplate(action.path)) found.add(action.path);
  }
  return [...found];
}

/** Playbooks within this one, by the index of their step; not those within them. */
export function inlinePlaybooks(playbook: Playbook): readonly (readonly [index: number, inline: Playbook])[] {
  return playbook.steps.flatMap(({ action }, index) =>
    action?.type === "playbook" && action.inline !== null ? [[index, action.inline] as const] : [],
  );
}

export function isRelative(path: string): boolean {
  return path.startsWith("./") || path.startsWith("../");
}

/** The same playbook with other relative paths; itself if it has none. */
export function withPaths(playbook: Playbook, resolve: (path: string) => string): Playbook {
  const steps = playbook.steps.map((step) => stepWithPaths(step, resolve));
  return steps.every((step, i) => step === playbook.steps[i]) ? playbook : { ...playbook, steps };
}

function stepWithPaths(step: PlaybookStep, resolve: (path: string) => string): PlaybookStep {
  const { action } = step;
  if (action?.type !== "playbook") return step;
  const next = actionWithPaths(action, resolve);
  return next === action ? step : { ...step, action: next };
}

function actionWithPaths(action: PlaybookAction, resolve: (path: string) => string): PlaybookAction {
  if (action.inline !== null) {
    const inline = withPaths(action.inline, resolve);
    return inline === action.inline ? action : { ...action, inline };
  }
  if (action.path === null || !isRelative(action.path) || hasTemplate(action.path)) return action;
  return { ...action, path: resolve(action.path) };
}

/** `./pay.yaml` in the file `./sub/order.yaml` is `./sub/pay.yaml`. Null for a path that leaves the folder of the first file. */
export function pathFrom(file: string, relative: string): string | null {
  const parts = file.split("/").slice(1, -1);
  for (const part of relative.split("/")) {
    if (part === "" || part === ".") continue;
    if (part !== "..") parts.push(part);
    else if (parts.pop() === undefined) return null;
  }
  return parts.length === 0 ? null : `./${parts.join("/")}`;
}

/** `./pay.yaml` in the playbook `shop/orders` is `shop/pay`. Null for a path that leaves the catalog. */
export function catalogPath(own: string, relative: string): string | null {
  const path = pathFrom(`./${own}`, relative);
  return path === null ? null : path.slice(2).replace(/\.(ya?ml|json)$/i, "");
}
