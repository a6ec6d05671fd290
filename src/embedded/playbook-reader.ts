/** The reader of playbooks that engines get: texts in YAML or JSON, with the place of each problem. */
import { createHash } from "node:crypto";
import type { LocatedProblem } from "../core/api/playbooks.ts";
import { PLAYBOOK_LIMITS } from "../core/playbook/playbook.ts";
import { locateProblems } from "../core/playbook/problem-text.ts";
import { readAnyPlaybook } from "../dialects/playbooks.ts";
import type { PlaybookReader } from "../engine/parts.ts";
import { readYaml, YamlError, type YamlText } from "../yaml/read.ts";

/** `tools`: names of step types and the kinds of jobs that they mean. */
export function playbookReader(tools: Readonly<Record<string, string>> = {}): PlaybookReader {
  const context = { sha256, tools };
  return (given) => {
    if ("document" in given) {
      const reading = readAnyPlaybook(given.document, context);
      return { ...reading, problems: locateProblems(reading.problems, () => null) };
    }
    let text: YamlText;
    try {
      text = readYaml(given.source, given.file ?? "playbook", PLAYBOOK_LIMITS.lexemes);
    } catch (error) {
      if (error instanceof YamlError) return unreadable(error);
      throw error;
    }
    const reading = readAnyPlaybook(text.value, context);
    // The position of a part is that of its key; that of an offset is within its value.
    const problems = locateProblems(reading.problems, (path, offset) =>
      offset === null ? text.positionOf(path) : text.positionIn(path, offset),
    );
    return { ...reading, problems };
  };
}

function unreadable({ line, column, problem }: YamlError): ReturnType<PlaybookReader> {
  const found: LocatedProblem = {
    ...{ code: "not_a_playbook", severity: "error", path: [], offset: null },
    ...{ line, column, message: problem },
  };
  return { playbook: null, assets: new Map(), problems: [found], notes: [] };
}

function sha256(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}
