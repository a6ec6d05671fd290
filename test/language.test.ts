/** Plain technical English: words that messages, help and docs avoid, with what to write. Checked are the string literals and
 *  comments of `src`, the help of every command, README and docs. Code spans and code blocks of docs are left out: they quote names and
 *  output, which are checked where they come from. */
import { readdirSync, readFileSync } from "node:fs";
import { join, relative, sep } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import { COMMANDS } from "../src/cli/command-list.ts";
import { helpOn, overview } from "../src/cli/help.ts";
import { literalsOf } from "./literals.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));

/** Only what has no common use in a message or a guide. */
const AVOID: readonly (readonly [avoid: RegExp, write: string])[] = [
  [/\b(tells?|told|telling)\b(?! apart)/gi, "report, show, print, return"],
  [/\b(says|said|saying)\b/gi, "report, show, return; is set to"],
  [/\bmend(s|ed|ing)?\b/gi, "fix, repair"],
  [/\blook(s|ed|ing)? (at|into|out|after|there)\b/gi, "check, read, scan, poll"],
  [/\bin hand\b|\bin (its|the|their) hands\b/gi, "held, in progress, running"],
  [/\bhand(s|ed|ing)? (back|out|over)\b/gi, "return, release, issue"],
  [/\b(doors?|kin|errands?|lookout)\b/gi, "route, entry point, children, task"],
  [/(?<!\bthere )\bis (none|nobody)\b/g, "does not exist, is not a"],
  [/(?<!\b(there|it|that) )\bis no (?!longer|more|less|way|need|limit)/gi, "is not a"],
  [/\b(is|was|are|were) there (already|too|twice)\b|\balready there\b/gi, "already exists"],
  [/\bit goes with\b/gi, "requires"],
  [/\bgive (one|it|them)\b|[:;] give /gi, "pass, use, must be; cannot be used together"],
  [/\btrying on\b/gi, "retrying"],
  [/\bso (many|much) (at|of|in|times|runs|jobs)\b|\bat most so (many|much)\b/gi, "that many, that much"],
  [/\bonce more\b|\banew\b|\bafresh\b/gi, "again"],
  [/\bnew start\b|\b(a|an|the|this|its|new|next|same|last|later|first|each|every) chapters?\b/gi, "redrive"],
  [/\bmay too much\b/gi, "over-privileged"],
  [/\b(is|are) to (take|run|have|do|go|end|stop)\b/gi, "must, should"],
  [/\bcannot have it\b/gi, "cannot take, is not allowed"],
  [/\bknew\b/gi, "matched"],
  [/\bno job fits\b|\b(that|which) fits?\b/gi, "matching, that match"],
  [/\bstands? for\b/gi, "means, matches"],
  [/\bgo(es)? on\b|\bgoing on\b|\bwent on\b|\bgone on\b/gi, "continue, resume, keep running"],
  [/\bfares?\b|\bwhat(ever)? (became|becomes) of\b/gi, "health, result, end"],
  [/\b(un)?charged\b/gi, "counted as an attempt"],
  [/\bthe like\b|\blest\b|\bthus\b|\btill\b/gi, "similar, so that, until"],
  [/\b(heard|hears?) (of|from)\b/gi, "seen, receive"],
  [/(?<!perdure )\brun (…|\d)/gi, "attempt n"],
  [/\basked to (stop|end)\b/gi, "received SIGTERM, draining, cancel requested"],
];

/** Text in which such a word is meant: the name of a field, or a text that another system prescribes. */
const EXCEPTIONS: readonly RegExp[] = [
  /^the task said no$/, // in events that 0.1.0 stored
  /\bhanded back\b/, // the reason `handed_back` of the API
];

/** `WORDS=src/core npx vitest run test/language.test.ts` checks one folder only. */
const only = process.env.WORDS;
const isChecked = (file: string) => only === undefined || file === only || file.startsWith(`${only}/`);

/** As `file:line: [avoid] -> write: text`. */
function hits(text: string, where: (index: number) => string): string[] {
  const flat = text.replaceAll("\n", " ");
  return AVOID.flatMap(([avoid, write]) =>
    [...flat.matchAll(avoid)].flatMap(({ 0: found, index }) => {
      const around = flat.slice(Math.max(0, index - 60), index + found.length + 60);
      if (EXCEPTIONS.some((exception) => exception.test(around))) return [];
      return [`${where(index)}: [${found}] -> ${write}: ${around}`];
    }),
  );
}

function filesUnder(folder: string, ending: string): string[] {
  const entries = readdirSync(join(ROOT, folder), { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile() && entry.name.endsWith(ending));
  return files.map((entry) => relative(ROOT, join(entry.parentPath, entry.name)).split(sep).join("/")).sort();
}

const read = (file: string) => readFileSync(join(ROOT, file), "utf8");
const lineAt = (text: string, index: number) => text.slice(0, index).split("\n").length;

const isTest = (file: string) => file.endsWith(".test.ts") || file.startsWith("src/store/conformance/");
const isReleased = (file: string) => file.endsWith("/migrations.ts"); // steps that are never edited, nor their comments
const SOURCES = filesUnder("src", ".ts").filter((file) => !isTest(file) && !isReleased(file));

it("is in the messages", () => {
  const found = SOURCES.filter(isChecked).flatMap((file) => {
    const sentences = literalsOf(read(file)).filter(({ text }) => text.includes(" "));
    return sentences.flatMap(({ text, line }) => hits(text, () => `${file}:${line}`));
  });
  expect(found).toEqual([]);
});

it("is in comments", () => {
  const found = SOURCES.filter(isChecked).flatMap((file) => {
    // Whole lines: a comment behind code is short, and `//` may be in a text. Code speaks of chapters, as a stored field does.
    const comments = read(file).replace(/^(?! *(\/\/ (?!biome-ignore)|\/?\*)).*$/gm, "");
    const text = comments.replaceAll(/`[^`\n]+`/g, "").replaceAll(/\bchapters?\b/gi, "redrive");
    return hits(text, (index) => `${file}:${lineAt(text, index)}`);
  });
  expect(found).toEqual([]);
});

it("is in the help of every command", async () => {
  if (!isChecked("src/cli")) return;
  const commands = await Promise.all(COMMANDS.map((command) => command.load()));
  const pages = await Promise.all(commands.map(async (command) => [`help ${command.name}`, await helpOn(command)]));
  pages.push(["help", overview(COMMANDS)]);
  expect(pages.flatMap(([name = "", text = ""]) => hits(text.replace(/\s+/g, " "), () => name))).toEqual([]);
});

it("is in README and docs", () => {
  const isPage = (file: string) =>
    /^docs\/((guides|decisions)\/)?[^/]+$/.test(file) || file === "docs/internals/engine.md";
  const files = [
    "README.md",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    ...filesUnder("docs", ".md").filter(isPage),
  ].filter(isChecked);
  const found = files.flatMap((file) => {
    // Blanked, not cut: lines keep their numbers.
    const blank = (code: string) => code.replace(/[^\n]/g, "#");
    const text = read(file)
      .replace(/^( *)(```|~~~)[\s\S]*?^\1\2/gm, blank)
      .replace(/`[^`\n]+`/g, blank);
    return hits(text, (index) => `${file}:${lineAt(text, index)}`);
  });
  expect(found).toEqual([]);
});
