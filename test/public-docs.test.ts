/** Every name that users import has a comment with an example. A name is found where it is declared, through the entry
 *  points that export it; the comment directly precedes it. No exemptions: a type that is too small for an example is
 *  too small to be exported. */
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";

const SRC = fileURLToPath(new URL("../src/", import.meta.url));
const ENTRY_POINTS = ["index", "core/index", "worker/index", "client/index", "dialects/index", "testing/index"];

interface Export {
  readonly name: string;
  readonly file: string;
}

/** The names that a file re-exports, and from where. */
function passedOn(file: string): Export[] {
  const text = readFileSync(file, "utf8");
  return [...text.matchAll(/^export (?:type )?\{([^}]*)\} from "([^"]+)";$/gm)].flatMap(([, names = "", from = ""]) =>
    names
      .split(",")
      .map((name) => name.trim().replace(/^type /, ""))
      .filter((name) => name !== "")
      .map((name) => ({ name, file: join(dirname(file), from) })),
  );
}

/** The comment before a name's declaration; null if missing. */
function commentOf({ name, file }: Export): string | null {
  const text = readFileSync(file, "utf8");
  const declared = new RegExp(`^export (?:async )?(?:class|interface|type|function|const) ${name}\\b`, "m").exec(text);
  if (declared !== null) {
    const [comment] = /\/\*\*(?:(?!\*\/)[\s\S])*\*\/\s*$/.exec(text.slice(0, declared.index)) ?? [];
    return comment === undefined || text.startsWith(comment) ? null : comment; // the first of a file is about the file
  }
  const other = passedOn(file).find((each) => each.name === name);
  if (other !== undefined) return commentOf(other);
  const [, all] = /^export \* from "([^"]+)";$/m.exec(text) ?? [];
  if (all === undefined) throw new Error(`${name} is not declared in ${file}`);
  return commentOf({ name, file: join(dirname(file), all) });
}

describe.each(ENTRY_POINTS)("the entry point %s", (entry) => {
  const exported = passedOn(join(SRC, `${entry}.ts`));

  it("has a comment with an example on every name", () => {
    expect(exported.length).toBeGreaterThan(0);
    const lacking = exported.filter((each) => !/[a-z][\s\S]*@example\n \* {2}\S/i.test(commentOf(each) ?? ""));
    expect(lacking.map(({ name }) => name)).toEqual([]);
  });
});
