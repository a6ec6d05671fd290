/** `perdure ps`: jobs, newest first, a page at a time. */

import { jobName } from "../../core/job/job-name.ts";
import type { JobInfo } from "../../core/job/views.ts";
import { type CliCommand, type CommandContext, READING } from "../command.ts";
import { EXIT, usageError } from "../exit.ts";
import { watchTable } from "../follow/watch-table.ts";
import { JobListing, LIST_OPTIONS, readPages, withWholeIds } from "../jobs/job-list.ts";
import { bySession, commandLine, failureLine, type KnownWorker, shortIds, stateWords } from "../output/job-text.ts";
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
    "On a terminal ids are shortened, and every command takes them so; names and failures are cut to the width. Into a pipe " +
    "or file, and with --wide, everything is whole. A search by a pattern or a reason checks a part of the jobs at a time and " +
    "reports where to go on.",
  options: [
    ...LIST_OPTIONS,
    { name: "wide", type: "boolean", help: "Everything in full, with kind, queue, key, command and failure." },
    { name: "watch", short: "w", type: "boolean", help: "On a terminal: show it anew each second, until Ctrl-C." },
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
    if (given.flag("json") && given.flag("wide")) throw usageError("--json and --wide cannot be used together");
    readPages(given, Date.now()); // what is wrong with the options is said before anything is opened
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
      else out.note(listed.isShort ? "no matching job so far" : "no matching jobs");
    }
    if (listed.next !== null) {
      const why = listed.isShort ? "not all jobs were checked" : "there are more";
      out.note(`${why}: repeat it with --cursor ${listed.next} for the next, or with --all`);
    }
  });
  return EXIT.done;
}

/** Times ago move with the table. */
function watch(context: CommandContext): Promise<number> {
  const { given, io } = context;
  if (!io.isTTY) throw usageError("--watch: it needs a terminal; into a pipe or file, use `perdure events --follow`");
  const other = ["json", "all", "cursor", "wide"].find((name) => given.flag(name));
  if (other !== undefined) throw usageError(`--watch and --${other} cannot be used together`);
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

/** What may be shown of a job. All of it is one line; a payload, which may be large, is not kept. */
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
/** With a parent, each child's failure is shown, so that nobody has to ask for each. */
const FAMILY: readonly JobTableHead[] = [...USUAL, "FAILURE"];
const WIDE: readonly JobTableHead[] = [
  ...(["ID", "NAME", "KIND", "QUEUE", "STATE", "ATTEMPT", "AGE", "SUBMITTED", "KEY", "COMMAND", "FAILURE"] as const),
];

interface JobTableLayout {
  readonly heads: readonly JobTableHead[];
  readonly columns: readonly Column[];
  /** Cut what has no end, and shorten ids. */
  readonly isShort: boolean;
}

function shownIn({ given, io }: CommandContext): JobTableLayout {
  const isWide = given.flag("wide");
  const usual = given.flag("parent") ? FAMILY : USUAL;
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
      STATE: stateWords(job, now, workers),
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
