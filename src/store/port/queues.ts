/** Queues in the port: their counts, pausing them, and the lanes that quotas limit. */
import type { QueueCounts } from "../../core/job/views.ts";
import type { LaneUse, LaneUseQuery } from "../lane.ts";

export interface QueueStore {
  /** Exact with few jobs. With many they are cached: they may be two seconds old for each million of jobs, and are not of one
   *  moment. */
  counts(namespace: string | null, now: number): Promise<QueueCounts[]>;
  setPaused(namespace: string, queue: string, paused: boolean, now: number, by?: string | null): Promise<void>;
  /** How many lanes a namespace has, how many of them an owner created, and which of the given ones exist: for quotas. */
  laneUse(query: LaneUseQuery): Promise<LaneUse>;
}
