/** Takes back what a claim was given whose reply could not be delivered. Only names the jobs: they are settled as released. */
import { noteUndelivered } from "../claim-verbs.ts";
import type { WithdrawRequest } from "../store.ts";
import { bigints } from "./arrays.ts";
import type { Context } from "./context.ts";
import type { Sessions } from "./sessions.ts";

export function withdrawVerb({ db, sql }: Context, sessions: Sessions) {
  // Under the session's lock, as claims with an id are.
  const lock = sql(
    "withdraw_lock",
    "select 1 from $s.session where no = $1 and reaped = 0 and ended_at is null for no key update",
  );
  const find = sql(
    "withdraw_find",
    "select jobs, deliveries, undelivered from $s.claim where session = $1 and claim_id = $2",
  );
  const note = sql("withdraw_note", "update $s.claim set undelivered = $3 where session = $1 and claim_id = $2");
  const close = sql("withdraw_close", "update $s.claim set jobs = '[]' where session = $1 and claim_id = $2");
  const read = sql(
    "withdraw_read",
    `select j.no, b.id, j.attempt from $s.job j join $s.submission b on b.job = j.no
     where j.no = any ($1::bigint[]) and j.state + 0 = 1 and j.session = $2`,
  );

  return async ({ session, claimId, delivery }: WithdrawRequest) => {
    const facts = await sessions.facts(session);
    if (facts === null) return [];
    // Repeated after a commit whose answer was lost, it finds nothing: then the jobs come back when the session renews.
    return db.transaction(
      async (connection) => {
        if ((await connection.ask(lock, [facts.no])).length === 0) return [];
        const [claim] = await connection.ask(find, [facts.no, claimId]);
        if (claim === undefined) return [];
        const [jobs, deliveries, undelivered] = claim as [string, number, string];
        const { text, all } = noteUndelivered(undelivered, delivery, deliveries);
        await connection.ask(note, [facts.no, claimId, text]);
        if (!all) return [];
        await connection.ask(close, [facts.no, claimId]);
        const attempts = new Map(JSON.parse(jobs) as [number, number][]);
        const rows = await connection.ask(read, [bigints([...attempts.keys()]), facts.no]);
        return rows
          .filter(([no, , attempt]) => attempts.get(no as number) === attempt)
          .map(([, jobId, attempt]) => ({ jobId: jobId as string, attempt: attempt as number }));
      },
      { repeat: true },
    );
  };
}
