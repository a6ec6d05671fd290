/** Reads events: pages of the feed, of one namespace and of one job. */
import type { PerdureEvent } from "../../core/job/event.ts";
import { currentEvent } from "../../core/job/event-formats.ts";
import type { EventLoop } from "../../lib/clock.ts";
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
import type { EventOrder, EventQuery, EventStore } from "../store.ts";
import type { StoredJob } from "../stored-job.ts";
import type { SqliteCalls } from "./calls.ts";
import type { SqliteContext } from "./context.ts";

const EVERYTHING: EventQuery = { after: 0, limit: -1 };

export type SqliteEventReader = ReturnType<typeof eventReader>;

export function eventReader({ db }: Pick<SqliteContext, "db">) {
  const reads = { oldest: eventStatements("asc", "max"), newest: eventStatements("desc", "min") };
  const last = db.prepare("select max(seq) as seq from event");

  function eventStatements(direction: "asc" | "desc", last: "max" | "min") {
    const between = "e.seq > ? and e.seq < ?";
    return {
      all: db.prepare(
        `select e.seq, e.n, e.at, e.name, e.data, j.id from event e left join job j on j.no = e.job
         where ${between} order by e.seq ${direction} limit ?`,
      ),
      // By `n`, the job's index: a page costs the same wherever it starts.
      ofJob: db.prepare(
        `select seq, n, at, name, data, ?2 as id from event where job = ?1 and seq > ?3 and seq < ?4
         and n > coalesce((select n from event where seq = ?3 and job = ?1), 0)
         and n < coalesce((select n from event where seq = ?4 and job = ?1), 9e15) order by n ${direction} limit ?5`,
      ),
      // First the last of the next events to scan, then the matches among them.
      scanEnd: db.prepare(
        `select ${last}(seq) as seq, count(*) as scanned
         from (select seq from event e where ${between} order by seq ${direction} limit ?)`,
      ),
      ofNamespace: db.prepare(
        `select e.seq, e.n, e.at, e.name, e.data, j.id from event e
         left join job j on j.no = e.job left join lane l on l.no = j.lane
         where ${between} and (e.job is null or l.namespace = ?) order by e.seq ${direction} limit ?`,
      ),
    };
  }

  function all(query: EventQuery): FoundEvents {
    const { after, before } = seqRange(query);
    return upTo(charsOf(query), reads[query.order ?? "oldest"].all.iterate(after, before, query.limit));
  }

  function ofJob({ no, id }: Pick<StoredJob, "no" | "id">, query = EVERYTHING): FoundEvents {
    const { after, before } = seqRange(query);
    const { ofJob } = reads[query.order ?? "oldest"];
    return upTo(charsOf(query), ofJob.iterate(no, id, after, before, query.limit));
  }

  /** Scans the next events for those of a namespace. */
  function scanEvents(
    namespace: string,
    { after, before }: SeqRange,
    most: { readonly limit: number; readonly chars: number },
    order: EventOrder = "oldest",
  ): EventScan {
    const { scanEnd, ofNamespace } = reads[order];
    const { seq, scanned } = scanEnd.get(after, before, SCAN_EVENTS) as { seq: number | null; scanned: number };
    if (seq === null) return { events: [], chars: 0, upTo: after, isEnd: true };
    const [low, high] = order === "oldest" ? [after, seq + 1] : [seq - 1, before];
    const found = upTo(most.chars, ofNamespace.iterate(low, high, namespace, most.limit));
    return eventScanOf(found, most, seq, scanned);
  }

  return { all, ofJob, scanEvents, lastSeq: () => (last.get() as { seq: number | null }).seq ?? 0 };
}

export function eventStore(
  read: SqliteEventReader,
  jobOf: (id: string) => StoredJob | null,
  calls: SqliteCalls,
  loop: Pick<EventLoop, "turn">,
): EventStore {
  function pageOf(query: EventQuery): FoundEvents {
    const { jobId, namespace } = query;
    if (jobId === undefined) return read.all(query);
    const job = jobOf(jobId);
    if (job === null || (namespace !== undefined && job.namespace !== namespace)) return { events: [], chars: 0 };
    return read.ofJob(job, query);
  }
  return {
    async page(query) {
      const { namespace, jobId, order } = query;
      if (namespace === undefined || jobId !== undefined) {
        return wholePage(await calls.answer(() => pageOf(query)), query);
      }
      return namespacePage({ ...query, namespace }, loop, (range, most) =>
        calls.answer(() => read.scanEvents(namespace, range, most, order)),
      );
    },
    lastSeq: () => calls.answer(read.lastSeq),
  };
}

interface EventRow {
  readonly seq: number;
  readonly id: string | null;
  readonly n: number;
  readonly at: number;
  readonly name: string;
  readonly data: string;
}

/** The first rows, up to a number of characters; the row that exceeds it is the last. */
function upTo(most: number, rows: Iterable<unknown>): FoundEvents {
  const events: PerdureEvent[] = [];
  let chars = 0;
  for (const row of rows) {
    events.push(toEvent(row as EventRow));
    chars += (row as EventRow).data.length;
    if (chars >= most) break;
  }
  return { events, chars };
}

function toEvent({ seq, id, n, at, name, data }: EventRow): PerdureEvent {
  return currentEvent({ seq, jobId: id, n, at, name, data: JSON.parse(data) } as PerdureEvent);
}
