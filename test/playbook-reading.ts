/** What must hold for the reading of any document. */
import { Compile } from "typebox/schema";
import { expect } from "vitest";
import { graphOf } from "../src/core/playbook/graph.ts";
import { type PlaybookProblem, PROBLEM_CODES } from "../src/core/playbook/problem.ts";
import { readPlaybook } from "../src/core/playbook/read-playbook.ts";
import { MAX_PROBLEMS } from "../src/core/playbook/reading.ts";
import { playbookSchema } from "../src/core/playbook/schema.ts";
import { TEST_CONTEXT } from "./playbook-text.ts";

const schema = Compile(JSON.parse(JSON.stringify(playbookSchema())));

/** Whether the JSON Schema for editors accepts it. */
export function fitsSchema(document: unknown): boolean {
  return schema.Check(document);
}

/** Reads it, and returns whether it was accepted. */
export function checkReading(document: unknown): boolean {
  const { playbook, problems } = readPlaybook(document, TEST_CONTEXT);
  for (const problem of problems)
    if (!isWellFormed(problem)) expect(problem).toBe("a problem with code, place and text");
  if (problems.length > MAX_PROBLEMS + 1) expect(problems.length).toBe(MAX_PROBLEMS);
  const isRefused = problems.some(({ severity }) => severity === "error");
  if ((playbook === null) !== isRefused) expect(problems).toBe("errors exactly if there is no playbook");
  if (playbook === null) return false;
  if (!graphOf(playbook).reachable.has(playbook.entry)) expect(playbook).toBe("one with an entry");
  expect(JSON.parse(JSON.stringify(playbook))).toEqual(playbook);
  // An editor must not mark what the reader accepts.
  const plain = JSON.parse(JSON.stringify(document));
  if (!fitsSchema(plain)) expect(JSON.stringify(plain)).toBe("to fit the schema");
  return true;
}

function isWellFormed({ code, path, offset, message }: PlaybookProblem): boolean {
  const isPath = path.every((part) => typeof part === "string" || typeof part === "number");
  const isOffset = offset === null || (Number.isInteger(offset) && offset >= 0);
  return PROBLEM_CODES.includes(code) && isPath && isOffset && message.length <= 600 && !message.includes("\n");
}
