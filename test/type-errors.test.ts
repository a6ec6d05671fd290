/** What users see when they make a type mistake: one readable error, at the right position. One run of the compiler for
 *  all of them. */
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { describe, expect, it } from "vitest";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const lines = readFileSync(`${ROOT}/test/type-errors/mistakes.ts`, "utf8").split("\n");

interface TypeError {
  readonly line: number;
  readonly column: number;
  readonly message: string;
}

async function compile(): Promise<TypeError[]> {
  const tsc = `${ROOT}/node_modules/typescript/bin/tsc`;
  const argv = [tsc, "-p", "test/type-errors/tsconfig.json", "--pretty", "false"];
  const output = await promisify(execFile)(process.execPath, argv, { cwd: ROOT }).then(
    ({ stdout }) => stdout,
    (error: { stdout: string }) => error.stdout,
  );
  const errors: TypeError[] = [];
  for (const text of output.split("\n")) {
    const found = /^(\S+)\((\d+),(\d+)\): error TS\d+: (.*)$/.exec(text);
    const last = errors.at(-1);
    if (found !== null) {
      expect(found[1]).toBe("test/type-errors/mistakes.ts");
      errors.push({ line: Number(found[2]), column: Number(found[3]), message: found[4] as string });
    } else if (last !== undefined && text !== "") errors[errors.length - 1] = { ...last, message: last.message + text };
  }
  return errors;
}

describe("a mistake in types", async () => {
  const errors = await compile();
  const marked = lines.flatMap((text, i) => {
    const found = /\/\/! (.+?) \| (.+)$/.exec(text);
    return found === null ? [] : [{ line: i + 1, text, token: found[1] as string, part: found[2] as string }];
  });

  it("is an error where it is marked, and nowhere else", () => {
    expect(marked.length).toBeGreaterThan(20);
    const places = errors.map(({ line, message }) => `${line}: ${message}`);
    expect(places.filter((place) => !marked.some(({ line }) => place.startsWith(`${line}: `)))).toEqual([]);
  });

  it.each(marked)("is reported once, at its token: $text", ({ line, text, token, part }) => {
    const here = errors.filter((error) => error.line === line);
    expect(here).toHaveLength(1);
    const [{ column, message }] = here as [TypeError];
    expect(text.slice(column - 1)).toSatisfy(
      (rest: string) => rest.startsWith(token),
      `${token} at ${column}: ${message}`,
    );
    expect(message).toContain(part);
  });
});
