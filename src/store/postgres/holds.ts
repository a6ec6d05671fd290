/** What running jobs take of their host's cpu and memory: one row for each that takes any, written by its claim. A row counts
 *  while its job runs that attempt, so that no way to end an attempt has to know of it. Claims of one host that take any go
 *  one after the other, under a lock of the transaction: two must not be promised the same. */
import type { Resources } from "../../core/resources.ts";
import { hostName, type Taken } from "../shares.ts";
import { bigints, ints } from "./arrays.ts";
import type { Connection } from "./connections.ts";
import type { Context } from "./context.ts";
import type { Row } from "./driver.ts";
import type { SessionFacts } from "./sessions.ts";

export function holdKeeper({ db, sql, generation }: Context) {
  const isRunning = "j.no = h.job and j.state + 0 = 1 and j.attempt = h.attempt";
  const sum = sql(
    "hold_sum",
    `select coalesce(sum(h.cpu), 0)::bigint, coalesce(sum(h.memory), 0)::bigint,
       coalesce(sum(h.cpu) filter (where h.session = $1), 0)::bigint,
       coalesce(sum(h.memory) filter (where h.session = $1), 0)::bigint
     from $s.hold h join $s.job j on ${isRunning} where h.host = $2`,
  );
  const lock = sql("hold_lock", "select pg_advisory_xact_lock(hashtextextended($1::text, 0))");
  const dropEnded = sql(
    "hold_drop",
    `delete from $s.hold h where h.host = $1 and not exists (select from $s.job j where ${isRunning})`,
  );
  const add = sql(
    "hold_add",
    `insert into $s.hold (job, attempt, session, host, cpu, memory)
     select m.job, m.attempt, $3, $4, $5, $6 from unnest($1::bigint[], $2::int[]) as m (job, attempt)
     on conflict (job) do update set attempt = excluded.attempt, session = excluded.session, host = excluded.host,
       cpu = excluded.cpu, memory = excluded.memory`,
  );

  const toTaken = ([row = []]: Row[]): Taken => {
    const [hostCpu, hostMemory, cpu, memory] = row as number[];
    return {
      byHost: { cpu: hostCpu ?? 0, memory: hostMemory ?? 0 },
      bySession: { cpu: cpu ?? 0, memory: memory ?? 0 },
    };
  };

  return {
    /** As of now: by the time it is used, another claim of the host may have taken some. */
    taken: async (facts: SessionFacts): Promise<Taken> => toTaken(await db.read(sum, [facts.no, hostName(facts)])),
    /** Nobody else on this host takes any until the transaction ends. */
    async lockedTaken(connection: Connection, facts: SessionFacts): Promise<Taken> {
      const host = hostName(facts);
      await connection.ask(lock, [`${generation}${host}`]);
      return toTaken(await connection.ask(sum, [facts.no, host]));
    },
    /** These jobs, of these attempts, were started just now, and take so much each. */
    async hold(
      connection: Connection,
      facts: SessionFacts,
      begun: readonly (readonly [number, number])[],
      needs: Resources,
    ) {
      const host = hostName(facts);
      await connection.ask(dropEnded, [host]);
      const [jobs, attempts] = [begun.map(([job]) => job), begun.map(([, attempt]) => attempt)];
      await connection.ask(add, [bigints(jobs), ints(attempts), facts.no, host, needs.cpu, needs.memory]);
    },
  };
}
