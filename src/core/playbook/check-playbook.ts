/** Checks a compiled playbook of any format: its limits, names, arcs and templates. All problems are reported, each with its place
 *  in the document, by the sources of the compiled parts. */
import { show } from "../errors.ts";
import { checkGraph } from "./check-graph.ts";
import { PlaybookNames } from "./check-names.ts";
import { checkTemplates } from "./check-templates.ts";
import { RESERVED_NAMES, STEP_NAME, VARIABLE_NAME } from "./names-in-scope.ts";
import { Places } from "./places.ts";
import { PLAYBOOK_LIMITS, type Playbook } from "./playbook.ts";
import type { PlaybookProblem, ProblemCode, SourceMap, SourcePath } from "./problem.ts";
import { DocumentReading } from "./reading.ts";

export interface CheckOptions {
  /** What a name in a template is that nothing supplies. Default: an error. */
  readonly unknownNames?: PlaybookProblem["severity"];
  /** What a step or an iterator is that is called like a name in scope. Default: an error. */
  readonly reservedNames?: PlaybookProblem["severity"];
}

export function checkPlaybook(playbook: Playbook, sources: SourceMap, options?: CheckOptions): PlaybookProblem[] {
  const found = new DocumentReading();
  checkInto(found, playbook, sources, options);
  return [...found.problems];
}

/** Adds the problems to those of a reading. */
export function checkInto(
  found: DocumentReading,
  playbook: Playbook,
  sources: SourceMap,
  { unknownNames = "error", reservedNames = "error" }: CheckOptions = {},
): void {
  const places = new Places(sources);
  const names = new PlaybookNames(playbook, (given, known) => (found.isFull ? "" : found.hint(given, known())));
  // Where an arc has a wrong name, its step only seems to be unreachable.
  const hasAllArcs = !found.has("unknown_step");
  for (const problem of checkNames(playbook, places, reservedNames)) found.add(problem);
  // The checks that follow cost more with each arc.
  const arcs = playbook.steps.reduce((sum, step) => sum + step.arcs.length, 0);
  if (arcs > PLAYBOOK_LIMITS.allArcs) {
    found.error("too_large", [], `${arcs} arcs; a playbook has at most ${PLAYBOOK_LIMITS.allArcs}`);
    return;
  }
  for (const problem of checkGraph(playbook, places)) {
    if (hasAllArcs || problem.code !== "unreachable") found.add(problem);
  }
  for (const problem of checkTemplates(playbook, places, names, unknownNames)) found.add(problem);
}

function* checkNames(
  playbook: Playbook,
  places: Places,
  reserved: PlaybookProblem["severity"],
): Generator<PlaybookProblem> {
  const error = (code: ProblemCode, path: SourcePath, message: string): PlaybookProblem => ({
    ...{ code, severity: "error", path, offset: null, message },
  });
  if (playbook.steps.length > PLAYBOOK_LIMITS.steps) {
    yield error("too_large", [], `${playbook.steps.length} steps; at most ${PLAYBOOK_LIMITS.steps}`);
  }
  const seen = new Set<string>();
  for (const [index, step] of playbook.steps.entries()) {
    const at = places.of(`steps[${index}].name`);
    const { name, loop } = step;
    if (name !== "" && seen.has(name)) yield error("duplicate_step", at, `two steps are called ${show(name)}`);
    seen.add(name);
    // An empty name was reported as missing.
    if (name !== "" && !STEP_NAME.test(name)) {
      const allowed = 'letters, digits, "_", "." and "-", at most 100, beginning with a letter or "_"';
      yield error("invalid_value", at, `step: the name ${show(name)} must be ${allowed}`);
    } else if (RESERVED_NAMES.has(name)) {
      yield { ...error("reserved_name", at, reservedText("step", name)), severity: reserved };
    }
    if (loop !== null) {
      const where = places.of(`steps[${index}].loop.iterator`);
      if (!VARIABLE_NAME.test(loop.iterator)) {
        yield error("invalid_value", where, `iterator: ${show(loop.iterator)} must be letters, digits and "_"`);
      } else if (RESERVED_NAMES.has(loop.iterator)) {
        yield { ...error("reserved_name", where, reservedText("iterator", loop.iterator)), severity: reserved };
      }
    }
    if (step.arcs.length > PLAYBOOK_LIMITS.arcs) {
      const message = `next: has ${step.arcs.length} arcs; at most ${PLAYBOOK_LIMITS.arcs}`;
      yield error("too_large", places.of(`steps[${index}].arcs[0]`), message);
    }
    for (const [root, set] of [[`steps[${index}].set`, step.set], ...arcSets(playbook, index)] as const) {
      for (const name of Object.keys(set)) {
        if (VARIABLE_NAME.test(name)) continue;
        yield error(
          "invalid_value",
          places.of(root, [name]),
          `set: the name ${show(name)} must be letters, digits and "_"`,
        );
      }
    }
  }
}

function arcSets(playbook: Playbook, step: number): (readonly [string, Readonly<Record<string, unknown>>])[] {
  return (playbook.steps[step]?.arcs ?? []).map(
    (arc, index) => [`steps[${step}].arcs[${index}].set`, arc.set] as const,
  );
}

function reservedText(field: string, name: string): string {
  return `${field}: "${name}" means something else in templates; choose another name`;
}
