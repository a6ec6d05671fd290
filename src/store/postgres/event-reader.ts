/** Reads events: pages of the feed, of one namespace and of one job. */
import type { PerdureEvent } from "../../core/job/event.ts";
import { currentEvent } from "../../core/job/event-formats.ts";
import {
  charsOf,
  type EventScan,
  eventScanOf,
  type FoundEvents,
  namespacePage,
  SCAN_EVENTS,
  type SeqRange,
  seqRange,
  wholePage,
} from "../pages.ts";
import type { EventOrder, EventPage, EventQuery, EventStore } from "../store.ts";
import type { StoredJob } from "../stored-job.ts";
import type { PostgresContext } from "./context.ts";
import type { PgRow } from "./driver.ts";
import { Watermark } from "./events.ts";

const EVERYTHING: EventQuery = { after: 0, limit: -1 };

export type PostgresEventReader = ReturnType<typeof eventReader>;

export function eventReader(context: PostgresContext) {
  const { db, sql } = context;
  const feed = new Watermark(context);
  const reads = { oldest: eventStatements("asc", "max"), newest: eventStatements("desc", "min") };
  const last = sql("last_seq", "select max(seq) from $s.event where seq <= $1");

  function eventStatements(direction: "asc" | "desc", last: "max" | "min") {
    const between = "e.seq > $1 and e.seq < $2";
    // The first rows, up to a number of characters; the row that exceeds it is the last.
    const page = (name: string, most: string, rows: string, by = "seq") =>
      sql(
        `${name}_${direction}`,
        `select seq, id, n, at, name, data, chars from (
           select r.*, sum(chars) over (order by ${by} ${direction} rows unbounded preceding) as chars_so_far
           from (select e.seq, e.n, e.at, e.name, e.data, length(e.data)::int as chars, ${rows}) r
         ) p where chars_so_far - chars < ${most}::bigint order by ${by} ${direction}`,
      );
    return {
      all: page(
        "events",
        "$4",
        `b.id from $s.event e left join $s.submission b on b.job = e.job
         where ${between} order by e.seq ${direction} limit $3`,
      ),
      // A job's events are written under its row's lock, so they have no gaps. By `n`, the job's index: a page costs
      // the same wherever it starts.
      ofJob: page(
        "events_of_job",
        "$6",
        `$4::text as id from $s.event e where job = $3 and job is not null and ${between}
         and n > coalesce((select x.n from $s.event x where x.seq = $1 and x.job = $3), 0)
         and n < coalesce((select x.n from $s.event x where x.seq = $2 and x.job = $3), 2147483647)
         order by n ${direction} limit $5`,
        "n",
      ),
      // First the last of the next events to scan, then the matches among them.
      scanEnd: sql(
        `events_scan_${direction}`,
        `select ${last}(seq), count(*) from
           (select seq from $s.event e where ${between} order by seq ${direction} limit $3) scanned`,
      ),
      ofNamespace: page(
        "events_of_namespace",
        "$5",
        `b.id from $s.event e
         left join $s.submission b on b.job = e.job left join $s.lane l on l.no = b.lane
         where ${between} and (e.job is null or l.namespace = $3) order by e.seq ${direction} limit $4`,
      ),
    };
  }

  async function ofJob(job: Pick<StoredJob, "no" | "id">, query = EVERYTHING): Promise<FoundEvents> {
    const limit = query.limit < 0 ? null : query.limit;
    const { after, before } = seqRange(query);
    const statement = reads[query.order ?? "oldest"].ofJob;
    return foundIn(await db.read(statement, [after, before, job.no, job.id, limit, charsOf(query)]));
  }

  /** Scans the next events for those of a namespace. */
  async function scanEvents(
    namespace: string,
    { after, before }: SeqRange,
    most: { readonly limit: number; readonly chars: number },
    order: EventOrder,
  ): Promise<EventScan> {
    const { scanEnd, ofNamespace } = reads[order];
    const [[seq, scanned] = []] = await db.read(scanEnd, [after, before, SCAN_EVENTS]);
    if (typeof seq !== "number") return { events: [], chars: 0, upTo: after, isEnd: true };
    const [low, high] = order === "oldest" ? [after, seq + 1] : [seq - 1, before];
    const found = foundIn(await db.read(ofNamespace, [low, high, namespace, most.limit, most.chars]));
    return eventScanOf(found, most, seq, scanned as number);
  }

  /** A page of the feed, of all namespaces or of one. */
  async function feedPage(query: EventQuery): Promise<EventPage> {
    const { limit, namespace, order = "oldest" } = query;
    const { after, before: wanted } = seqRange(query);
    const before = Math.min(wanted, (await feed.safe()) + 1);
    if (namespace === undefined) {
      return wholePage(foundIn(await db.read(reads[order].all, [after, before, limit, charsOf(query)])), query);
    }
    const scan = (range: SeqRange, most: { readonly limit: number; readonly chars: number }) =>
      scanEvents(namespace, range, most, order);
    return namespacePage({ ...query, before, namespace }, context.clock, scan);
  }

  return {
    ofJob,
    feedPage,
    lastSeq: async () => ((await db.read(last, [await feed.safe()]))[0]?.[0] as number | null) ?? 0,
  };
}

/** `jobs` reads the jobs with these ids. */
export function eventStore(
  read: PostgresEventReader,
  jobs: (ids: readonly string[]) => Promise<StoredJob[]>,
): EventStore {
  return {
    async page(query) {
      const { jobId, namespace } = query;
      if (jobId === undefined) return read.feedPage(query);
      const [job] = await jobs([jobId]);
      const isForeign = job === undefined || (namespace !== undefined && job.namespace !== namespace);
      return wholePage(isForeign ? NOTHING : await read.ofJob(job, query), query);
    },
    lastSeq: read.lastSeq,
  };
}

const NOTHING: FoundEvents = { events: [], chars: 0 };

/** The last column is the number of characters, as counted by the statement. */
function foundIn(rows: readonly PgRow[]): FoundEvents {
  return { events: rows.map(toEvent), chars: rows.reduce((sum, row) => sum + (row[6] as number), 0) };
}

function toEvent([seq, jobId, n, at, name, data]: PgRow): PerdureEvent {
  return currentEvent({ seq, jobId, n, at, name, data: JSON.parse(data as string) } as PerdureEvent);
}
