/** The event feed: of one job, and of all. */
import { Type } from "typebox";
import { Count, closed, EventSchema, OfJob, type Operation, orNull, View, words } from "../schemas.ts";
import { LIMIT } from "../wire.ts";

const FEED = {
  after: Type.Optional(Count),
  before: Type.Optional(Count),
  order: Type.Optional(words(["oldest", "newest"])),
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: LIMIT.events })),
};

const Feed = closed(FEED);
const FEED_TEXT =
  "A page of events as JSON; `next` is the `after` of the next page, or with `order=newest` its `before`; null at the end. With `Accept: text/event-stream`, " +
  "those after `Last-Event-ID` (or `after`) and then those to come, as server-sent events whose ids are their numbers; " +
  "with neither of the two, from now on.";

const EventPage = closed({ events: Type.Array(EventSchema), next: orNull(Type.Integer()) });

export const EVENT_OPERATIONS = {
  listJobEvents: {
    ...{
      tag: "jobs",
      summary: "Events of a job",
      description: `${FEED_TEXT} With \`view\`, all of them in the format of another system.`,
      params: OfJob,
      query: closed({
        ...FEED,
        view: View,
        step: Type.Optional(
          Type.String({
            minLength: 1,
            maxLength: 100,
            description: "With `view`, of a run: only the events of this step.",
          }),
        ),
      }),
      reply: EventPage,
    },
    isSearch: true,
    jobToken: true,
    isFeed: true,
  },
  listEvents: {
    tag: "events",
    summary: "Events of all jobs",
    description: FEED_TEXT,
    query: Feed,
    reply: EventPage,
    isSearch: true,
    isFeed: true,
  },
} as const satisfies Readonly<Record<string, Operation>>;
