/** Files of all kinds, mangled at random: each is refused with a place and exit code 2, or it is accepted, and then it can be
 *  stored and every view of it can be had. Nothing crashes, and nothing is stored of what is refused. */
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { viewParts } from "../../src/cli/apply/job-views.ts";
import { readJobFiles } from "../../src/cli/apply/read-jobs.ts";
import { CliError } from "../../src/cli/exit.ts";
import { PerdureError } from "../../src/core/errors.ts";
import { DIALECTS, jobView } from "../../src/dialects/registry.ts";
import { DIALECT_DEFAULTS } from "../../src/dialects/settings.ts";
import { Perdure } from "../../src/embedded/perdure.ts";
import { readYamlDocuments } from "../../src/yaml/read.ts";
import { perdure } from "../cli/kit.ts";
import { OWN, SAMPLES } from "../dialects/samples.ts";
import { Dice } from "../dice.ts";
import { IS_FULL, SEED } from "../tier.ts";

const COUNT = Number(process.env.PERDURE_FUZZ ?? (IS_FULL ? 2_000 : 500));
const EXAMPLES = resolve(import.meta.dirname, "../../examples");
const PLACES = [
  ...["opal/job.yaml", "fluster/flaky-job.yaml", "noetl/fetch-data.yaml", "agent-task/task.yaml"],
  ...["attune/packs/mypack/actions/api-call.yaml", "attune/packs/mypack/actions/greet.yaml"],
].map((name) => join(EXAMPLES, name));
const SOURCES = [
  ...PLACES.map((path) => ({ text: readFileSync(path, "utf8"), dir: dirname(path) })),
  ...[...Object.values(SAMPLES), OWN].map((text) => ({ text, dir: EXAMPLES })),
];
const settings = { ...DIALECT_DEFAULTS, opal: { ...DIALECT_DEFAULTS.opal, engine: ["engine"] } };

/** Meaningless values. */
const NASTY: readonly unknown[] = [
  ...[
    null,
    true,
    false,
    0,
    -1,
    1.5,
    1e308,
    -1e308,
    2 ** 53,
    1e-9,
    "",
    " ",
    "0",
    "-1",
    "1e9",
    "NaN",
    "x".repeat(70_000),
  ],
  ...[
    "\u202e",
    "a\u0007b",
    "\ud83d\ude00",
    "../../../etc/passwd",
    "/dev/zero",
    "{{ 1 }}",
    "{{ ''.__class__ }}",
    "[",
    "=",
    "~",
  ],
  ...["constructor", "__proto__", "job_00000000000000000000000000", "5m", "512m", "9".repeat(400), "$PATH", "\n\n"],
  ...[[], {}, [[]], [null], [1, "a", {}], { a: { b: { c: 1 } } }, { __proto__: 1 }, { "": "" }, Array(300).fill(1)],
];
const KEYS = [
  "",
  "retry",
  "spec",
  "kind",
  "name",
  "__proto__",
  "constructor",
  "env",
  "x y",
  "prompt",
  "command",
  "input",
];

it(`${COUNT} mangled files are refused with a place, or accepted and storable`, { timeout: 1_800_000 }, async () => {
  const dice = new Dice(SEED);
  const library = await Perdure.open(":memory:");
  onTestFinished(() => library.close({ grace: 0 }));
  const counts = { accepted: 0, refused: 0 };
  const kinds = new Set<string>();
  let stored = 0;
  for (let i = 0; i < COUNT; i++) {
    const { text: whole, dir } = dice.pick(SOURCES as [(typeof SOURCES)[number]]);
    const text = dice.chance(0.6) ? mangledValue(dice, whole) : mangledText(dice, whole);
    const why = `PERDURE_SEED=${SEED}, file ${i}:\n${text.slice(0, 2_000)}`;
    const dialect = dice.chance(0.2) ? dice.pick(DIALECTS)?.name : undefined;
    const jobs = await read(text, dir, dialect, why);
    if (jobs === null) {
      counts.refused += 1;
      if (counts.refused % 40 === 0) await expectRefused(text, dir, why);
      continue;
    }
    counts.accepted += 1;
    for (const answer of await library.submitMany(jobs.map(({ entry }) => entry))) {
      if (!answer.ok) {
        // Only what depends on other jobs can still be refused.
        expect(["key_conflict", "parent_ended"], `${answer.error.message}\n${why}`).toContain(answer.error.code);
        continue;
      }
      stored += 1;
      const parts = await viewParts(library, answer.job.id);
      for (const { name, events } of DIALECTS) {
        expect(() => JSON.stringify(jobView(name, "")(parts)), why).not.toThrow();
        expect(() => JSON.stringify(events?.(parts)), why).not.toThrow();
      }
    }
    for (const job of jobs) kinds.add(job.dialect ?? "perdure");
  }
  console.log(`seed ${SEED}: ${counts.accepted} accepted (${[...kinds].sort().join(", ")}), ${counts.refused} refused`);
  expect(stored).toBeGreaterThan(COUNT / 50);
  expect(counts.refused).toBeGreaterThan(COUNT / 10);
  expect(kinds.size).toBe(6);
  expect(({} as { polluted?: unknown }).polluted).toBeUndefined();
});

async function read(text: string, cwd: string, dialect: string | undefined, why: string) {
  async function* stdin() {
    yield Buffer.from(text);
  }
  try {
    const wish = { files: ["-"], io: { cwd }, dialect, stdin: stdin(), settings: () => settings };
    return (await readJobFiles({ ...wish, parameters: {} })).jobs;
  } catch (error) {
    expect(error, `${String((error as Error).stack)}\n${why}`).toBeInstanceOf(CliError);
    expect(error, why).not.toBeInstanceOf(PerdureError);
    expect((error as CliError).exitCode, why).toBe(2);
    expect((error as Error).message, why).toMatch(
      /^(stdin|[^\n]*\.(ya?ml|json)):\d+:\d+: |beside the file|stdin: over|UTF-8/,
    );
    return null;
  }
}

/** The whole command: exit code 2, and not even a database is made. */
async function expectRefused(text: string, dir: string, why: string): Promise<void> {
  const data = mkdtempSync(join(tmpdir(), "perdure-fuzz-"));
  try {
    const file = join(dir, `.fuzz-${process.pid}.yaml`);
    writeFileSync(file, text);
    try {
      const io = { cwd: dir, env: { PERDURE_OPAL_ENGINE: "engine" } };
      const said = await perdure(["apply", "--data", join(data, "d"), "-f", file], io);
      if (said.code === 0) return; // it was refused as another dialect's
      expect(said.code, why).toBe(2);
      expect(existsSync(join(data, "d")), why).toBe(false);
    } finally {
      rmSync(file);
    }
  } finally {
    rmSync(data, { recursive: true, force: true });
  }
}

/** The document with one or a few of its parts replaced, removed, renamed or added. */
function mangledValue(dice: Dice, text: string): string {
  const values = readYamlDocuments(text, "x").map(({ value }) => JSON.parse(JSON.stringify(value)) as object);
  for (let i = 1 + dice.below(3); i > 0; i--) mangle(dice, dice.pick(values) as object);
  return values.map((value) => JSON.stringify(value, null, 1)).join("\n---\n");
}

function mangle(dice: Dice, root: object): void {
  let at = root as Record<string, unknown>;
  for (;;) {
    const keys = Object.keys(at);
    const key = dice.pick(keys) ?? "0";
    const next = at[key];
    if (typeof next === "object" && next !== null && dice.chance(0.7)) {
      at = next as Record<string, unknown>;
      continue;
    }
    const roll = dice.below(5);
    if (roll === 0) delete at[key];
    else if (roll === 1) at[dice.pick(KEYS) ?? ""] = structuredClone(dice.pick(NASTY));
    else if (roll === 2 && !Array.isArray(at)) {
      at[misspelt(dice, key)] = next;
      delete at[key];
    } else at[key] = structuredClone(dice.pick(NASTY));
    return;
  }
}

function misspelt(dice: Dice, word: string): string {
  const at = dice.below(word.length + 1);
  return dice.chance(0.5) ? word.slice(0, at) + word.slice(at + 1) : `${word.slice(0, at)}x${word.slice(at)}`;
}

const BITS = [
  "\t",
  "  ",
  ":",
  ": ",
  "- ",
  "---\n",
  "[",
  "]",
  "{",
  "}",
  "&a ",
  "*a",
  "!!js ",
  "#",
  '"',
  "'",
  "\n",
  "|",
  "%",
  "\0",
  "é",
];

/** Its text with bits put in, cut out or doubled. */
function mangledText(dice: Dice, text: string): string {
  let mangled = text;
  for (let i = 1 + dice.below(4); i > 0; i--) {
    const at = dice.below(mangled.length + 1);
    const roll = dice.below(4);
    if (roll === 0) mangled = mangled.slice(0, at) + (dice.pick(BITS) ?? "") + mangled.slice(at);
    else if (roll === 1) mangled = mangled.slice(0, at) + mangled.slice(at + 1 + dice.below(8));
    else {
      const lines = mangled.split("\n");
      const [from, to] = [dice.below(lines.length), dice.below(lines.length)];
      if (roll === 2) lines.splice(to, 0, lines[from] as string);
      else lines.splice(from, 1);
      mangled = lines.join("\n");
    }
  }
  return mangled;
}
