/** After what an arc is evaluated, where its document leaves it to the condition. */
import { namesOfTemplate, parseWhen, TemplateError } from "../template/template.ts";
import { FAILURE_NAMES } from "./names-in-scope.ts";
import type { PlaybookArc } from "./playbook.ts";

/** A condition that names `error`, `status` and so on is for failures too; any other is for a success. */
export function arcEvent(when: string | null): PlaybookArc["on"] {
  if (when === null) return "success";
  try {
    return namesOfTemplate(parseWhen(when)).some(({ name }) => FAILURE_NAMES.has(name)) ? "always" : "success";
  } catch (error) {
    if (error instanceof TemplateError) return "success"; // reported by the check of templates
    throw error;
  }
}
