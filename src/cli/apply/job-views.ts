/** The values of `get -o`, and the data that a dialect's view reads. `yaml` and `json` print a job in the format that it
 *  came from; a view prints it in JSON as another system shows it, and `VIEW,yaml` prints that as YAML. */

import type { Perdure } from "../../core/api.ts";
import { show } from "../../core/errors.ts";
import type { ViewChildren, ViewParts } from "../../dialects/dialect.ts";
import { readChildren, readParts } from "../../dialects/read-view.ts";
import { JOB_VIEW_NAMES } from "../../dialects/registry.ts";
import { choiceError, conflictError, usageError, valueError } from "../exit.ts";
import { bySession } from "../output/job-text.ts";
import { serverNow } from "../target/server-time.ts";

const FORMATS = ["json", "yaml"] as const;
type OutputFormat = (typeof FORMATS)[number];

/** The view of Perdure itself, as `--json` prints it. */
export const OWN_VIEW = "perdure";

interface JobOutputFormat {
  /** Null: the view of the system that the job came from. */
  readonly view: string | null;
  readonly format: OutputFormat;
}

export const OUTPUT_VIEWS: readonly string[] = [OWN_VIEW, ...JOB_VIEW_NAMES];

export function outputOf(text: string, isJson: boolean): JobOutputFormat {
  const output = parsed(text);
  if (!isJson || output.format === "json") return output;
  throw conflictError("--json", `--output ${text}`);
}

function parsed(text: string): JobOutputFormat {
  const [first = "", second, third] = text.split(",").map((part) => part.trim());
  if (second === undefined)
    return isFormat(first) ? { view: null, format: first } : { view: known(first), format: "json" };
  if (third !== undefined) throw valueError("--output", text, `a view and a format, as in ${OWN_VIEW},yaml`);
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
  throw valueError("--output", text, `one format, or a view and a format, as in ${OWN_VIEW},yaml`);
}

function known(view: string): string {
  if (OUTPUT_VIEWS.includes(view)) return view;
  const names = [...FORMATS, ...OUTPUT_VIEWS];
  throw choiceError("--output", view, names);
}

// Everything that a dialect's view may show.

export async function viewParts(perdure: Perdure, id: string, withChildren = false): Promise<ViewParts> {
  const handle = await perdure.job(id);
  const [parts, workers, now, children] = await Promise.all([
    readParts(handle),
    bySession(perdure),
    serverNow(perdure),
    withChildren ? childrenOf(perdure, id) : undefined,
  ]);
  const workerName = (session: string) => workers.get(session)?.name ?? null;
  return { ...parts, workerName, now, ...(children === undefined ? {} : { children }) };
}

function childrenOf(perdure: Perdure, id: string): Promise<ViewChildren> {
  return readChildren((filter) => perdure.jobs({ ...filter, parent: id, order: "oldest" }));
}
