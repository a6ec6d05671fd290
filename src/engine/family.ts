/** Children of a running attempt: submitted under its lock, and looked at by it. For workers in this process, for those of a
 *  server, and for whoever shows a job's own token. */
import { type Child, type ChildState, givenKey, type HeldParent } from "../core/child.ts";
import { PerdureError, show } from "../core/errors.ts";
import { isTerminal } from "../core/job.ts";
import { NO_INPUT } from "../core/work.ts";
import type { JobRow } from "../store/store.ts";
import type { EngineParts } from "./engine.ts";
import { type AskingRun, runAgain } from "./run-again.ts";
import { type SubmitItem, submit } from "./submit.ts";

/** The item without its parent: that is the one who asks. */
export async function submitChild(
  parts: EngineParts,
  { jobId, attempt, namespace }: Pick<HeldParent, "jobId" | "attempt" | "namespace">,
  item: SubmitItem,
): Promise<Child<unknown>> {
  const [answer] = await submit(parts, [{ ...item, namespace, parent: { id: jobId, attempt } }]);
  if (answer?.status !== "ok") throw (answer as { error: PerdureError }).error;
  const { id, created } = answer;
  return { id, created };
}

const PAGE = 200;

/** All children of a job, oldest first. */
export async function childStates({ store }: EngineParts, parentId: string): Promise<ChildState[]> {
  const rows = await allOf(store, parentId);
  return Promise.all(rows.map((row) => stateOf(store, row)));
}

/** Children whose ends a run waits for. One that was asked for again while it was still stopping gets its new start here:
 *  when it was submitted again, it had not ended. */
export async function awaitedStates(parts: EngineParts, run: AskingRun, ids: readonly string[]): Promise<ChildState[]> {
  const { store } = parts;
  const rows = await childrenNamed(store, run.jobId, ids);
  const badly = rows.filter(({ state }) => state === "failed" || state === "cancelled");
  const isAgain = await runAgain(parts, run, badly);
  const now = isAgain ? await childrenNamed(store, run.jobId, ids) : rows;
  return Promise.all(now.map((row) => stateOf(store, row)));
}

async function childrenNamed(store: EngineParts["store"], parentId: string, ids: readonly string[]): Promise<JobRow[]> {
  return (await store.jobs(ids)).map((row, i) => {
    if (row?.parentId === parentId) return row;
    throw new PerdureError("job_not_found", `${show(ids[i])} is no child of ${parentId}, or it was pruned`);
  });
}

async function allOf(store: EngineParts["store"], parentId: string): Promise<JobRow[]> {
  const rows: JobRow[] = [];
  let cursor: string | null = null;
  do {
    const next: Pick<Parameters<typeof store.find>[0], "cursor"> = cursor === null ? {} : { cursor };
    const page: Awaited<ReturnType<typeof store.find>> = await store.find({
      ...{ parentId, order: "oldest", limit: PAGE },
      ...next,
    });
    rows.push(...page.jobs);
    cursor = page.next;
  } while (cursor !== null);
  return rows;
}

async function stateOf(store: EngineParts["store"], row: JobRow): Promise<ChildState> {
  const { id, kind, key, parentId, state, reason } = row;
  const hasFailed = isTerminal(state) && state !== "succeeded";
  const failure = hasFailed ? ((await store.attempts(id)).at(-1)?.failure ?? null) : null;
  const value = (text: string | null) =>
    text === null || text === NO_INPUT ? undefined : (JSON.parse(text) as unknown);
  return {
    ...{ id, kind, key: givenKey(parentId, key), state, reason, failure },
    ...{ payload: value(row.payload), result: state === "succeeded" ? value(row.result) : undefined },
  };
}
