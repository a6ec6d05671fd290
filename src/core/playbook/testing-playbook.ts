/** Compiled playbooks for tests of the graph and of its users. */
import { presets } from "../policy/presets.ts";
import { PLAYBOOK_FORMAT, PLAYBOOK_LIMITS, type Playbook, type PlaybookArc, type PlaybookStep } from "./playbook.ts";

export function testArc(to: number, change: Partial<PlaybookArc> = {}): PlaybookArc {
  return { to, when: null, on: "success", data: null, set: {}, ...change };
}

/** A step of the kind `work`; `to` are the indices of its arcs without a condition. */
export function testStep(name: string, to: readonly number[] = [], change: Partial<PlaybookStep> = {}): PlaybookStep {
  return {
    name,
    description: null,
    action: { type: "task", task: "work", data: null },
    when: null,
    onError: "fail",
    join: "all",
    loop: null,
    set: {},
    assert: null,
    mode: "match",
    arcs: to.map((each) => testArc(each)),
    options: {
      policy: presets.default,
      timeoutMs: null,
      deadlineMs: null,
      queue: null,
      priority: null,
      labels: {},
      resources: null,
    },
    ...change,
  };
}

export function testPlaybook(steps: readonly PlaybookStep[], change: Partial<Playbook> = {}): Playbook {
  return {
    format: PLAYBOOK_FORMAT,
    name: "test",
    path: null,
    description: null,
    labels: {},
    inputs: null,
    workload: {},
    timeoutMs: null,
    maxSteps: PLAYBOOK_LIMITS.maxSteps,
    parallel: PLAYBOOK_LIMITS.parallel,
    undefined: "strict",
    failureMode: "drain",
    onFailure: [],
    finally: [],
    result: null,
    entry: 0,
    steps,
    aliases: {},
    mustTakeArc: false,
    ...change,
  };
}

/** Steps `s0`, `s1`, … with arcs to these indices. */
export function testGraph(next: readonly (readonly number[])[], change: Partial<Playbook> = {}): Playbook {
  return testPlaybook(
    next.map((to, index) => testStep(`s${index}`, to)),
    change,
  );
}
