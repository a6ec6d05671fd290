/** The runs of a job, numbered as the budgets count them: a run that was handed back, or that waits for others, is not charged
 *  and keeps its number when it comes again; a redrive begins at 1. It is the number that rules and conditions call `attempt`
 *  (`chargedNumber` in `core/decision/classify.ts`). Our own number of the attempt counts all runs of all chapters. */
import { chargedNumber } from "../core/decision/classify.ts";
import type { JobEvent, JobEventBody } from "../core/job/event.ts";

/** What a job was charged. */
export interface Charged {
  readonly failures: number;
  readonly losses: number;
}

export interface NumberedEvent<E extends JobEventBody = JobEvent> {
  readonly event: E;
  /** The run that it tells of, among those that are charged, from 1. */
  readonly attempt: number;
  /** The run that would come after it. */
  readonly next: number;
  readonly chapter: number;
  /** In this chapter, before it. */
  readonly charged: Charged;
}

const NOTHING: Charged = { failures: 0, losses: 0 };

/** `events` are all of a job, in order. */
export function counted<E extends JobEventBody>(events: readonly E[]): NumberedEvent<E>[] {
  let after = NOTHING;
  let chapter = 1;
  return events.map((event) => {
    const charged = after;
    if (event.name === "job.redriven") {
      after = NOTHING;
      chapter += 1;
    } else if ("counters" in event.data) {
      after = { ...charged, ...chargedIn(event.data.counters) };
    }
    return { event, attempt: chargedNumber(charged), next: chargedNumber(after), chapter, charged };
  });
}

/** Events carry the counters that moved. */
function chargedIn({ failures, losses }: Partial<Charged> = {}): Partial<Charged> {
  return { ...(failures === undefined ? {} : { failures }), ...(losses === undefined ? {} : { losses }) };
}

/** What was charged in all chapters but the last. */
export function chargedBefore(events: readonly JobEventBody[]): Charged {
  const ends = counted(events).filter(({ event }) => event.name === "job.redriven");
  return ends.reduce(
    (sum, { charged }) => ({ failures: sum.failures + charged.failures, losses: sum.losses + charged.losses }),
    NOTHING,
  );
}
