/** What `-o` of `get` asks for, as kubectl's users write it: `yaml` and `json` print a job in the format that it came in, a view
 *  prints it as another system shows it, in JSON, and `VIEW,yaml` prints that as YAML. */
import { nearest } from "../../core/check.ts";
import { show } from "../../core/errors.ts";
import { JOB_VIEW_NAMES } from "../../dialects/registry.ts";
import { usageError } from "../exit.ts";

const FORMATS = ["json", "yaml"] as const;
export type OutputFormat = (typeof FORMATS)[number];

/** Perdure's own view: what `--json` prints. */
export const OWN_VIEW = "perdure";

export interface Output {
  /** Null: that of the system that the job came from. */
  readonly view: string | null;
  readonly format: OutputFormat;
}

export const OUTPUT_VIEWS: readonly string[] = [OWN_VIEW, ...JOB_VIEW_NAMES];

export function outputOf(text: string, isJson: boolean): Output {
  const output = parsed(text);
  if (!isJson || output.format === "json") return output;
  throw usageError(`--json and --output ${text} cannot be used together`);
}

function parsed(text: string): Output {
  const [first = "", second, third] = text.split(",").map((part) => part.trim());
  if (second === undefined)
    return isFormat(first) ? { view: null, format: first } : { view: known(first), format: "json" };
  if (third !== undefined)
    throw usageError(`--output: got ${show(text)}; write a view and a format, as in agent-task,yaml`);
  if (isFormat(second)) return { view: isFormat(first) ? twice(text) : known(first), format: second };
  const hint =
    isFormat(first) && OUTPUT_VIEWS.includes(second)
      ? `; write ${second},${first}`
      : `; allowed: ${FORMATS.join(", ")}`;
  throw usageError(`--output: the format after the comma is ${show(second)}${hint}`);
}

function isFormat(text: string): text is OutputFormat {
  return (FORMATS as readonly string[]).includes(text);
}

function twice(text: string): never {
  throw usageError(
    `--output: got ${show(text)}, two formats; write one of them, or a view and a format, as in agent-task,yaml`,
  );
}

function known(view: string): string {
  if (OUTPUT_VIEWS.includes(view)) return view;
  const names = [...FORMATS, ...OUTPUT_VIEWS];
  const near = nearest(view, names);
  const hint = near === null ? "" : `. Did you mean ${show(near)}?`;
  throw usageError(`--output: got ${show(view)}; allowed: ${names.join(", ")}${hint}`);
}
