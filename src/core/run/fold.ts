/** Rebuilds a run from its events: its progress and the rows of its steps. Stores write what an advance returns, so a row that
 *  differs from this fold is a bug. */
import type { Mutable } from "../check.ts";
import type { JobEventBody } from "../job/event.ts";
import type { Playbook } from "../playbook/playbook.ts";
import { inFileOrder, RunDraft } from "./draft.ts";
import type { Arrival, RunChange, RunProgress, StepRow } from "./run.ts";
import { newRunProgress } from "./start.ts";

/** The progress after one change. */
export function applyChange(progress: RunProgress, change: RunChange): RunProgress {
  const draft = new RunDraft(progress);
  draft.apply(change);
  return draft.progress();
}

export interface FoldedRun {
  readonly progress: RunProgress;
  /** In the order of `n`. */
  readonly steps: readonly StepRow[];
}

type TimedRunEvent = JobEventBody & { readonly at: number };

/** A run from the events of its job, in order. `playbook`: the definition that it is pinned to now. */
export function foldRun(events: readonly TimedRunEvent[], playbook: Pick<Playbook, "steps">): FoldedRun {
  const draft = new RunDraft(newRunProgress());
  const rows = new Map<number, Mutable<StepRow>>();
  const names = namesOverTime(events, playbook);
  let node = names.shift() as readonly string[];
  for (const event of events) {
    if (event.name !== "run.advanced") continue;
    for (const change of event.data.changes) {
      changeRow(rows, change, event.at, node, draft.pending);
      draft.apply(change);
      if (change.do === "remap") node = names.shift() as readonly string[];
    }
  }
  return { progress: draft.progress(), steps: [...rows.values()] };
}

/** The names of the steps by index, from the start and from each redrive with another definition on. */
function namesOverTime(events: readonly TimedRunEvent[], { steps }: Pick<Playbook, "steps">): (readonly string[])[] {
  const before = events.flatMap((event) =>
    event.name === "run.advanced"
      ? event.data.changes.flatMap((each) => (each.do === "remap" ? [each.names] : []))
      : [],
  );
  return [...before, steps.map(({ name }) => name)];
}

function changeRow(
  rows: Map<number, Mutable<StepRow>>,
  change: RunChange,
  at: number,
  names: readonly string[],
  pending: Readonly<Record<string, readonly Arrival[]>>,
): void {
  switch (change.do) {
    case "start": {
      const { n, step, visit, item, due, items } = change;
      rows.set(n, {
        n,
        node: names[step] as string,
        visit,
        item: item ?? -1,
        try: change.try ?? 1,
        state: items !== undefined ? "looping" : due !== undefined ? "waiting" : "open",
        job: change.job ?? null,
        due: due ?? null,
        tokens: item === undefined ? inFileOrder(change.by ?? pending[step] ?? []) : [],
        at,
        endedAt: null,
      });
      return;
    }
    case "end": {
      const row = rows.get(change.n) as Mutable<StepRow>;
      row.state = change.state;
      row.endedAt = at;
      return;
    }
    case "reloop":
    case "reopen": {
      const row = rows.get(change.n) as Mutable<StepRow>;
      row.state = change.do === "reloop" ? "looping" : "open";
      row.endedAt = null;
      return;
    }
  }
}
