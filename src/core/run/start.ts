/** The progress of a run before its first message. */
import type { RunProgress } from "./run.ts";

export function newRunProgress(): RunProgress {
  return {
    phase: "forward",
    open: 0,
    made: 0,
    state: {
      visits: {},
      alive: {},
      latest: {},
      pending: {},
      loops: {},
      waits: 0,
      unrouted: [],
      broken: [],
      tries: {},
      edits: {},
      ctx: {},
      extra: 0,
      end: null,
      handler: 0,
      last: 0,
    },
  };
}
