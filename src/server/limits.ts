/** How much of the server one token may take for itself, and how much one reply holds. Options, so that an operator may
 *  choose them and tests need no thousands. */
import { LIMIT } from "../contract/wire.ts";

export interface ServerLimits {
  /** Different retry policies of the jobs of one request. */
  readonly policiesPerRequest: number;
  /** Lanes (queue, kind and labels together) that one token may have made in a namespace, its jobs included. */
  readonly lanesPerToken: number;
  /** Lanes of a namespace in all. Claims look through those that hold jobs, and every process knows all of them. */
  readonly lanesPerNamespace: number;
  /** Live sessions of one token: each is looked at every second, and holds claims open. */
  readonly sessionsPerToken: number;
  /** Characters of a page of events, or of files that attempts left; what goes beyond is the last of the page. */
  readonly pageChars: number;
}

export const LIMITS_OF_SERVER: ServerLimits = {
  policiesPerRequest: LIMIT.policies,
  // Half: whatever one token does, others can still name queues of their own.
  lanesPerToken: 5_000,
  lanesPerNamespace: 10_000,
  // One token for a fleet is usual.
  sessionsPerToken: 2_000,
  // A page of small things is far below it; of large ones, a reader holds little more than the largest of them.
  pageChars: 4_194_304,
};
