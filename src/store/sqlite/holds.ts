/** What running jobs take of their host's cpu and memory: one row for each that takes any, written by its claim. A row counts
 *  while its job runs that attempt, so that no way to end an attempt has to know of it. */
import type { Resources } from "../../core/resources.ts";
import { hostName, type Taken } from "../shares.ts";
import type { Context } from "./context.ts";

/** The session whose claim it is. */
interface Holder {
  readonly no: number;
  readonly id: string;
  readonly namespace: string;
  readonly host: string;
}

export function holdKeeper({ db }: Context) {
  const sum = db.prepare(
    `select coalesce(sum(h.cpu), 0), coalesce(sum(h.memory), 0),
       coalesce(sum(iif(h.session = ?1, h.cpu, 0)), 0), coalesce(sum(iif(h.session = ?1, h.memory, 0)), 0)
     from hold h indexed by hold_host cross join job j on j.no = h.job
     where h.host = ?2 and j.state = 1 and j.attempt = h.attempt`,
  );
  sum.setReturnArrays(true);
  const dropEnded = db.prepare(
    `delete from hold indexed by hold_host where host = ? and not exists (
       select 1 from job j where j.no = hold.job and j.state = 1 and j.attempt = hold.attempt)`,
  );
  const add = db.prepare(
    `insert or replace into hold (job, attempt, session, host, cpu, memory)
     select no, attempt, ?, ?, ?, ? from job where no in (select value from json_each(?))`,
  );

  return {
    taken(holder: Holder): Taken {
      const row = sum.get(holder.no, hostName(holder)) as [number, number, number, number];
      return { byHost: { cpu: row[0], memory: row[1] }, bySession: { cpu: row[2], memory: row[3] } };
    },
    /** These jobs were started just now, and take so much each. */
    hold(holder: Holder, jobs: readonly number[], { cpu, memory }: Resources): void {
      const host = hostName(holder);
      dropEnded.run(host);
      add.run(holder.no, host, cpu, memory, JSON.stringify(jobs));
    },
  };
}
