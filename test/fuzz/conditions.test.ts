/** Conditions come from whoever submits a job, and are evaluated inside the engine. So: whatever they say, they are refused
 *  or have a plain value, after a bounded number of steps. Steps are counted, since time depends on the machine. */
import { expect, it } from "vitest";
import { isPlain } from "../../src/core/check.ts";
import { failure } from "../../src/core/decision/failure.ts";
import { ConfigError } from "../../src/core/errors.ts";
import { type ConditionNode, evaluate } from "../../src/core/expression/evaluate.ts";
import { evaluateCondition, parseCondition } from "../../src/core/expression/expression.ts";
import { EvaluationError } from "../../src/core/expression/values.ts";
import { presets } from "../../src/core/policy/presets.ts";
import { resolvePolicy } from "../../src/core/policy/resolve-policy.ts";
import type { Report } from "../../src/core/worker-protocol.ts";
import { Dice } from "../dice.ts";
import { openBench, openSession } from "../kit.ts";
import { IS_FULL, SEED } from "../tier.ts";
import { expression } from "./expressions.ts";
import { setTraps } from "./traps.ts";

/** At least this many; `npm run test:fuzz` tries more. */
const COUNT = Math.max(IS_FULL ? 10_000 : 1_000, Number(process.env.PERDURE_FUZZ ?? 0));

const BUILT_IN: readonly unknown[] = [Object, Array, String, Number, Boolean, Function, Map, Promise].flatMap(
  (each) => [each, each.prototype],
);

/** Nodes of a tree, and how deep it is. `a or b or c` is a list, and no deeper than `a or b`. */
function measure(node: ConditionNode): { nodes: number; depth: number } {
  const parts = Object.values(node)
    .flat()
    .filter((part): part is ConditionNode => isPlain(part));
  const measured = parts.map((part) => {
    const { nodes, depth } = measure(part);
    const goesOn =
      node.kind === "binary" && part === node.left && part.kind === "binary" && part.operator === node.operator;
    return { nodes, depth: goesOn ? depth - 1 : depth };
  });
  return {
    nodes: measured.reduce((sum, { nodes }) => sum + nodes, 1),
    depth: 1 + Math.max(0, ...measured.map(({ depth }) => depth)),
  };
}

/** What a value is, if it is not plain data; null if it is. */
function stranger(value: unknown): string | null {
  if (typeof value === "function" || typeof value === "symbol") return typeof value;
  if (value === globalThis || BUILT_IN.includes(value)) return "a part of JavaScript";
  if (typeof value !== "object" || value === null) return null;
  if (!Array.isArray(value)) return isPlain(value) ? null : "an instance";
  for (let i = 0; i < value.length; i++) {
    const item = stranger(Object.getOwnPropertyDescriptor(value, i)?.value);
    if (item !== null) return item;
  }
  return null;
}

it(`${COUNT} conditions are refused or have a plain value, after a bounded number of steps`, {
  timeout: 600_000,
}, () => {
  const dice = new Dice(SEED);
  const globals = Object.getOwnPropertyNames(globalThis).length;
  const tally = { refused: 0, valued: 0, held: 0, errors: 0 };
  let most = 0;
  for (let n = 0; n < COUNT; n++) {
    const source = expression(dice);
    const where = `PERDURE_SEED=${SEED}, number ${n}: ${JSON.stringify(source.slice(0, 300))}`;
    const { variables, sprung, touched } = setTraps();
    const answer = evaluateCondition(source, variables);
    expect([typeof answer.value, answer.value && answer.error !== null], where).toEqual(["boolean", false]);
    try {
      const { tree } = parseCondition(source);
      const { nodes, depth } = measure(tree);
      expect(nodes <= 100 && depth <= 20, where).toBe(true);
      const value = evaluate(tree, variables);
      expect(stranger(value), where).toBeNull();
      tally.valued += 1;
      if (answer.value) tally.held += 1;
    } catch (error) {
      // Anything else would be a crash of the engine's decision.
      expect(error instanceof ConfigError || error instanceof EvaluationError, `${where}\n${String(error)}`).toBe(true);
      if (error instanceof ConfigError) {
        expect(error.message, where).toMatch(/ at character \d+;/);
        tally.refused += 1;
      } else tally.errors += 1;
    }
    expect(sprung, where).toEqual([]);
    most = Math.max(most, touched());
  }
  console.log(`seed ${SEED}: ${JSON.stringify(tally)}, at most ${most} touches of a variable`);
  // A hundred nodes, each of which reads a handful of fields, twice: once for each evaluation above.
  expect(most).toBeLessThan(10_000);
  // Not only the parser was tested.
  expect(Math.min(tally.refused, tally.valued)).toBeGreaterThan(COUNT / 10);
  expect(Math.min(tally.held, tally.errors)).toBeGreaterThan(COUNT / 200);
  expect(Object.getOwnPropertyNames(globalThis).length).toBe(globals);
  expect(({} as { polluted?: unknown }).polluted).toBeUndefined();
});

const HOSTILE_RESULT = `{"__proto__": {"polluted": 1}, "constructor": {"prototype": {}}, "status_code": 202,
  "a": 1, "list": [1, "a", null], "state": "PENDING", "deep": ${"[".repeat(60)}${"]".repeat(60)}}`;

it.runIf(IS_FULL)(
  "an engine settles jobs with such conditions, even those that validation would refuse",
  {
    timeout: 120_000,
  },
  async () => {
    const dice = new Dice(SEED + 1);
    const bench = await openBench({ services: false });
    const session = await openSession(bench);
    const states = new Map<string, number>();
    for (let n = 0; n < 400; n++) {
      const source = expression(dice);
      const field = dice.chance(0.7) ? "retryWhen" : "stopWhen";
      const where = `PERDURE_SEED=${SEED}, job ${n}: ${JSON.stringify(source.slice(0, 300))}`;
      let isAllowed = true;
      try {
        resolvePolicy({ preset: "noetl", [field]: source });
      } catch (error) {
        expect(error, where).toBeInstanceOf(ConfigError);
        isAllowed = false;
      }
      // Without validation: as stored by another version.
      const id = await bench.submit("k", { policy: { ...presets.noetl, [field]: source } });
      const [claimed] = (await bench.engine.claim(session, { limit: 1 })).jobs;
      const { attempt, token } = claimed as NonNullable<typeof claimed>;
      const isDone = dice.chance(0.5);
      const outcome: Report["outcome"] = isDone
        ? { kind: "completed", result: HOSTILE_RESULT }
        : { kind: "failed", failure: failure({ kind: "http", status: 503, message: "503 Service Unavailable" }) };
      const from = { kind: "worker", token, reportId: `r${n}` } as const;
      const [answer] = await bench.engine.report([{ jobId: id, attempt, from, outcome, usage: null, log: null }]);
      expect(answer, where).toMatchObject({ status: "accepted" });
      const job = await bench.job(id);
      // A condition that cannot be read grants no retry.
      if (!isAllowed) expect(job.state, where).toBe(isDone ? "succeeded" : "failed");
      states.set(job.state, (states.get(job.state) ?? 0) + 1);
      if (job.state === "queued") await bench.engine.command(id, { kind: "cancel" });
    }
    expect([...states.keys()].sort()).toEqual(["failed", "queued", "succeeded"]);
    expect(bench.logged.filter((line) => line.startsWith("error"))).toEqual([]);
    expect(({} as { polluted?: unknown }).polluted).toBeUndefined();
  },
);
