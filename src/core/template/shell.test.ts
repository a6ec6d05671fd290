// biome-ignore-all lint/suspicious/noTemplateCurlyInString: these are texts of shell commands
import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { IS_FULL, SEED } from "../../../test/tier.ts";
import { FillError } from "./fill.ts";
import { fillShell, type ShellPlace, ShellPlaceError, shellPlaces } from "./shell.ts";

const STRICT = { undefined: "strict" } as const;
const SHELLS = ["/bin/sh", "/bin/bash"].filter((path) => existsSync(path));

/** What a hostile or a careless author puts into a value. */
const HOSTILE = [
  "",
  " ",
  "-n",
  "--",
  "$(touch pwned)",
  "`touch pwned`",
  "'; touch pwned; '",
  '"; touch pwned; "',
  "'$(touch pwned)'",
  "\\'$(touch pwned)",
  '\\"$(touch pwned)',
  "\\",
  "\\\\",
  "'",
  '"',
  "''",
  "$HOME",
  "${HOME}",
  "HOME",
  "(touch pwned)",
  "((1))",
  "\n",
  "a\nb\n",
  "a\n# b",
  "\r\n",
  "\t",
  "*",
  "?",
  "[a-z]",
  "~",
  "~root",
  "{a,b}",
  "a=b",
  "#",
  "# comment",
  "!",
  "!!",
  "&& touch pwned",
  "| touch pwned",
  "; touch pwned",
  "& touch pwned",
  "> pwned",
  "<<EOF",
  "2>pwned",
  "if",
  "done",
  "%s%n",
  "x[$(touch pwned)]",
  "{{ x }}",
  "ünï💥cödé",
  "\u0001\u007f\u001b[0m",
];

/** Places of one argument, and what the argument is around the value. `$V` is set to `var`, and Vx to nothing. */
const PLACES: readonly (readonly [template: string, before: string, after: string])[] = [
  ["{{ v }}", "", ""],
  ["a{{ v }}b", "a", "b"],
  ["'{{ v }}'", "", ""],
  ["'a {{ v }} $HOME'", "a ", " $HOME"],
  ['"{{ v }}"', "", ""],
  ['"a\\" {{ v }} \\$"', 'a" ', " $"],
  ['"$V{{ v }}"', "var", ""],
  ["$V{{ v }}", "var", ""],
  [`"'{{ v }}'"`, "'", "'"],
  ["\\'{{ v }}\\'", "'", "'"],
  ["--opt={{ v }}", "--opt=", ""],
  [`"\${V}{{ v }}"`, "var", ""],
  [`"$((1 + 2)){{ v }}"`, "3", ""],
  ["`printf x`{{ v }}", "x", ""],
  ["\\\n{{ v }}", "", ""],
  ["a\\\nb{{ v }}", "ab", ""],
];

/** The same, within another command, which takes a process for each. */
const NESTED: typeof PLACES = [
  [`"$(printf '%s.' "{{ v }}")"`, "", "."],
  [`"$(printf '%s.' '{{ v }}')"`, "", "."],
  [`"$(printf '%s.' {{ v }})"`, "", "."],
  [`"$(printf '%s.' "$(printf %s. "a {{ v }}")")"`, "a ", ".."],
];

/** The arguments that one process of the shell gets for all values in all places. */
function argumentsIn(shell: string, places: typeof PLACES, values: readonly string[]): string[] {
  const pieces = places.flatMap(([place]) => values.map((_, i) => place.replaceAll("v }}", `v${i} }}`)));
  const command = `V=var\n# it's a "comment\nprintf '%s\\0' ${pieces.join(" ")} # {the} "end`;
  const filled = fillShell(command, (name) => values[Number(name.slice(1))], STRICT);
  const options = shell.endsWith("bash") ? ["--norc", "--noprofile", "-c"] : ["-c"];
  const output = execFileSync(shell, [...options, filled], {
    encoding: "utf8",
    maxBuffer: 1 << 26,
    cwd: "/tmp",
    env: { PATH: process.env.PATH },
  });
  return output.split("\0").slice(0, -1);
}

function expectedOf(places: typeof PLACES, values: readonly string[]): string[] {
  return places.flatMap(([, before, after]) => values.map((value) => before + value + after));
}

describe.each(SHELLS)("a value in a command of %s", (shell) => {
  it("is the argument, whatever it is and wherever it is", () => {
    expect(argumentsIn(shell, PLACES, HOSTILE)).toEqual(expectedOf(PLACES, HOSTILE));
    expect(argumentsIn(shell, NESTED, HOSTILE)).toEqual(expectedOf(NESTED, HOSTILE));
  });

  it("is the argument, for values of random pieces", { timeout: 600_000 }, () => {
    const text = fc.string({ unit: fc.constantFrom(...HOSTILE, ..."abc$'\"\\`(){};|&<>#!~*?[]= \n\t"), maxLength: 8 });
    const values = fc.sample(text, { numRuns: IS_FULL ? 10_000 : 200, seed: SEED });
    for (let at = 0; at < values.length; at += 40) {
      const some = values.slice(at, at + 40);
      const places = IS_FULL || at === 0 ? [...PLACES, ...NESTED.slice(0, IS_FULL ? NESTED.length : 1)] : PLACES;
      expect(argumentsIn(shell, places, some)).toEqual(expectedOf(places, some));
    }
    expect(existsSync("/tmp/pwned")).toBe(false);
  });
});

describe("a shell command", () => {
  it.each<[string, unknown, string]>([
    ["ls {{ v }}", "a b", "ls 'a b'"],
    ["ls {{ v }}", 3, "ls '3'"],
    ["ls '{{ v }}'", "it's", String.raw`ls 'it'\''s'`],
    ['ls "{{ v }}"', 'a"b', `ls ""'a"b'""`],
    ["echo {{ v }}", { a: ["'"] }, String.raw`echo '{"a":["'\''"]}'`],
    ["echo {{ v | raw }} {{ v }}", "a b", "echo a b 'a b'"],
    ["plain; 'no' template <<EOF\nEOF\n", 1, "plain; 'no' template <<EOF\nEOF\n"],
    ["echo {{- v -}} x", "y", "echo'y'x"],
  ])("%s with %j", (command, value, filled) => {
    expect(fillShell(command, () => value, STRICT)).toBe(filled);
  });

  it.each<[string, unknown, string]>([
    ["echo {{ v }}", undefined, "undefined: {{ v }}: v is undefined"],
    ["echo {{ v }}", null, "template: {{ v }}: None has no text; add a default"],
    ["echo {{ v }}", "a\0b", "template: a command cannot have the character U+0000"],
    ["echo $(({{ v }}))", 1, "template: a value cannot be quoted in $((…)) (at character 9)"],
    ["echo {{ v", 1, 'template: missing "}}" (at character 8)'],
  ])("%s with %j is refused", (command, value, message) => {
    try {
      fillShell(command, () => value, STRICT);
      expect.unreachable();
    } catch (error) {
      expect(error).toBeInstanceOf(FillError);
      expect(`${(error as FillError).code}: ${(error as FillError).message}`).toBe(message);
    }
  });
});

describe("the places of a command", () => {
  it.each<[string, ShellPlace[]]>([
    ["echo", []],
    [`{{ a }} '{{ b }}' "{{ c }}"`, ["bare", "single", "double"]],
    [`echo "$(cat '{{ a }}' | sed "s/{{ b }}/x/")" {{ c }}`, ["single", "double", "bare"]],
    ["cat <<EOF\nit's\nEOF\necho {{ a }}", ["bare"]],
    ["cat <<'EOF' | tee {{ a }}\n$(it's\nEOF\necho '{{ b }}'", ["bare", "single"]],
    ["cat <<-EOF\n\tit's\n\tEOF\necho {{ a }}", ["bare"]],
    ["# it's\necho {{ a }}#'{{ b }}'", ["bare", "single"]],
    ["case {{ a }} in x) echo '{{ b }}';; esac", ["bare", "single"]],
    ["for f in {{ a }}; do (echo $f > {{ b }}); done", ["bare", "bare"]],
    ["sh -c 'echo \"$1\"' sh {{ a }}", ["bare"]],
    ["bash script.sh {{ a }}", ["bare"]],
    ["kubectl exec {{ a }} -c {{ b }} -- ls", ["bare", "bare"]],
    ["echo eval {{ a }}; evaluate {{ a }}", ["bare", "bare"]],
    ["[ {{ a }} -gt 3 ] && test -n {{ a }}", ["bare", "bare"]],
    ["cat <<< {{ a }}", ["bare"]],
    ["echo \\\\{{ a }} \\${{ '' }}", ["bare", "bare"]],
    ["x={{ a }} y=$x cmd 2>&1 >{{ b }} &", ["bare", "bare"]],
  ])("%s", (command, places) => {
    expect(shellPlaces(command)).toEqual(places);
  });

  // The position is that of the first "^" in the second column.
  it.each<[string, string, string]>([
    ["cat <<EOF\n{{ a }}\nEOF", "          ^", "in a heredoc"],
    ["cat <<'EOF'\nx\n\tEOF\n{{ a }}\nEOF", "                   ^", "in a heredoc"],
    ["cat <<{{ a }}", "      ^", "as the end of a heredoc"],
    ["cat <<A <<B\nA\n{{ a }}\nB", "              ^", "in a heredoc"],
    ["cat <<EOF\nx\\\nEOF\nEOF\n'{{ a }}'", "                      ^", "safely after a heredoc with a line"],
    ['cat <<A "\n{{ a }}"\nA', "          ^", "safely after a heredoc and a text"],
    ["echo `ls {{ a }}`", "         ^", "in backticks; use $(…)"],
    ['echo "`ls {{ a }}`"', "          ^", "in backticks"],
    ["echo $((1 + {{ a }}))", "            ^", "in $((…))"],
    ["echo ${x:-{{ a }}}", "          ^", "in a parameter expansion"],
    ["echo ${{ a }}", "      ^", "directly after $"],
    ['echo "${{ a }}"', "       ^", "directly after $"],
    ["echo \\{{ a }}", "      ^", "directly after a backslash"],
    ["echo x # {{ a }}", "         ^", "in a comment"],
    ["eval {{ a }}", "     ^", "after eval"],
    ["x=1 ev'a'l \"{{ a }}\"", "            ^", "after eval"],
    ["if true; then eval ls '{{ a }}'; fi", "                       ^", "after eval"],
    ["sh -c 'ls {{ a }}'", "          ^", "in the code of a shell"],
    ["find . -exec /bin/bash -ec {{ a }} \\;", "                           ^", "in the code of a shell"],
    ['sudo bash -o pipefail -c "ls {{ a }}"', "                             ^", "in the code of a shell"],
    ["$SHELL -c {{ a }}", "          ^", "in the code of a shell"],
    ["sudo $SHELL -c {{ a }}", "               ^", "in the code of a shell"],
    ["{{ a }} -c {{ b }}", "           ^", "in the code of a shell"],
    ["su root -c {{ a }}", "           ^", "in the code of a shell"],
    ["su --command={{ a }}", "             ^", "in the code of a shell"],
    ["sh -c >&2 {{ a }}", "          ^", "in the code of a shell"],
    ["sh -c 2>f <g 3<<E {{ a }}\nE", "                  ^", "in the code of a shell"],
    [">echo eval {{ a }}", "           ^", "after eval"],
    ["if ! x=1 $CMD -c {{ a }}; then", "                 ^", "in the code of a shell"],
    ["bash <<< {{ a }}", "         ^", "in the code of a shell"],
    ["trap '{{ a }}' EXIT", "      ^", "after trap"],
    ["let x={{ a }}", "      ^", "after let"],
    ["printf -v {{ a }} x", "          ^", "in the name of a variable"],
    ["a[{{ a }}]=1", "  ^", "in the index of a variable"],
    ["[[ {{ a }} -eq 1 ]]", "   ^", "in [[ … ]]; use [ … ]"],
    ["[[ x && {{ a }} -eq 1 ]]", "        ^", "in [[ … ]]"],
    ["(( {{ a }} > 1 ))", "   ^", "safely after (("],
    ["echo $'a' '{{ a }}'", "           ^", "safely after $'…'"],
    ["echo $[1] {{ a }}", "          ^", "safely after $["],
    ["\"$(case x in a) echo '{{ a }}';; esac)\"", "                      ^", "safely after case in $(…)"],
    ["echo \"${x:-'}\" '{{ a }}'", "                ^", "safely after a parameter expansion"],
    ["echo $\\\n(ls '{{ a }}')", "             ^", "safely after a line"],
  ])("%s has none", (command, marker, message) => {
    try {
      shellPlaces(command);
      expect.unreachable();
    } catch (error) {
      if (!(error instanceof ShellPlaceError)) throw error;
      expect(error.message).toContain(message);
      expect(`${" ".repeat(error.offset)}^`).toBe(marker);
    }
  });

  it("are at most 1 MiB when they are filled", () => {
    const tooLarge = expect.objectContaining({ code: "too_large" });
    expect(() => fillShell("echo {{ v }}", () => "x".repeat(1_048_577), STRICT)).toThrow(tooLarge);
    expect(() => fillShell(`echo {{ v }} ${"x".repeat(400_000)}`, () => 1, STRICT)).toThrow(tooLarge);
    expect(fillShell("x".repeat(1_000_000), () => 1, STRICT)).toHaveLength(1_000_000);
  });

  it("are found in bounded depth", () => {
    expect(() => shellPlaces(`${"$(".repeat(100_000)} {{ a }}`)).toThrow("safely after that many $(…)");
    expect(shellPlaces("$(".repeat(100_000))).toEqual([]);
  });
});
