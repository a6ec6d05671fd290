/** Children of a running attempt: submitted under its lock, and looked at by it. For workers in this process, for those of a
 *  server, and for whoever shows a job's own token. */
import { type Child, type ChildState, givenKey, type HeldParent } from "../core/child.ts";
import { PerdureError, show } from "../core/errors.ts";
import { isTerminal } from "../core/job.ts";
import { NO_INPUT } from "../core/work.ts";
import type { JobRow } from "../store/store.ts";
import type { EngineParts } from "./engine.ts";
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

/** Null: all of them, oldest first. */
export async function childStates(
  { store }: Pick<EngineParts, "store">,
  parentId: string,
  ids: readonly string[] | null,
): Promise<ChildState[]> {
  const rows = ids === null ? await allOf(store, parentId) : await store.jobs(ids);
  return Promise.all(
    rows.map(async (row, i) => {
      if (row?.parentId !== parentId) {
        throw new PerdureError("job_not_found", `${show(ids?.[i])} is no child of ${parentId}, or it was pruned`);
      }
      return stateOf(store, row);
    }),
  );
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
