/** Takes back what a claim was given whose reply could not be delivered. Only names the jobs: they are settled as released. */
import { noteUndelivered } from "../claim-verbs.ts";
import type { WithdrawRequest } from "../store.ts";
import type { Context } from "./context.ts";
import type { Verb } from "./writer.ts";

interface Claim {
  readonly session: number;
  readonly jobs: string;
  readonly deliveries: number;
  readonly undelivered: string;
}

export function withdrawVerb({ db }: Context): Verb<WithdrawRequest, { jobId: string; attempt: number }[]> {
  const find = db.prepare(
    `select c.session, c.jobs, c.deliveries, c.undelivered from session s cross join claim c on c.session = s.no
     where s.id = ? and c.claim_id = ?`,
  );
  const note = db.prepare("update claim set undelivered = ? where session = ? and claim_id = ?");
  const close = db.prepare("update claim set jobs = '[]' where session = ? and claim_id = ?");
  const held = db.prepare(
    `select j.id as jobId, j.attempt from json_each(?) as c cross join job j on j.no = c.value ->> 0
     where j.state = 1 and j.session = ? and j.attempt = c.value ->> 1`,
  );

  function withdrawOne({ session, claimId, delivery }: WithdrawRequest) {
    const claim = find.get(session, claimId) as Claim | undefined;
    if (claim === undefined) return [];
    const { text, all } = noteUndelivered(claim.undelivered, delivery, claim.deliveries);
    note.run(text, claim.session, claimId);
    if (!all) return [];
    close.run(claim.session, claimId);
    return held.all(claim.jobs, claim.session) as { jobId: string; attempt: number }[];
  }

  return { order: 10, run: (items) => items.map(withdrawOne) };
}
