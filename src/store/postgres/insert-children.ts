/** Stores jobs that have parents. Their parents' rows are locked before, in the order of their numbers, and stay so until
 *  the children are there: whoever ends or cancels a parent either finds the child, or was there first, and the child
 *  is refused. A key that names a job already is answered whatever became of the parent: a submit that is
 *  repeated finds its child. */
import { JOB_STATES, type JobState } from "../../core/job.ts";
import { type ParentFacts, refusedChild } from "../parent-rules.ts";
import type { InsertAnswer } from "../store.ts";
import { texts } from "./arrays.ts";
import type { Context } from "./context.ts";
import type { Row, Statement, Value } from "./driver.ts";
import { type Ask, inserter, keyName, takenAnswer } from "./insert.ts";
import { type InsertItem, LOGGED, type NameNumbers } from "./insert-statements.ts";

export function childInserter(context: Context) {
  const { sql, interned } = context;
  const { insert, takenKeys } = inserter(context);
  const lock = sql(
    "insert_parents",
    `select b.id, j.lane, j.state, j.attempt, j.cancel_requested_at, j.budget from $s.submission b join $s.job j on j.no = b.job
     where b.id = any ($1::text[]) order by j.no for share of j`,
  );
  const there = sql("insert_there", `select id, ${LOGGED} from $s.submission where id = any ($1::text[])`);

  /** All within one transaction, whose statements go through `ask`; `tries` is how often this has been tried before. The lanes
   *  and policies of the jobs are to be stored before: who holds a connection must not wait for another. */
  return async (items: readonly InsertItem[], names: NameNumbers, ask: Ask, tries: number): Promise<InsertAnswer[]> => {
    const parents = await lockParents(items, ask);
    const answers: (InsertAnswer | null)[] = items.map(({ job }) =>
      job.parent === null ? null : refusedChild(job, parents.get(job.parent.id) ?? null),
    );
    const good = items
      .filter((_, i) => answers[i] === null)
      .map((item) => ({
        ...item,
        above: item.job.parent === null ? null : (parents.get(item.job.parent.id)?.budget ?? null),
      }));
    const send = (statement: (tries: number) => Statement, values: readonly Value[]) => ask(statement(tries), values);
    const stored = good.length === 0 ? [] : await insert(good, names, send, ask);
    await lookAgain(items, answers, ask, tries);
    return answers.map((answer) => answer ?? (stored.shift() as InsertAnswer));
  };

  async function lockParents(items: readonly InsertItem[], ask: Ask): Promise<Map<string, ParentFacts>> {
    const ids = new Set(items.flatMap(({ job }) => (job.parent === null ? [] : [job.parent.id])));
    const rows = await ask(lock, [texts([...ids])]);
    await interned.learn(new Set(rows.map((row) => Number(row[1]))), [], [], ask);
    return new Map(rows.map((row) => [row[0] as string, factsOf(row)]));
  }

  function factsOf([, lane, state, attempt, cancelRequestedAt, budget]: Row): ParentFacts {
    return {
      namespace: interned.lane(Number(lane)).namespace,
      state: JOB_STATES[Number(state)] as JobState,
      attempt: Number(attempt),
      cancelRequestedAt: cancelRequestedAt === null ? null : Number(cancelRequestedAt),
      budget: budget === null ? null : Number(budget),
    };
  }

  /** Of those that their parents refuse, some may be there: under their key, or stored by the first try of a repeat. */
  async function lookAgain(
    items: readonly InsertItem[],
    answers: (InsertAnswer | null)[],
    ask: Ask,
    tries: number,
  ): Promise<void> {
    const refused = items.map((item, i) => ({ ...item, i })).filter(({ i }) => answers[i] !== null);
    const named = refused.filter(({ job }) => job.key !== null);
    const rows =
      named.length === 0
        ? []
        : await takenKeys(
            named.map(({ job }) => job),
            ask,
          );
    // Only of those before it in the list has a job a key already.
    const places = new Map(items.map(({ job }, i) => [job.id, i]));
    const byKey = new Map(rows.map((row) => [keyName(row[0] as string, row[1] as string), row]));
    for (const { job, now, i } of named) {
      const row = byKey.get(keyName(job.namespace, job.key as string));
      if (row === undefined || (row[6] !== null && Number(row[6]) <= now)) continue;
      if ((places.get(row[2] as string) ?? -1) > i) continue;
      answers[i] = row[2] === job.id ? { status: "inserted", id: job.id } : takenAnswer(job, row);
    }
    if (tries === 0 || refused.length === 0) return;
    const stored = new Set((await ask(there, [texts(refused.map(({ job }) => job.id))])).map(([id]) => id));
    for (const { job, i } of refused) if (stored.has(job.id)) answers[i] = { status: "inserted", id: job.id };
  }
}
