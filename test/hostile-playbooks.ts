/** Random documents for the reader of playbooks: valid ones with parts removed, replaced, repeated or moved. */
import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { Dice } from "./dice.ts";

const EXAMPLES = fileURLToPath(new URL("../examples/playbooks", import.meta.url));

/** The example playbooks, by the name of their file. */
export function exampleSources(): readonly (readonly [file: string, source: string])[] {
  const files = readdirSync(EXAMPLES).filter((file) => file.endsWith(".yaml"));
  return files.sort().map((file) => [file, readFileSync(`${EXAMPLES}/${file}`, "utf8")] as const);
}

const TEXTS = [
  ...["", " ", "{{", "}}", "{{ }}", "{{ a.b[0] | default(1) }}", "{% for x in y %}", "{{ x | raw }}", "{{ secret.A }}"],
  ...[
    "start",
    "end",
    "fetch",
    "item",
    "loop",
    "constructor",
    "__proto__",
    "a b",
    "1h",
    "10m",
    "-5s",
    "2026-11-20T09:00:00Z",
  ],
  ...["all", "any", "first", "http", "shell", "task", "playbook", "iterator", "workbook", "noop", "approval", "duckdb"],
  ...[
    "select {{ x }}; select '{{ y }}'",
    "cat <<E\n{{ x }}\nE",
    "echo '{{ x }}' \"{{ y }}\"",
    "{{ (((((1))))) }}",
    "\u0000",
    "\ud800",
    "é😀",
  ],
  ...["x".repeat(5_000), "{{ ".repeat(500), "((".repeat(600), "a.".repeat(400)],
];
const FIELDS = [
  ...[
    "step",
    "type",
    "tool",
    "data",
    "next",
    "when",
    "loop",
    "retry",
    "timeout",
    "set",
    "join",
    "mode",
    "on_error",
    "assert",
  ],
  ...[
    "url",
    "method",
    "headers",
    "params",
    "body",
    "code",
    "command",
    "argv",
    "env",
    "path",
    "for",
    "until",
    "connection",
  ],
  ...[
    "compensate",
    "budget",
    "workflow",
    "inputs",
    "workload",
    "result",
    "finally",
    "onFailure",
    "__proto__",
    "toString",
  ],
];

/** A document made of `base` by up to eight changes. */
export function mutated(base: unknown, seed: number): unknown {
  const dice = new Dice(seed);
  const document = JSON.parse(JSON.stringify(base)) as unknown;
  for (let left = 1 + dice.below(8); left > 0; left--) change(document, dice);
  return document;
}

function change(document: unknown, dice: Dice): void {
  let parent: unknown = document;
  // Deeper with each step, so that all levels are reached.
  for (let depth = dice.below(7); depth > 0; depth--) {
    const below = dice.pick(partsOf(parent).filter((part) => typeof part === "object" && part !== null));
    if (below === undefined) break;
    parent = below;
  }
  if (Array.isArray(parent)) {
    const index = dice.below(parent.length + 1);
    if (dice.chance(0.3)) parent.splice(index, 1);
    else if (dice.chance(0.5)) parent.push(dice.pick(parent) ?? junk(dice, 3));
    else parent[index] = junk(dice, 3);
  } else if (typeof parent === "object" && parent !== null) {
    const fields = parent as Record<string, unknown>;
    const own = dice.pick(Object.keys(fields)) ?? "x";
    const name = dice.chance(0.5) ? own : dice.pick(FIELDS as [string, ...string[]]);
    if (dice.chance(0.3)) delete fields[name];
    else if (dice.chance(0.4)) fields[name] = fields[own];
    else
      Object.defineProperty(fields, name, {
        value: junk(dice, 3),
        enumerable: true,
        writable: true,
        configurable: true,
      });
  }
}

function partsOf(value: unknown): unknown[] {
  return typeof value === "object" && value !== null ? Object.values(value) : [];
}

function junk(dice: Dice, depth: number): unknown {
  const kind = dice.below(depth === 0 ? 5 : 8);
  if (kind < 2) return dice.pick(TEXTS as [string, ...string[]]);
  if (kind === 2) return dice.pick([0, 1, -1, 1.5, 1e308, 2 ** 53, 100_001, Number.NaN] as [number, ...number[]]);
  if (kind === 3) return dice.pick([true, false, null, undefined] as [unknown, ...unknown[]]);
  if (kind === 4)
    return `{{ ${dice.pick(FIELDS as [string, ...string[]])}.${dice.pick(FIELDS as [string, ...string[]])} }}`;
  if (kind === 5) return dice.times(dice.below(5), () => junk(dice, depth - 1));
  const entries = dice.times(
    dice.below(5),
    () => [dice.pick(FIELDS as [string, ...string[]]), junk(dice, depth - 1)] as const,
  );
  return Object.fromEntries(entries);
}
