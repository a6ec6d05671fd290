/** Checks all templates of a compiled playbook: their syntax, their names, and their places in commands and SQL. */
import { ShellPlaceError, shellPlaces } from "../template/shell.ts";
import { checkSql, SqlPlaceError } from "../template/sql.ts";
import {
  hasTemplate,
  namesOfTemplate,
  parseTemplate,
  parseWhen,
  type Template,
  TemplateError,
} from "../template/template.ts";
import type { NamePlace, PlaybookNames } from "./check-names.ts";
import type { Places } from "./places.ts";
import { PLAYBOOK_LIMITS, type Playbook, type PlaybookStep, type StepAction } from "./playbook.ts";
import type { PlaybookProblem, ProblemCode, SourcePath } from "./problem.ts";

type Language = "text" | "condition" | "shell" | "sql";
const SHELLS: readonly string[] = ["sh", "bash", "dash", "ash", "ksh", "zsh"];

/** `unknownNames`: what a name that nothing supplies is. */
export function* checkTemplates(
  playbook: Playbook,
  places: Places,
  names: PlaybookNames,
  unknownNames: PlaybookProblem["severity"],
): Generator<PlaybookProblem> {
  let count = 0;
  for (const part of partsOf(playbook)) {
    for (const [text, below] of textsOf(part.value, [])) {
      // An empty command was reported as missing.
      if (text === "" || (part.language === "text" && !hasTemplate(text))) continue;
      const at = () => places.of(part.root, below);
      count += text.split("{{").length;
      if (count > PLAYBOOK_LIMITS.templates) {
        yield error("too_large", at(), `more than ${PLAYBOOK_LIMITS.templates} templates; the rest was not checked`);
        return;
      }
      yield* checkText(text, part, at, names, unknownNames);
    }
  }
  for (const [index, { action }] of playbook.steps.entries()) {
    if (action?.type !== "exec") continue;
    const script = scriptOf(action.input.argv);
    if (script === null) continue;
    const message = "a template in the script of a shell; pass the value as an argument after it, or write type: shell";
    yield error("shell_place", places.of(`steps[${index}].action.input`, ["argv", script]), message);
  }
}

interface TextPart {
  /** Its key in the sources. */
  readonly root: string;
  readonly value: unknown;
  readonly language: Language;
  readonly place: NamePlace;
}

/** All parts that have templates, in the order of the compiled playbook. */
function* partsOf(playbook: Playbook): Generator<TextPart> {
  const above: string[] = [];
  for (const [key, value] of Object.entries(playbook.workload)) {
    const place = { at: "workload", above: [...above] } as const;
    yield { root: "workload", value: { [key]: value }, language: "text", place };
    above.push(key);
  }
  for (const [index, step] of playbook.steps.entries()) yield* partsOfStep(step, index);
  if (playbook.result !== null) {
    yield { root: "result", value: playbook.result.value, language: "text", place: { at: "result" } };
  }
}

function* partsOfStep(step: PlaybookStep, index: number): Generator<TextPart> {
  const root = `steps[${index}]`;
  const before = { at: "start", step: index, inItem: false } as const;
  const item = { at: "start", step: index, inItem: true } as const;
  const after = { at: "after", step: index } as const;
  const text = (key: string, value: unknown, place: NamePlace): TextPart => ({
    ...{ root: `${root}.${key}`, value, place },
    language: "text",
  });
  const condition = (key: string, value: string | null, place: NamePlace): TextPart => ({
    ...{ root: `${root}.${key}`, value, place },
    language: "condition",
  });
  yield condition("when", step.when, before);
  if (step.loop !== null) {
    yield text("loop.in", step.loop.in, before);
    yield condition("loop.where", step.loop.where, item);
  }
  if (step.action !== null) yield* partsOfAction(step.action, `${root}.action`, item);
  yield text("set", step.set, after);
  for (const [position, arc] of step.arcs.entries()) {
    yield condition(`arcs[${position}].when`, arc.when, after);
    yield text(`arcs[${position}].data`, arc.data, after);
    yield text(`arcs[${position}].set`, arc.set, after);
  }
}

/** The fields of an action that may have templates; `request` and `input` by field, as a document has them. */
function* partsOfAction(action: StepAction, root: string, place: NamePlace): Generator<TextPart> {
  const part = (key: string, value: unknown, language: Language = "text"): TextPart => ({
    ...{ root: `${root}.${key}`, value, language, place },
  });
  yield part("data", action.data);
  switch (action.type) {
    case "http":
      for (const [key, value] of Object.entries(action.request)) yield part(`request.${key}`, value);
      break;
    case "exec":
      for (const [key, value] of Object.entries(action.input)) yield part(`input.${key}`, value);
      break;
    case "python":
      yield part("env", action.env);
      break;
    case "shell":
      yield part("command", action.command, "shell");
      yield part("env", action.env);
      yield part("cwd", action.cwd);
      break;
    case "postgres":
      yield part("connection", action.connection);
      yield part("command", action.command, "sql");
      break;
    case "playbook":
      yield part("path", action.path);
      break;
    case "wait":
      yield part("for", action.for);
      yield part("until", action.until);
      break;
    case "task":
      break;
  }
}

function* textsOf(value: unknown, below: SourcePath): Generator<readonly [string, SourcePath]> {
  if (typeof value === "string") yield [value, below];
  else if (Array.isArray(value)) for (const [index, each] of value.entries()) yield* textsOf(each, [...below, index]);
  else if (typeof value === "object" && value !== null) {
    for (const [key, each] of Object.entries(value)) yield* textsOf(each, [...below, key]);
  }
}

function* checkText(
  text: string,
  { language, place }: TextPart,
  at: () => SourcePath,
  names: PlaybookNames,
  unknownNames: PlaybookProblem["severity"],
): Generator<PlaybookProblem> {
  let template: Template;
  try {
    template = language === "condition" ? parseWhen(text) : parseTemplate(text);
  } catch (cause) {
    if (!(cause instanceof TemplateError)) throw cause;
    yield error(cause.code, at(), cause.message, cause.offset);
    return;
  }
  for (const part of template.parts) {
    if (typeof part === "string" || !part.isRaw) continue;
    if (language === "shell") {
      const message = "| raw pastes the value into the command as it is, so a value can run other commands";
      yield { ...error("shell_raw", at(), message, part.at), severity: "warning" };
    } else yield error("template_syntax", at(), "| raw is for the command of a shell step only", part.at);
  }
  for (const use of namesOfTemplate(template)) {
    const found = names.problemOf(use, place);
    if (found === null) continue;
    const severity = found.code === "unknown_name" && found.severity === "error" ? unknownNames : found.severity;
    yield { ...error(found.code, at(), found.message, use.offset), severity };
  }
  if (language === "shell" || language === "sql") yield* checkPlace(text, language, at);
}

function* checkPlace(text: string, language: "shell" | "sql", at: () => SourcePath): Generator<PlaybookProblem> {
  try {
    if (language === "shell") shellPlaces(text);
    else checkSql(text);
  } catch (cause) {
    if (cause instanceof ShellPlaceError) yield error("shell_place", at(), cause.message, cause.offset);
    else if (cause instanceof SqlPlaceError) yield error("sql_place", at(), cause.message, cause.offset);
    else throw cause;
  }
}

/** The index of the script with a template in `["sh", "-c", SCRIPT, …]`; null without one. */
function scriptOf(argv: unknown): number | null {
  if (!Array.isArray(argv)) return null;
  const program =
    String(argv[0] ?? "")
      .split("/")
      .at(-1) ?? "";
  if (!SHELLS.includes(program)) return null;
  const option = argv.findIndex(
    (each, index) => index > 0 && typeof each === "string" && /^-[a-z]*c[a-z]*$/.test(each),
  );
  const script = option === -1 ? undefined : argv[option + 1];
  return typeof script === "string" && hasTemplate(script) ? option + 1 : null;
}

function error(code: ProblemCode, path: SourcePath, message: string, offset: number | null = null): PlaybookProblem {
  return { code, severity: "error", path, offset, message };
}
