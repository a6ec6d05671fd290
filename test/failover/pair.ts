/** A primary with a synchronous standby behind one address, as clients see them: the address leads to the current
 *  primary. A failover kills the primary, promotes the standby and moves the address. */
import { startProxy } from "../postgres/chaos-proxy.ts";
import { type PostgresServer, startServer } from "../postgres/server.ts";
import { makeSynchronous, promote, startStandby } from "../postgres/standby.ts";

const HOST = "127.0.0.1";
const SETTINGS = { shared_buffers: "64MB" };

/** When the address moves: clients either reach a machine that is down, or one that does not accept writes yet. */
export type Move = "before the promotion" | "after the promotion";

export interface Failover {
  /** By `performance.now()`. */
  readonly crashedAt: number;
  readonly promotedAt: number;
}

export type Pair = Awaited<ReturnType<typeof startPair>>;

export async function startPair() {
  let primary = await startServer({ settings: SETTINGS });
  let standby: PostgresServer | null = await startStandby(primary);
  await makeSynchronous(primary);
  const proxy = await startProxy({ host: HOST, port: primary.port });

  return {
    /** The address that moves. */
    url: primary.url.replace(`:${primary.port}/`, `:${proxy.port}/`),
    /** The current primary, without the indirection of the address. */
    get direct(): string {
      return primary.url;
    },
    async failOver(move: Move): Promise<Failover> {
      if (standby === null) throw new Error("there is no standby: call renew() to create one");
      const [old, next] = [primary, standby];
      await old.down("immediate");
      const crashedAt = performance.now();
      if (move === "before the promotion") proxy.retarget(HOST, next.port);
      await promote(next);
      const promotedAt = performance.now();
      proxy.retarget(HOST, next.port);
      [primary, standby] = [next, null];
      await old.stop("immediate");
      return { crashedAt, promotedAt };
    },
    /** Gives the current primary a standby again. */
    async renew(): Promise<void> {
      standby ??= await startStandby(primary);
      await makeSynchronous(primary);
    },
    async stop(): Promise<void> {
      await proxy.close();
      await Promise.all([primary.stop("immediate"), standby?.stop("immediate")]);
    },
  };
}
