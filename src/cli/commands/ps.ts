/** `perdure ps`: jobs, newest first, a page at a time. */
import type { JobInfo, SessionRow } from "../../core/views.ts";
import { type Painted, type Piece, painted } from "../colour.ts";
import { type Command, type Context, READING } from "../command.ts";
import { EXIT, usageError } from "../exit.ts";
import { LIST_OPTIONS, Listing, type Pages, readPages } from "../follow/job-list.ts";
import { watchTable } from "../follow/watch-table.ts";
import { bySession, commandLine, stateWords } from "../job-text.ts";
import { showSince } from "../print.ts";
import type { Column } from "../table.ts";
import { TARGET, withPerdure } from "../target.ts";

export const ps: Command = {
  name: "ps",
  summary: "List jobs, newest first",
  usage: "perdure ps [OPTIONS]",
  options: [
    ...LIST_OPTIONS,
    { name: "watch", short: "w", type: "boolean", help: "On a terminal: show it anew each second, until Ctrl-C." },
    ...TARGET,
    ...READING,
  ],
  examples: ["perdure ps --state failed", "perdure ps --kind exec --all --json", "perdure ps --dead --since 1d"],

  async run(context) {
    const { given } = context;
    given.atMost(0);
    const pages = readPages(given, Date.now());
    return given.flag("watch") ? watch(context) : list(context, pages);
  },
};

async function list(context: Context, pages: Pages): Promise<number> {
  const { given, out } = context;
  await withPerdure(context, async (perdure) => {
    const listed = new Listing(perdure, pages);
    if (given.flag("json")) await out.jsonList(listed.jobs());
    else {
      const workers = bySession(await perdure.workers());
      const now = Date.now();
      const rows: Piece[][] = [];
      for await (const job of listed.jobs()) rows.push(row(job, now, workers));
      if (rows.length === 0) out.note("no job fits");
      else out.table(COLUMNS, rows);
    }
    if (listed.next !== null) {
      out.note(`there are more: repeat it with --cursor ${listed.next} for the next, or with --all`);
    }
  });
  return EXIT.done;
}

/** Times ago move with the table. */
function watch(context: Context): Promise<number> {
  const { given, io } = context;
  if (!io.isTTY) throw usageError("--watch: it needs a terminal; into a pipe or file, use `perdure events --follow`");
  const other = ["json", "all", "cursor"].find((name) => given.flag(name));
  if (other !== undefined) throw usageError(`--watch and --${other}: give one of them`);
  return withPerdure(context, (perdure) =>
    watchTable(context, COLUMNS, async () => {
      const now = Date.now();
      const { jobs, next } = await perdure.jobs(readPages(given, now).filter);
      const workers = bySession(await perdure.workers());
      return { rows: jobs.map((job) => row(job, now, workers)), hasMore: next !== null };
    }),
  );
}

const COLUMNS: readonly Column[] = [
  { head: "ID" },
  { head: "KIND", flexible: true },
  { head: "STATE" },
  { head: "RUNS", side: "right" },
  { head: "AGE", side: "right" },
  { head: "WHAT", flexible: true },
];

function row(job: JobInfo, now: number, workers: ReadonlyMap<string, SessionRow>): Piece[] {
  const age: Painted = painted("dim", showSince(job.submittedAt, now));
  return [job.id, job.kind, stateWords(job, now, workers), String(job.attempt), age, commandLine(job)];
}
