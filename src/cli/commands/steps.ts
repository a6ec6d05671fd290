/** `perdure steps`: the steps of a run, in the order in which they were made. */
import { MAX_STEPS_PAGE, type StepInfo, type StepsPage } from "../../core/api/runs.ts";
import type { Perdure } from "../../core/api.ts";
import { asOneOf } from "../../core/check.ts";
import { STEP_STATES, type StepState } from "../../core/run/run.ts";
import { storable } from "../../lib/text.ts";
import { type Arguments, type CliCommand, READING } from "../command.ts";
import { conflictError, EXIT, missingArgument } from "../exit.ts";
import { fullId } from "../jobs/job-reference.ts";
import type { Printer } from "../output/print.ts";
import { STEP_COLUMNS, stepName, stepRow } from "../output/run-text.ts";
import { painted } from "../output/terminal-text.ts";
import { serverNow } from "../target/server-time.ts";
import { TARGET, withPerdure } from "../target/target.ts";

const DEFAULT_LIMIT = 200;

export const steps: CliCommand = {
  name: "steps",
  summary: "List the steps of a run",
  usage: "perdure steps RUN [OPTIONS]",
  about:
    "Each visit of a step and each try after a redrive has a line; items of loops only with --items, --failed or --step. " +
    "`perdure get JOB` and `perdure logs JOB` show the job of a step.",
  options: [
    { name: "failed", type: "boolean", help: "Only steps that failed, handled ones too." },
    {
      ...{ name: "state", type: "string", value: "STATE", multiple: true },
      help: `Only steps in this state: ${STEP_STATES.join(", ")}.`,
    },
    { name: "step", type: "string", value: "NAME", help: "Only steps of this name." },
    { name: "items", type: "boolean", help: "Also items of loops." },
    { name: "outputs", type: "boolean", help: "Show what each step returned." },
    { name: "after", type: "string", value: "N", help: "Only steps after this number." },
    { name: "limit", short: "n", type: "string", value: "N", help: `At most this many. Default: ${DEFAULT_LIMIT}.` },
    { name: "all", short: "a", type: "boolean", help: "All of them." },
    ...TARGET,
    ...READING,
  ],
  examples: [
    "perdure steps job_01m7gekg9zevv9a6xvvwmt1v8g",
    "perdure steps job_01m7gekg9zevv9a6xvvwmt1v8g --failed",
    "perdure steps job_01m7gekg9zevv9a6xvvwmt1v8g --step fetch --outputs --json",
  ],

  async run(context) {
    const { given, out } = context;
    const reference = given.optionalJobId();
    if (reference === undefined) throw missingArgument("RUN", steps.usage);
    const page = pageOf(given);
    return withPerdure(context, async (perdure) => {
      const listing = new StepListing(perdure, await fullId(perdure, reference), page, given.flag("all"));
      if (given.flag("json")) await out.jsonList(listing.steps());
      else await print(out, listing, await serverNow(perdure), given.flag("outputs"));
      if (listing.last !== null) {
        out.note(`there are more steps; to continue, pass --after ${listing.last}; to list all, pass --all`);
      }
      return EXIT.done;
    });
  },
};

const FAILED: readonly StepState[] = ["failed", "handled"];

function pageOf(given: Arguments): StepsPage & { readonly limit: number } {
  const [limit, after] = [
    given.integer("limit", { min: 1, max: 1_000_000 }),
    given.integer("after", { min: 0, max: 1_000_000_000 }),
  ];
  if (given.flag("all") && limit !== undefined) throw conflictError("--all", "--limit");
  if (given.flag("failed") && given.flag("state")) throw conflictError("--failed", "--state");
  const named = given.texts("state").map((text) => asOneOf(text, STEP_STATES, "--state"));
  const states = given.flag("failed") ? FAILED : named;
  const step = given.text("step");
  return {
    limit: limit ?? DEFAULT_LIMIT,
    items: ["items", "failed", "step"].some((name) => given.flag(name)),
    outputs: given.flag("outputs"),
    ...(after === undefined ? {} : { after }),
    ...(states.length === 0 ? {} : { states }),
    ...(step === undefined ? {} : { step }),
  };
}

class StepListing {
  /** The last step shown, if there are more. */
  last: number | null = null;
  readonly #perdure: Perdure;
  readonly #run: string;
  readonly #page: StepsPage & { readonly limit: number };
  readonly #all: boolean;

  constructor(perdure: Perdure, run: string, page: StepsPage & { readonly limit: number }, all: boolean) {
    this.#perdure = perdure;
    this.#run = run;
    this.#page = page;
    this.#all = all;
  }

  async *steps(): AsyncGenerator<StepInfo, void, void> {
    let after = this.#page.after ?? 0;
    let left = this.#all ? Number.POSITIVE_INFINITY : this.#page.limit;
    for (;;) {
      // One more, to know whether there are more.
      const limit = Math.min(MAX_STEPS_PAGE, left + 1);
      const page = await this.#perdure.steps(this.#run, { ...this.#page, after, limit });
      for (const step of page) {
        if (left <= 0) {
          this.last = after;
          return;
        }
        left -= 1;
        after = step.n;
        yield step;
      }
      // With outputs a page may be short.
      if (page.length === 0 || (page.length < limit && this.#page.outputs !== true)) return;
    }
  }
}

/** About a screen of it; `--json` has all of it. */
const OUTPUT_LIMIT = 2_000;

async function print(out: Printer, listing: StepListing, now: number, withOutputs: boolean): Promise<void> {
  if (!withOutputs) {
    const rows = async function* () {
      for await (const step of listing.steps()) yield stepRow(step, now);
    };
    if ((await out.tables(STEP_COLUMNS, rows())) === 0) out.note("no matching steps");
    return;
  }
  for await (const step of listing.steps()) {
    const [n = "", , , state = ""] = stepRow(step, now);
    out.line(painted("bold", `${String(n)} ${stepName(step)}`), "  ", state);
    if (step.output === undefined) continue;
    const text = typeof step.output === "string" ? step.output : JSON.stringify(step.output, null, 2);
    out.block(text.length > OUTPUT_LIMIT ? `${storable(text, OUTPUT_LIMIT)}\n(cut; --json shows all of it)` : text);
  }
}
