/** Checks the table of promises in docs/internals/dialects.md: every file and every test it names exists, and every
 *  rule it names is explained. It does not check whether a test proves the claim of its row. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { ROOT } from "../fences.ts";

const PAGE = readFileSync(join(ROOT, "docs/internals/dialects.md"), "utf8");
const COLUMNS = ["promise", "where", "test", "note"];
const RULES = "Rules where we depart from a document";

/** The cells of a row, separated by bars; a bar after a backslash does not count. */
function cellsOf(line: string): string[] {
  const cells = line.split(/(?<!\\)\|/).map((cell) => cell.trim());
  return cells.slice(1, -1);
}

/** The heads and the rows of all tables. */
function tablesIn(text: string): { heads: string[][]; rows: string[][] } {
  const lines = text.split("\n");
  const isRule = (line: string | undefined) => /^\|(-+\|)+$/.test(line ?? "");
  const isRow = (line: string | undefined) => line?.startsWith("|") === true && !isRule(line);
  const heads = lines.filter((line, i) => isRow(line) && isRule(lines[i + 1]));
  const rows = lines.filter((line, i) => isRow(line) && !isRule(lines[i + 1]));
  return { heads: heads.map(cellsOf), rows: rows.map(cellsOf) };
}

interface Part {
  readonly title: string;
  /** The file of tests that are cited without a file. */
  readonly tests: string | undefined;
  readonly heads: string[][];
  readonly rows: string[][];
}

const SECTIONS = PAGE.split(/^## /m).slice(1);
const PARTS: Part[] = SECTIONS.filter((text) => !text.startsWith(RULES)).map((text) => {
  const [title = "", , first = ""] = text.split("\n");
  return { title, tests: /^Tests are in `([^`]+)`, /.exec(first)?.[1], ...tablesIn(text) };
});
const RULE_ROWS = tablesIn(SECTIONS.find((text) => text.startsWith(RULES)) ?? "").rows;
const ROWS = PARTS.flatMap((part) => part.rows.map((row) => ({ part, row })));
const NOTES = ROWS.map(({ row }) => row[3] ?? "");

/** The paths of files and of folders; folders end with a slash. */
function pathsIn(text: string): string[] {
  return [...text.matchAll(/`([^`\s]+(?:\.(?:ts|mjs)|\/))`/g)].map(([, path = ""]) => path);
}

/** A full path, or one below the default folder. */
function fileOf(path: string, folder: string): string {
  return /^(src|test|examples|docs)\//.test(path) ? path : folder + path;
}

const FILES_AND_TITLES = /^(?:`([^`]+)` › )?"([^"]+)"(?:, "[^"]+")*$/;

/** `"a", "b"; `FILE.test.ts` › "c"`: the cited titles and their files. Null if the cell has another format. */
function citedIn(cell: string, own: string): { file: string; title: string }[] | null {
  // Items are separated by a semicolon after a quote and before a quote or a file, because titles contain semicolons too.
  const items = cell.split(/(?<="); (?=["`])/);
  if (items.some((item) => !FILES_AND_TITLES.test(item))) return null;
  return items.flatMap((item) => {
    const named = FILES_AND_TITLES.exec(item)?.[1];
    const file = named === undefined ? own : fileOf(named, "test/dialects/");
    const titles = named === undefined ? item : item.slice(item.indexOf("›"));
    return [...titles.matchAll(/"([^"]+)"/g)].map(([, title = ""]) => ({ file, title }));
  });
}

const known = new Map<string, string>();

/** The titles in the source of a test file: those of tests and groups, also templates, and the table rows that fill in a
 *  template. */
function titlesIn(file: string): string {
  const titles = known.get(file) ?? readTitles(file);
  known.set(file, titles);
  return titles;
}

const TITLE =
  /(?:\b(?:it|test|describe)(?:\.\w+)?\(|\)\(|\[)\s*("(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|`(?:[^`\\]|\\.)*`)/g;

function readTitles(file: string): string {
  const found = readFileSync(join(ROOT, file), "utf8").matchAll(TITLE);
  return [...found].map(([, text = ""]) => text.slice(1, -1).replaceAll(/\\(.)/g, "$1")).join("\n");
}

describe("docs/internals/dialects.md", () => {
  it("has five parts of the same form, each with the file of its tests", () => {
    expect(PARTS.map(({ title }) => title)).toEqual(["OPAL", "fluster", "NoETL", "Attune", "AgentTask"]);
    for (const { title, tests, heads, rows } of PARTS) {
      expect(existsSync(join(ROOT, tests ?? "nowhere")), `${title}: ${tests}`).toBe(true);
      for (const head of heads) expect(head).toEqual(COLUMNS);
      expect(rows.filter((row) => row.length !== COLUMNS.length || row.includes(""))).toEqual([]);
      expect(rows.length).toBeGreaterThan(30);
    }
  });

  it("names files that exist", () => {
    const named = [
      ...ROWS.flatMap(({ row }) => [
        ...pathsIn(row[1] ?? "").map((path) => fileOf(path, "src/")),
        ...pathsIn(row[2] ?? "").map((path) => fileOf(path, "test/dialects/")),
        ...pathsIn(row[3] ?? "").map((path) => fileOf(path, "src/")),
      ]),
    ];
    expect(named.length).toBeGreaterThan(300);
    const anywhere = pathsIn(PAGE).filter((path) => path.endsWith(".ts"));
    const folders = ["src/", "test/dialects/"];
    const isThere = (path: string) => folders.some((folder) => existsSync(join(ROOT, fileOf(path, folder))));
    expect(anywhere.filter((path) => !isThere(path))).toEqual([]);
    expect([...new Set(named)].filter((path) => !existsSync(join(ROOT, path)))).toEqual([]);
  });

  it("explains the rules that its notes name, and no others", () => {
    const used = NOTES.flatMap((note) => [...note.matchAll(/`([A-F]\d+)`/g)].map(([, rule = ""]) => rule));
    const defined = RULE_ROWS.map(([rule = ""]) => rule.replaceAll("`", ""));
    const inOrder = (rule: string) => rule.charCodeAt(0) * 100 + Number(rule.slice(1));
    expect([...new Set(used)].sort((a, b) => inOrder(a) - inOrder(b))).toEqual(defined);
    expect(RULE_ROWS.filter((row) => row.length !== 3 || row.includes(""))).toEqual([]);
    // A rule without backticks would be missed above.
    expect(NOTES.filter((note) => /(?<!`)\b[A-F]\d+\b(?!`)/.test(note))).toEqual([]);
  });

  it("names a test for each promise, by an existing title, or why there is none", () => {
    const wrong = ROWS.flatMap(({ part, row: [promise = "", where = "", test = "", note = ""] }) => {
      const place = `${part.title}: ${promise}`;
      if (test === "—") return where === "—" && /^(later|not here): /.test(note) ? [] : [`${place}: no test`];
      const cited = citedIn(test, part.tests ?? "");
      if (cited === null) return [`${place}: unknown format of citation: ${test}`];
      const missing = cited.filter(
        ({ file, title }) => !existsSync(join(ROOT, file)) || !titlesIn(file).includes(title),
      );
      return missing.map(({ file, title }) => `${place}: no "${title}" in ${file}`);
    });
    expect(wrong).toEqual([]);
  });
});
