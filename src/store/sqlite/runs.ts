/** The runs of playbooks: their verbs together. */
import type { RunStore } from "../store.ts";
import { advanceCalls, advanceVerb } from "./advance.ts";
import type { SqliteCalls } from "./calls.ts";
import type { SqliteContext } from "./context.ts";
import { dueReader, runLoader } from "./inbox.ts";
import { catalogStore } from "./playbooks.ts";
import type { SqliteReader } from "./read.ts";
import { runReader, stepReader } from "./run-reader.ts";

export function runStore(context: SqliteContext, read: SqliteReader, calls: SqliteCalls): RunStore {
  const due = dueReader(context);
  const runs = runReader(context);
  const load = runLoader(context);
  const steps = stepReader(context);
  const advance = advanceVerb(context);
  return {
    due: (query) => calls.answer(() => due(query)),
    load: (ids, now, known) => calls.answer(() => load(ids, now, known)),
    async advance(writes, now) {
      const parts = advanceCalls(writes).map((some) =>
        calls.submit(
          advance,
          some.map((write) => ({ write, now })),
        ),
      );
      return (await Promise.all(parts)).flat();
    },
    outputs: (run, rows) => calls.answer(() => steps.outputs(run, rows)),
    items: (run, loop, chars) => calls.answer(() => steps.items(run, loop, chars)),
    list: (run, loop) => calls.answer(() => steps.list(run, loop)),
    variables: (run) => calls.answer(() => runs.variables(run)),
    row: (id) =>
      calls.answer(() => {
        const job = read.stored(id);
        return job === null ? null : runs.ofJob(job);
      }),
    steps: (query) => calls.answer(() => steps.page(query)),
    openJobs: (run, limit, upTo) => calls.answer(() => steps.openJobs(run, limit, upTo)),
    ...catalogStore(context, calls),
  };
}
