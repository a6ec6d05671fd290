/** A view shows one consistent state, even if the job changes while it is read. */
import { describe, expect, it } from "vitest";
import { flusterDialect } from "../../src/dialects/fluster/dialect.ts";
import { EVENT_VIEW_NAMES, JOB_VIEW_NAMES } from "../../src/dialects/registry.ts";
import { viewOfEvents, viewOfJob } from "../../src/server/views.ts";
import type { JobRow } from "../../src/store/store.ts";
import { openStage, type Play, STORES } from "./kit.ts";

const JOB = {
  name: "flapping",
  entrypoint: ["true"],
  retry: { max_retries_failure: 100, initial_delay: 0.001, max_delay: 0.001 },
};
const PLAYS: readonly Play[] = [{ exit: 1 }, "gone", "interrupted", { exit: 2 }, "ok"];

describe.each(STORES)("on %s", (store) => {
  it("a server shows a job as it stood when its row was read", async () => {
    const stage = await openStage(store);
    const [id = ""] = await stage.apply(flusterDialect, JOB);
    const views = async (row: JobRow) => ({
      jobs: await Promise.all(JOB_VIEW_NAMES.map((name) => viewOfJob(stage, row, name))),
      events: await Promise.all(EVENT_VIEW_NAMES.map((name) => viewOfEvents(stage, row, name))),
    });
    const seen: { readonly row: JobRow; readonly shown: Awaited<ReturnType<typeof views>> }[] = [];
    const see = async () => {
      const [row] = (await stage.store.jobs([id])) as [JobRow];
      seen.push({ row, shown: await views(row) });
    };
    await see();
    for (const play of PLAYS) {
      // These views contain no due time, so they do not change with time alone.
      await stage.advance(10);
      const started = await stage.start(id);
      await see();
      await started.end(play);
      await stage.advance(10);
      await see();
    }
    for (const { row, shown } of seen) expect(await views(row), `revision ${row.revision}`).toEqual(shown);
  });
});
