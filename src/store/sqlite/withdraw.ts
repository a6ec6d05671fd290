/** Takes back what a claim was given whose reply could not be delivered. Only names the jobs: they are settled as released. */
import type { WithdrawRequest } from "../store.ts";
import type { Context } from "./context.ts";
import type { Verb } from "./writer.ts";

export function withdrawVerb({ db }: Context): Verb<WithdrawRequest, { jobId: string; attempt: number }[]> {
  const find = db.prepare(
    `select c.session, c.jobs from session s cross join claim c on c.session = s.no
     where s.id = ? and c.claim_id = ? and c.deliveries = ?`,
  );
  const close = db.prepare("update claim set jobs = '[]' where session = ? and claim_id = ?");
  const held = db.prepare(
    `select j.id as jobId, j.attempt from json_each(?) as c cross join job j on j.no = c.value ->> 0
     where j.state = 1 and j.session = ? and j.attempt = c.value ->> 1`,
  );

  function withdrawOne({ session, claimId, delivery }: WithdrawRequest) {
    const claim = find.get(session, claimId, delivery) as { session: number; jobs: string } | undefined;
    if (claim === undefined) return [];
    close.run(claim.session, claimId);
    return held.all(claim.jobs, claim.session) as { jobId: string; attempt: number }[];
  }

  return { order: 10, run: (items) => items.map(withdrawOne) };
}
