/** Parents and children in the port: which blocked parents may continue, and which children a cancel must reach. */
import type { Failure } from "../../core/decision/failure.ts";

export interface ChildStore {
  /** Blocked jobs whose children have all ended or do not exist. Among all blocked jobs, a call checks some of them, and the
   *  next call continues from there. */
  unblockable(query: UnblockableQuery): Promise<Unblockable>;
  /** How many children each of these jobs has. */
  counts(parents: readonly string[]): Promise<number[]>;
  /** How the last closed attempt of each of these jobs failed, with the stack; null without a failure or an attempt. */
  failures(ids: readonly string[]): Promise<(Failure | null)[]>;
  /** Children that a cancel of their parent must reach, oldest first: unfinished ones for which no cancel was requested, and ended
   *  ones with children of their own, which may be unfinished. Not those that ended with a cascade of their own. */
  reachable(query: ReachableQuery): Promise<Reachable>;
  /** Jobs with children whose cancel has not reached all of them yet. */
  cascades(limit: number): Promise<string[]>;
  /** A cancel was requested for all children of this job: it is no longer a cascade. If one was missed, it stays one. */
  cascaded(jobId: string): Promise<void>;
}

export interface UnblockableQuery {
  /** Null: all blocked jobs. */
  readonly parents: readonly string[] | null;
  readonly limit: number;
}

export interface Unblockable {
  readonly jobs: UnblockableJob[];
  /** Whether more jobs remain to be checked; false at the end of a round. */
  readonly more: boolean;
}

export interface UnblockableJob {
  readonly jobId: string;
  /** The attempt that started to wait. */
  readonly attempt: number;
}

export interface ReachableQuery {
  readonly parentId: string;
  /** From the page before; null for the first. */
  readonly after: number | null;
  readonly limit: number;
}

export interface Reachable {
  readonly jobs: ReachableJob[];
  /** Where the next page begins; null after the last. */
  readonly next: number | null;
}

export interface ReachableJob {
  readonly jobId: string;
  /** It has ended: only the jobs below it need the cancel. */
  readonly isOver: boolean;
}
