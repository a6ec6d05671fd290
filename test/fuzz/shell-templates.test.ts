// biome-ignore-all lint/suspicious/noTemplateCurlyInString: these are texts of shell commands
/** Commands of playbooks are filled with values from anybody, and a shell reads the result. So: whatever a command is made of, and
 *  whatever the value, either the template is refused or the value is not read as code. Here each value would make a file,
 *  with a sign that a shell reads in its source only, not in what a command prints. */
import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, describe, expect, it } from "vitest";
import { FillError } from "../../src/core/template/fill.ts";
import { fillShell } from "../../src/core/template/shell.ts";
import { IS_FULL, SEED } from "../tier.ts";

const TEMPLATE = "{{ v }}";

/** Nothing of it runs a program that does harm. */
const PIECES = [
  ..."echo |printf %s |'|'|\"|\"|$(|)|$(echo |`|`|$((1+|))|\\|\n| |;|&&|#| # |eval |sh -c |bash |let |a[|]=1 |<<<".split(
    "|",
  ),
  ...">&2 |2>&1 |$x|$|$$|$#|$'|x=|x=1 |{ |; }|( | )|((|$[|]|trap | EXIT|declare |export |-c |exec |in|!|~|*|$\"|time ".split(
    "|",
  ),
  ..."<(echo |>(cat |&> f |unset |env |xargs |test |-eq 1|[ | ] |[[ | ]] |if true; then |; fi |f() { |select |coproc ".split(
    "|",
  ),
  ..."cat <<EOF\n|EOF\n|\nEOF\n|<<'EOF'\n|<<-EOF\n|\tEOF\n|<<\"E\"\n|\nE\n|case a in a) |case a in (a) |;; esac ".split(
    "|",
  ),
  ...["||", "|&", ">| f ", "${x:-", "${x#", "${", "}", "\\\n", "printf -v ", "read "],
];
const ENDS = ["", "'", '"', ")", '")', "}", "`", "\nEOF\n", "; fi", ";; esac)", "))", "]]"];
const VALUES = [
  "$(>made)",
  "`>made`",
  "';>made;'",
  '";>made;"',
  "\n>made\n",
  ";>made;",
  "a[$(>made)]",
  "0$(>made)",
  "x\nEOF\n>made\n",
  "\tEOF\n>made\n",
  "E\n>made\n",
  ");>made;(",
  "(>made)",
  "'$(>made)'",
  "};>made;{",
  "\\';>made;'",
  "|>made|",
  "'\"`;>made;`\"'",
  " ;; esac; >made; case a in a) ",
  "]];>made;[[",
];

const commands = fc
  .tuple(
    fc.array(
      fc.oneof({ weight: 1, arbitrary: fc.constant(TEMPLATE) }, { weight: 3, arbitrary: fc.constantFrom(...PIECES) }),
      {
        minLength: 2,
        maxLength: 12,
      },
    ),
    fc.constantFrom(...ENDS),
  )
  .map(([pieces, end]) => (pieces.includes(TEMPLATE) ? "" : TEMPLATE) + pieces.join("") + end)
  .filter((command) => !command.includes("{{{") && !command.includes("}}}"));

describe("a value in any command", () => {
  const folder = mkdtempSync(join(tmpdir(), "perdure-shell-"));
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  it.each(["/bin/sh", "/bin/bash"].filter((path) => existsSync(path)))(
    "is not read as code by %s, or the command is refused",
    { timeout: 900_000 },
    (shell) => {
      let [filled, refused] = [0, 0];
      const property = fc.property(commands, fc.constantFrom(...VALUES), (command, value) => {
        const text = filledOrNull(command, value);
        if (text === null) {
          refused += 1;
          return;
        }
        filled += 1;
        const options = shell.endsWith("bash") ? ["--norc", "-c"] : ["-c"];
        spawnSync(shell, [...options, text], {
          cwd: folder,
          stdio: "ignore",
          timeout: 10_000,
          env: { PATH: process.env.PATH },
        });
        expect(existsSync(join(folder, "made"))).toBe(false);
      });
      const numRuns = IS_FULL ? 10_000 : 100;
      fc.assert(property, { numRuns, seed: SEED });
      console.log(`seed ${SEED}: ${filled} filled, ${refused} refused`);
      expect(filled).toBeGreaterThan(numRuns / 10);
    },
  );

  function filledOrNull(command: string, value: string): string | null {
    try {
      return fillShell(command, () => value, { undefined: "strict" });
    } catch (error) {
      if (error instanceof FillError) return null;
      throw error;
    }
  }
});
