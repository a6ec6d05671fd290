/** Reads playbooks written as YAML in tests, and shows their problems in one line each. */
import { createHash } from "node:crypto";
import type { ReadPlaybook } from "../src/core/playbook/problem.ts";
import { locateProblems } from "../src/core/playbook/problem-text.ts";
import { readPlaybook } from "../src/core/playbook/read-playbook.ts";
import { readYaml } from "../src/yaml/read.ts";

export const TEST_CONTEXT = {
  sha256: (text: string) => createHash("sha256").update(text).digest("hex"),
  tools: { duckdb: "my-duckdb" },
};

/** With the head that all playbooks have, in three lines. */
export function readTest(body: string): ReadPlaybook & { readonly shown: readonly string[] } {
  return readText(`apiVersion: perdure/v1\nkind: Playbook\nmetadata: { name: test }\n${body}`);
}

/** `shown`: `LINE:COLUMN CODE: MESSAGE`, in the order of the text. */
export function readText(source: string): ReadPlaybook & { readonly shown: readonly string[] } {
  const text = readYaml(source, "test.yaml");
  const read = readPlaybook(text.value, TEST_CONTEXT);
  const located = locateProblems(read.problems, (path, offset) =>
    offset === null ? text.positionOf(path) : text.positionIn(path, offset),
  );
  const shown = located.map(({ line, column, severity, code, message }) => {
    const warning = severity === "error" ? "" : "(warning) ";
    return `${line}:${column} ${warning}${code}: ${message}`;
  });
  return { ...read, shown };
}
