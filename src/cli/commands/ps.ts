/** `perdure ps`: jobs, newest first, a page at a time. */
import { asOneOf } from "../../core/check.ts";
import { JOB_STATES } from "../../core/job.ts";
import type { JobInfo } from "../../embedded/job-info.ts";
import type { JobsFilter } from "../../embedded/options.ts";
import type { Perdure } from "../../embedded/perdure.ts";
import type { SessionRow } from "../../store/store.ts";
import type { Given } from "../arguments.ts";
import { type Painted, type Piece, painted } from "../colour.ts";
import { type Command, READING } from "../command.ts";
import { withData } from "../data.ts";
import { EXIT, usageError } from "../exit.ts";
import { bySession, commandLine, stateWords } from "../job-text.ts";
import { showSince } from "../print.ts";

const DEFAULT_LIMIT = 20;
/** What the library gives at a time. */
const MAX_LIMIT = 1_000;
/** Inputs of jobs may have a megabyte each: with `--all` few of them are in memory at once. */
const ALL_PAGE = 100;

export const ps: Command = {
  name: "ps",
  summary: "List jobs, newest first",
  usage: "perdure ps [OPTIONS]",
  options: [
    { name: "state", type: "string", multiple: true, value: "STATE", help: `Only these: ${JOB_STATES.join(", ")}.` },
    { name: "queue", type: "string", multiple: true, value: "NAME", help: "Only jobs of this queue." },
    { name: "kind", type: "string", multiple: true, value: "KIND", help: "Only jobs of this kind." },
    { name: "tag", type: "string", value: "TAG", help: "Only jobs with this tag." },
    { name: "limit", short: "n", type: "string", value: "N", help: `At most so many. Default: ${DEFAULT_LIMIT}.` },
    { name: "all", short: "a", type: "boolean", help: "All there are." },
    { name: "cursor", type: "string", value: "CURSOR", help: "Go on where a list with the same filter ended." },
    ...READING,
  ],
  examples: ["perdure ps --state failed", "perdure ps --kind exec --all --json"],

  async run(context) {
    const { given, out } = context;
    given.atMost(0);
    const pages = readPages(given);
    await withData(context, async (perdure) => {
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
  },
};

interface Pages {
  readonly filter: JobsFilter;
  readonly all: boolean;
}

function readPages(given: Given): Pages {
  const all = given.flag("all");
  const limit = given.integer("limit", { min: 1, max: MAX_LIMIT });
  if (all && limit !== undefined) throw usageError("--all and --limit: give one of them");
  const filter: JobsFilter = { limit: all ? ALL_PAGE : (limit ?? DEFAULT_LIMIT) };
  const states = given.texts("state").map((state) => asOneOf(state, JOB_STATES, "--state"));
  if (states.length > 0) filter.state = [...new Set(states)].sort();
  for (const name of ["queue", "kind"] as const) {
    const names = given.texts(name).map((text) => filled(name, text));
    if (names.length > 0) filter[name] = [...new Set(names)].sort();
  }
  for (const name of ["tag", "cursor"] as const) {
    const text = given.text(name);
    if (text !== undefined) filter[name] = filled(name, text);
  }
  return { filter, all };
}

function filled(name: string, text: string): string {
  if (text.trim() !== "" && text.length <= 500) return text;
  throw usageError(`--${name}: give a text of 1 to 500 characters`);
}

/** One page of jobs, or all pages one after the other. */
class Listing {
  /** Where the list goes on; null when it is at its end. Known when the jobs have been read. */
  next: string | null = null;
  readonly #perdure: Perdure;
  readonly #pages: Pages;

  constructor(perdure: Perdure, pages: Pages) {
    this.#perdure = perdure;
    this.#pages = pages;
  }

  async *jobs(): AsyncGenerator<JobInfo, void, void> {
    const { filter, all } = this.#pages;
    do {
      const page = await this.#perdure.jobs(this.next === null ? filter : { ...filter, cursor: this.next });
      this.next = page.next;
      yield* page.jobs;
    } while (all && this.next !== null);
  }
}

const COLUMNS = [
  { head: "ID" },
  { head: "KIND", flexible: true },
  { head: "STATE" },
  { head: "RUNS", side: "right" },
  { head: "AGE", side: "right" },
  { head: "WHAT", flexible: true },
] as const;

function row(job: JobInfo, now: number, workers: ReadonlyMap<string, SessionRow>): Piece[] {
  const age: Painted = painted("dim", showSince(job.submittedAt, now));
  return [job.id, job.kind, stateWords(job, now, workers), String(job.attempt), age, commandLine(job)];
}
