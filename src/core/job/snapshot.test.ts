import { describe, expect, it } from "vitest";
import { presets } from "../policy/presets.ts";
import type { Job } from "./job.ts";
import { attemptsAtSnapshot, eventsAtSnapshot } from "./snapshot.ts";
import { completed, exited, INTERRUPTED, lost, RELEASED, TestJobHistory, WAITING } from "./testing-job.ts";

describe("what is recorded of a job", () => {
  /** The row after each of its changes, with the number of attempts that were closed by then. */
  const rows: { readonly job: Job; readonly closed: number }[] = [];
  const story = new TestJobHistory({ policy: { ...presets.default, maxAttempts: 3 } });
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
      expect(eventsAtSnapshot(row.job, story.events)).toEqual(story.events.slice(0, revision));
      expect(attemptsAtSnapshot(row.job, attempts)).toHaveLength(row.closed);
    },
  );
});
