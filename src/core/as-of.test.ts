import { describe, expect, it } from "vitest";
import { attemptsAsOf, eventsAsOf } from "./as-of.ts";
import type { Job } from "./job.ts";
import { presets } from "./presets.ts";
import { completed, exited, INTERRUPTED, JobStory, lost, RELEASED, WAITING } from "./testing-job.ts";

describe("what is recorded of a job", () => {
  /** The row after each of its changes, with the number of attempts that were closed by then. */
  const rows: { readonly job: Job; readonly closed: number }[] = [];
  const story = new JobStory({ policy: { ...presets.default, maxAttempts: 3 } });
  let closed = 0;
  const keep = () => rows.push({ job: story.job, closed });
  keep();
  for (const outcome of [exited(1), lost(), INTERRUPTED, RELEASED, WAITING, "redrive", completed()] as const) {
    if (outcome === "redrive") {
      story.command({ kind: "unblock", attempt: 5, runAt: story.now });
      keep();
      story.command({ kind: "cancel" });
      keep();
      story.command({ kind: "redrive" });
      keep();
      continue;
    }
    story.start();
    keep();
    story.settle(outcome);
    closed += 1;
    keep();
  }
  const attempts = Array.from({ length: closed }, (_, i) => ({ attempt: i + 1 }));

  it.each(rows.map((row) => [row.job.revision, row.job.state, row] as const))(
    "as of revision %i, %s, is what stood there then",
    (revision, _, row) => {
      expect(eventsAsOf(row.job, story.events)).toEqual(story.events.slice(0, revision));
      expect(attemptsAsOf(row.job, attempts)).toHaveLength(row.closed);
    },
  );
});
