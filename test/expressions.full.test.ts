/** Regular expressions and long texts. A sender can make a text long, and an expression that scans it again from each
 *  position then blocks everything. Each expression in src is run on repetitions of what it matches: on 100 kB a linear
 *  one stays far below the limit, and a quadratic one exceeds it, on fast machines too. Finds the usual shapes, not
 *  all. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { createContext, Script } from "node:vm";
import { describe, expect, it } from "vitest";
import { type Expression, expressionsIn, longTexts } from "./expressions.ts";

const LENGTH = 100_000;
const SLOW_MS = 250;
const GIVE_UP_MS = 1_000;
/** A single slow run may be a stall of the machine. */
const TRIES = 3;

const context = createContext({});
const script = new Script("isGlobal ? text.replace(expression, '') : expression.test(text)");

function timeOf(expression: RegExp, text: string): number {
  Object.assign(context, { expression, text, isGlobal: expression.global });
  const started = performance.now();
  try {
    script.runInContext(context, { timeout: GIVE_UP_MS });
  } catch {
    return GIVE_UP_MS;
  }
  return performance.now() - started;
}

/** The start of a text on which it is slow; null if none was found. */
function slowText({ source, flags }: Pick<Expression, "source" | "flags">): string | null {
  const expression = new RegExp(source, flags);
  for (const text of longTexts(source, LENGTH)) {
    let [best, tries] = [GIVE_UP_MS, 0];
    while (best > SLOW_MS && tries++ < TRIES) best = Math.min(best, timeOf(expression, text));
    if (best > SLOW_MS) return JSON.stringify(text.slice(0, 40));
  }
  return null;
}

/** By file: expressions that are slow on a long text but never get one. An entry whose expression is linear now, or was
 *  removed, fails the test. */
const SHORT_TEXTS: Readonly<Record<string, string>> = {
  "src/core/expression/tokens.ts": "a condition has at most 1,000 characters",
  "src/dialects/noetl/retry.ts": "a condition that was parsed before",
  "src/cli/submit/redrive-changes.ts": "the help of our own options",
  "src/worker/http/address.ts": "an IP address that Node has recognized",
};

describe("a regular expression", () => {
  it.each([/\/+$/, /^(?!\s*(async )?def ).*\bmain\(/m, /:[^/]*@/, /^(\w+\s?)*$/, /\s*,\s*$/, /(a|a)*b/, /<!--.*?-->/g])(
    "that is not linear is found: %s",
    (expression) => {
      expect(slowText(expression)).not.toBeNull();
    },
  );

  it("is found in a source file, and a division is not", () => {
    const text = [
      'const a = b / c / d; // /x/\nx.replace(/[/"]+\\//g, "/y/"); `/z/$',
      "{d.map((e) => { return /v/.test(e) })}/z/`; return /w/u.test(s);",
    ].join("");
    expect(expressionsIn(text).map(({ source, flags }) => source + flags)).toEqual(['[/"]+\\/g', "v", "wu"]);
  });

  it("in src is linear", { timeout: 600_000 }, () => {
    const files = readdirSync("src", { recursive: true, encoding: "utf8" })
      .filter((name) => /\.(ts|mjs)$/.test(name) && !/\.test\.ts$|^store\/conformance/.test(name))
      .map((name) => join("src", name));
    const all = files.flatMap((file) => expressionsIn(readFileSync(file, "utf8")).map((each) => ({ file, ...each })));
    expect(all.length).toBeGreaterThan(200);
    const slow = all.flatMap((each) => {
      const text = slowText(each);
      return text === null ? [] : [{ ...each, text }];
    });
    const shown = ({ file, line, source, text }: (typeof slow)[number]) => `${file}:${line} /${source}/ on ${text}`;
    expect(slow.filter(({ file }) => !(file in SHORT_TEXTS)).map(shown)).toEqual([]);
    expect(slow.map(({ file }) => file).sort()).toEqual(Object.keys(SHORT_TEXTS).sort());
  });
});
