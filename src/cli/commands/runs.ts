/** `perdure runs`: lists runs of playbooks, newest first, a page at a time. */
import { RUN_STATUSES, type RunInfo, type RunsFilter } from "../../core/api/runs.ts";
import type { Perdure } from "../../core/api.ts";
import { asOneOf } from "../../core/check.ts";
import { type Arguments, type CliCommand, type CommandContext, READING } from "../command.ts";
import { conflictError, EXIT, usageError } from "../exit.ts";
import { watchTable } from "../follow/watch-table.ts";
import { instantOf } from "../jobs/job-list.ts";
import { asReference, fullId } from "../jobs/job-reference.ts";
import { shortIds } from "../output/job-text.ts";
import { showSince } from "../output/print.ts";
import { playbookText, runFailureLine, runStateText, stepCounts } from "../output/run-text.ts";
import type { Column } from "../output/table.ts";
import { painted, type TextPiece } from "../output/terminal-text.ts";
import { serverNow } from "../target/server-time.ts";
import { TARGET, withPerdure } from "../target/target.ts";

const DEFAULT_LIMIT = 20;
const MAX_LIMIT = 1_000;
/** A search by a pattern checks a part of the runs per call. */
const MAX_CALLS = 20;

export const runs: CliCommand = {
  name: "runs",
  summary: "List runs of playbooks, newest first",
  usage: "perdure runs [OPTIONS]",
  about:
    "Runs that are steps of other runs are listed with --parent. `perdure get RUN` shows one, `perdure steps RUN` its steps. " +
    "On a terminal ids are shortened, and every command accepts them like that.",
  options: [
    {
      ...{ name: "state", type: "string", value: "STATE", multiple: true },
      help: `Only runs in this state: ${RUN_STATUSES.join(", ")}.`,
    },
    { name: "playbook", type: "string", value: "PATH", help: "Only runs of this path; * and ? match any characters." },
    { name: "name", type: "string", value: "NAME", help: "Only runs of this name; * and ? match any characters." },
    { name: "tag", type: "string", value: "TAG", help: "Only runs with this tag." },
    { name: "key", type: "string", value: "KEY", help: "Only the run with this key." },
    { name: "parent", type: "string", value: "RUN", help: "Only runs that are steps of this run." },
    { name: "since", type: "string", value: "TIME", help: "Only runs started since: 30m, 2h, or an instant." },
    { name: "limit", short: "n", type: "string", value: "N", help: `At most this many. Default: ${DEFAULT_LIMIT}.` },
    { name: "all", short: "a", type: "boolean", help: "All of them." },
    { name: "cursor", type: "string", value: "CURSOR", help: "Continue where a list with the same filter ended." },
    { name: "watch", short: "w", type: "boolean", help: "On a terminal: refresh each second, until Ctrl-C." },
    ...TARGET,
    ...READING,
  ],
  examples: ["perdure runs", "perdure runs --state failed --playbook 'shop/*' --since 1d", "perdure runs --all --json"],

  async run(context) {
    const { given } = context;
    given.atMost(0);
    filterOf(given, Date.now()); // a mistake in the options is reported before anything is opened
    return given.flag("watch") ? watch(context) : list(context);
  },
};

function filterOf(given: Arguments, now: number): RunsFilter {
  const limit = given.integer("limit", { min: 1, max: MAX_LIMIT });
  if (given.flag("all") && limit !== undefined) throw conflictError("--all", "--limit");
  const states = given.texts("state").map((text) => asOneOf(text, RUN_STATUSES, "--state"));
  const since = instantOf(given, "since", now);
  const [playbook, name, tag, key] = ["playbook", "name", "tag", "key"].map((option) => given.text(option));
  const cursor = given.text("cursor");
  return {
    limit: given.flag("all") ? 100 : (limit ?? DEFAULT_LIMIT),
    ...(states.length === 0 ? {} : { state: states }),
    ...(playbook === undefined ? {} : { playbook }),
    ...(name === undefined ? {} : { name }),
    ...(tag === undefined ? {} : { tag }),
    ...(key === undefined ? {} : { key }),
    ...(since === undefined ? {} : { submittedAfter: since }),
    ...(cursor === undefined ? {} : { cursor }),
  };
}

async function wholeFilter(given: Arguments, perdure: Perdure, now: number): Promise<RunsFilter> {
  const parent = given.text("parent");
  const filter = filterOf(given, now);
  return parent === undefined ? filter : { ...filter, parent: await fullId(perdure, asReference(parent)) };
}

async function list(context: CommandContext): Promise<number> {
  const { given, out } = context;
  await withPerdure(context, async (perdure) => {
    const now = await serverNow(perdure);
    const listing = new RunListing(perdure, await wholeFilter(given, perdure, now), given.flag("all"));
    if (given.flag("json")) await out.jsonList(listing.runs());
    else {
      const found: RunInfo[] = [];
      for await (const run of listing.runs()) found.push(run);
      if (found.length === 0) out.note("no matching runs");
      else out.table(COLUMNS, rowsOf(found, now, context));
    }
    if (listing.next !== null) {
      out.note(`there are more runs; to continue, pass --cursor ${listing.next}; to list all, pass --all`);
    }
  });
  return EXIT.done;
}

class RunListing {
  next: string | null = null;
  readonly #perdure: Perdure;
  readonly #filter: RunsFilter;
  readonly #all: boolean;

  constructor(perdure: Perdure, filter: RunsFilter, all: boolean) {
    this.#perdure = perdure;
    this.#filter = filter;
    this.#all = all;
  }

  async *runs(): AsyncGenerator<RunInfo, void, void> {
    const { limit = DEFAULT_LIMIT } = this.#filter;
    let [left, calls] = [limit, 0];
    do {
      const asked = { ...this.#filter, limit: this.#all ? limit : left };
      const page = await this.#perdure.runs(this.next === null ? asked : { ...asked, cursor: this.next });
      this.next = page.next;
      left -= page.runs.length;
      calls += 1;
      yield* page.runs;
    } while (this.next !== null && (this.#all || (left > 0 && calls < MAX_CALLS)));
  }
}

function watch(context: CommandContext): Promise<number> {
  const { given, io } = context;
  if (!io.isTTY) throw usageError("--watch requires a terminal; for a pipe or file use `perdure events --follow`");
  const other = ["json", "all", "cursor"].find((name) => given.flag(name));
  if (other !== undefined) throw conflictError("--watch", `--${other}`);
  return withPerdure(context, (perdure) =>
    watchTable(context, COLUMNS, async () => {
      const now = await serverNow(perdure);
      const page = await perdure.runs(await wholeFilter(given, perdure, now));
      return { rows: rowsOf(page.runs, now, context), hasMore: page.next !== null };
    }),
  );
}

const COLUMNS: readonly Column[] = [
  { head: "ID" },
  { head: "NAME", flexible: true },
  { head: "PLAYBOOK", flexible: true },
  { head: "STATE" },
  { head: "STEPS", side: "right" },
  { head: "AGE", side: "right" },
  { head: "FAILURE", flexible: true },
];

function rowsOf(found: readonly RunInfo[], now: number, { io }: CommandContext): TextPiece[][] {
  const ids = io.columns === undefined ? found.map(({ id }) => id) : shortIds(found);
  return found.map((run, i) => [
    ids[i] as string,
    run.name,
    playbookText(run) === run.name ? "" : playbookText(run),
    runStateText(run),
    stepCounts(run),
    painted("dim", showSince(run.submittedAt, now)),
    runFailureLine(run),
  ]);
}
