/** Longer paths to the output of a step: `STEP.results.TOOL` of a step with several tools, and `STEP.data.command_0` of a query. Only the
 *  output of the last tool leaves a step, so that of another is refused. */
import { isPlain } from "../../../core/check.ts";
import type { Playbook, StepAction } from "../../../core/playbook/playbook.ts";
import type { Draft } from "./draft.ts";

export function withToolResults(draft: Draft, playbook: Playbook): Playbook {
  const queries = playbook.steps
    .filter(({ name }) => Object.hasOwn(playbook.aliases, `${name}.row_count`))
    .map(({ name }) => name);
  if (draft.pipelines.size === 0 && queries.length === 0) return playbook;
  const steps = playbook.steps.map((step, i) => {
    const path = draft.sources.get(`steps[${i}]`) ?? [];
    const rename = (given: string) => {
      const text = given.replace(
        /(?<![\w.'"])(\w+)\.(?:data|result)\.(command_\d+)\b/g,
        (all, name: string, part: string) => {
          return queries.includes(name) ? `${name}.${part}` : all;
        },
      );
      return text.replace(/(?<![\w.'"])(\w+)\.(?:data\.)?results\.(\w+)/g, (all, name: string, tool: string) => {
        const tools = draft.pipelines.get(name);
        if (tools === undefined || !tools.includes(tool)) return all;
        if (tools.at(-1) !== tool) {
          const message = `${all} is not kept: the output of "${name}" is that of its last tool; return the value from there`;
          draft.problem("keyword_refused", path, message);
        }
        return name;
      });
    };
    const { action, when, loop, arcs, set } = step;
    return {
      ...step,
      action: isMadeOfData(action) ? { ...action, data: walk(action.data, rename) } : walk(action, rename),
      when: walk(when, rename),
      loop: walk(loop, rename),
      arcs: walk(arcs, rename),
      set: walk(set, rename),
    };
  });
  return { ...playbook, steps };
}

/** Code is not a template, and a playbook within has no names but its own. */
function isMadeOfData(action: StepAction | null): action is StepAction & { readonly type: "python" | "playbook" } {
  return action?.type === "python" || action?.type === "playbook";
}

function walk<T>(value: T, rename: (text: string) => string): T {
  if (typeof value === "string") return rename(value) as T;
  if (Array.isArray(value)) return value.map((each) => walk(each, rename)) as T;
  if (!isPlain(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, walk(each, rename)])) as T;
}
