/** The playbook of the crash points: branches that meet, a loop, a wait, a sub-playbook, a failure that an arc handles, a retry,
 *  and a step that runs at the end. One kind of task serves all of it, here and in the processes of `test/crash/children`. */
import { task } from "../../src/index.ts";

export interface Work {
  readonly value?: unknown;
  /** In each attempt, or in the first. */
  readonly fail?: "always" | "first";
}

const RETRY = { maxAttempts: 2, backoff: { type: "fixed", delay: "10ms" } } as const;

export const worker = () =>
  task("work", ({ value, fail }: Work, { attempt }) => {
    if (fail === "always" || (fail === "first" && attempt === 1)) throw new Error("as asked");
    return value ?? null;
  });

export function playbook(workflow: readonly object[], more: object = {}) {
  return { apiVersion: "perdure/v1", kind: "Playbook", metadata: { name: "points" }, ...more, workflow };
}

/** A step of the kind of the worker. */
export const work = (step: string, data: object = {}, more: object = {}) => ({
  ...{ step, type: "task", task: "work", data, ...more },
});

const part = playbook(
  [work("first", { value: "{{ workload.n }}" }, { next: "second" }), work("second", { value: "{{ first * 10 }}" })],
  { result: "{{ second }}" },
);

const main = playbook(
  [
    { step: "start", next: ["left", "each", "below", "risky", "pause"] },
    work("left", { value: "{{ workload.base }}", fail: "first" }, { set: { seen: "{{ result }}" }, next: "join" }),
    work(
      "each",
      { value: "{{ n * n }}" },
      {
        loop: { in: [1, 2, 3, 4, 5], iterator: "n", concurrency: 2 },
        next: "join",
      },
    ),
    { step: "below", type: "playbook", path: "./part.yaml", data: { n: 3 }, next: "join" },
    work(
      "risky",
      { fail: "always" },
      {
        next: [{ step: "rescue", when: "{{ error != None }}" }, { step: "never" }],
      },
    ),
    work("rescue", { value: "rescued" }, { next: "join" }),
    work("never", {}, { next: "join" }),
    { step: "pause", type: "wait", for: "20ms", next: "join" },
    work("join", { value: "{{ ctx.seen + below + (each | sum) }}" }, { next: "after" }),
    work("after", { value: "{{ rescue }} {{ join }}" }),
    work("tidy", { value: "tidy" }),
  ],
  { finally: "tidy", result: "{{ after }}", workload: { base: 7 }, defaults: { retry: RETRY } },
);

const brokenPart = playbook([work("first", { value: 1 }, { next: "second" }), work("second", { when: "broken" })], {
  result: "{{ second }}",
});

/** Fails in a loop and in a run below, until what is broken is repaired. */
const broken = playbook(
  [
    { step: "start", next: ["each", "below", "good"] },
    work(
      "each",
      { value: "{{ n }}", when: "{{ 'broken' if n == 2 else '' }}" },
      {
        loop: { in: [1, 2, 3, 4], iterator: "n", concurrency: 2, onItemFailure: "continue", maxFailures: 0 },
        next: "join",
      },
    ),
    { step: "below", type: "playbook", path: "./part.yaml", next: "join" },
    work("good", { value: 5 }, { next: "join" }),
    work("join", { value: "{{ (each | sum) + good }}" }),
    work("notify", { value: "sorry" }),
    work("tidy", { value: "tidy" }),
  ],
  { onFailure: "notify", finally: "tidy", result: "{{ join }}", defaults: { retry: { maxAttempts: 1 } } },
);

const heldPart = playbook([work("inner", { when: "held" }), work("clean", { value: "clean" })], { finally: "clean" });

/** Its steps hold until they are cancelled. */
const held = playbook(
  [
    { step: "start", next: ["hold", "each", "below", "pause"] },
    work("hold", { when: "held" }, { next: "never" }),
    work("each", { when: "held" }, { loop: { in: [1, 2, 3, 4, 5], iterator: "n", concurrency: 2 }, next: "never" }),
    { step: "below", type: "playbook", path: "./part.yaml", next: "never" },
    { step: "pause", type: "wait", for: "24h", next: "never" },
    work("never"),
    work("tidy", { value: "tidy" }),
  ],
  { finally: "tidy", defaults: { retry: { maxAttempts: 1 } } },
);

/** For crash points of a redrive, and of a cancel. */
export const BROKEN = { source: JSON.stringify(broken), files: { "part.yaml": JSON.stringify(brokenPart) } };
export const HELD = { source: JSON.stringify(held), files: { "part.yaml": JSON.stringify(heldPart) } };

/** As a caller passes it, and what it gives. */
export const POINTS = {
  playbook: { source: JSON.stringify(main), files: { "part.yaml": JSON.stringify(part) } },
  options: { key: "points" },
  result: "rescued 92",
} as const;
