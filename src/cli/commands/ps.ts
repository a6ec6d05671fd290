/** `perdure ps`: lists jobs, newest first, a page at a time. */

import { jobName } from "../../core/job/job-name.ts";
import type { JobInfo } from "../../core/job/views.ts";
import { type CliCommand, type CommandContext, READING } from "../command.ts";
import { conflictError, EXIT, usageError } from "../exit.ts";
import { watchTable } from "../follow/watch-table.ts";
import { JobListing, LIST_OPTIONS, readPages, withWholeIds } from "../jobs/job-list.ts";
import { bySession, commandLine, failureLine, type KnownWorker, shortIds, stateText } from "../output/job-text.ts";
import { showLocal, showSince } from "../output/print.ts";
import type { Column } from "../output/table.ts";
import { painted, type TextPiece } from "../output/terminal-text.ts";
import { serverNow } from "../target/server-time.ts";
import { TARGET, withPerdure } from "../target/target.ts";

export const ps: CliCommand = {
  name: "ps",
  summary: "List jobs, newest first",
  usage: "perdure ps [OPTIONS]",
  about:
    "On a terminal ids are shortened, and every command accepts them like that; names and failures are cut to the width. In a " +
    "pipe or file, and with --wide, nothing is cut. A search by a pattern or a reason checks a part of the jobs at a time and " +
    "prints the cursor to continue from.",
  options: [
    ...LIST_OPTIONS,
    { name: "wide", type: "boolean", help: "Show everything in full, with kind, queue, key, command and failure." },
    { name: "watch", short: "w", type: "boolean", help: "On a terminal: refresh each second, until Ctrl-C." },
    ...TARGET,
    ...READING,
  ],
  examples: [
    "perdure ps --state failed",
    "perdure ps --name 'backup-*' --wide",
    "perdure ps --dead --reason exhausted --since 1d",
    "perdure ps --kind exec --all --json",
  ],

  async run(context) {
    const { given } = context;
    given.atMost(0);
    if (given.flag("json") && given.flag("wide")) throw conflictError("--json", "--wide");
    readPages(given, Date.now()); // a mistake in the options is reported before anything is opened
    return given.flag("watch") ? watch(context) : list(context);
  },
};

async function list(context: CommandContext): Promise<number> {
  const { given, out } = context;
  await withPerdure(context, async (perdure) => {
    const now = await serverNow(perdure);
    const listed = new JobListing(perdure, readPages(given, now));
    if (given.flag("json")) await out.jsonList(listed.jobs());
    else {
      const workers = await bySession(perdure);
      const lines: JobTableLine[] = [];
      for await (const job of listed.jobs()) lines.push(lineOf(job, now, workers));
      const shown = shownIn(context);
      if (lines.length > 0) out.table(shown.columns, rowsOf(lines, shown), given.flag("wide"));
      else out.note(listed.isShort ? "no matching jobs so far" : "no matching jobs");
    }
    if (listed.next !== null) {
      const why = listed.isShort ? "not all jobs were checked" : "there are more jobs";
      out.note(`${why}; to continue, pass --cursor ${listed.next}; to list all, pass --all`);
    }
  });
  return EXIT.done;
}

/** Ages are computed again at each refresh. */
function watch(context: CommandContext): Promise<number> {
  const { given, io } = context;
  if (!io.isTTY) throw usageError("--watch requires a terminal; for a pipe or file use `perdure events --follow`");
  const other = ["json", "all", "cursor", "wide"].find((name) => given.flag(name));
  if (other !== undefined) throw conflictError("--watch", `--${other}`);
  const shown = shownIn(context);
  return withPerdure(context, (perdure) =>
    watchTable(context, shown.columns, async () => {
      const now = await serverNow(perdure);
      const filter = await withWholeIds(perdure, readPages(given, now));
      const { jobs, next } = await perdure.jobs(filter);
      const workers = await bySession(perdure);
      const lines = jobs.map((job) => lineOf(job, now, workers));
      return { rows: rowsOf(lines, shown), hasMore: next !== null };
    }),
  );
}

/** The cells of a job. Each is one line; a payload, which may be large, is not kept. */
interface JobTableLine {
  readonly id: string;
  readonly cells: Readonly<Record<Exclude<JobTableHead, "ID">, TextPiece>>;
}

type JobTableHead = keyof typeof COLUMNS;

const COLUMNS = {
  ID: { head: "ID" },
  NAME: { head: "NAME", flexible: true },
  KIND: { head: "KIND" },
  QUEUE: { head: "QUEUE" },
  STATE: { head: "STATE" },
  REASON: { head: "REASON" },
  ATTEMPT: { head: "ATTEMPT", side: "right" },
  AGE: { head: "AGE", side: "right" },
  SUBMITTED: { head: "SUBMITTED" },
  KEY: { head: "KEY" },
  COMMAND: { head: "COMMAND" },
  FAILURE: { head: "FAILURE", flexible: true },
} as const satisfies Record<string, Column>;

const USUAL: readonly JobTableHead[] = ["ID", "NAME", "STATE", "ATTEMPT", "AGE"];
const DEAD: readonly JobTableHead[] = ["ID", "NAME", "REASON", "AGE", "FAILURE"];
/** With --parent, the failure of each child is shown too. */
const CHILDREN: readonly JobTableHead[] = [...USUAL, "FAILURE"];
const WIDE: readonly JobTableHead[] = [
  ...(["ID", "NAME", "KIND", "QUEUE", "STATE", "ATTEMPT", "AGE", "SUBMITTED", "KEY", "COMMAND", "FAILURE"] as const),
];

interface JobTableLayout {
  readonly heads: readonly JobTableHead[];
  readonly columns: readonly Column[];
  /** Shorten ids. */
  readonly isShort: boolean;
}

function shownIn({ given, io }: CommandContext): JobTableLayout {
  const isWide = given.flag("wide");
  const usual = given.flag("parent") ? CHILDREN : USUAL;
  const heads = isWide ? WIDE : given.flag("dead") || given.flag("reason") ? DEAD : usual;
  return { heads, columns: heads.map((head) => COLUMNS[head]), isShort: !isWide && io.columns !== undefined };
}

function rowsOf(lines: readonly JobTableLine[], { heads, isShort }: JobTableLayout): TextPiece[][] {
  const ids = isShort ? shortIds(lines) : lines.map(({ id }) => id);
  return lines.map(({ cells }, i) => heads.map((head) => (head === "ID" ? (ids[i] as string) : cells[head])));
}

function lineOf(job: JobInfo, now: number, workers: ReadonlyMap<string, KnownWorker>): JobTableLine {
  return {
    id: job.id,
    cells: {
      NAME: jobName(job),
      KIND: job.kind,
      QUEUE: job.queue,
      STATE: stateText(job, now, workers),
      REASON: painted("red", job.discardedAt === null ? (job.reason ?? "") : `${job.reason} (discarded)`),
      ATTEMPT: String(job.attempt),
      AGE: painted("dim", showSince(job.submittedAt, now)),
      SUBMITTED: showLocal(job.submittedAt),
      KEY: job.key ?? "",
      COMMAND: commandLine(job),
      FAILURE: failureLine(job),
    },
  };
}
