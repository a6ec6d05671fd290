/** A command cannot read the environment of the process that runs it. */
import { describe, expect, it } from "vitest";
import { newPlace, runScript } from "./program.ts";

describe.skipIf(process.platform !== "linux")("the environment of `perdure`", () => {
  it("is hidden from its commands, and so is a password in its arguments, while `perdure` itself uses it", async () => {
    const secrets = {
      PERDURE_TOKEN: "pdr_tttttttt_token",
      PGPASSWORD: "geheim1",
      PERDURE_SECRET: "geheim2",
      OTHER: "geheim3",
    };
    const script =
      'tr "\\0" "\\n" < /proc/$PPID/environ; tr "\\0" "\\n" < /proc/$PPID/cmdline; echo "mine: $OTHER"; ' +
      'for p in $(cat /proc/$PPID/task/*/children); do cat /proc/$p/environ; done | tr "\\0" "\\n"';
    const said = await runScript(
      newPlace(),
      ["--env", "OTHER", "--key", "postgres://me:ge@geheim4@db/x,postgres://me:me@db/y?password=geheim5&a=b"],
      script,
      secrets,
    );
    expect(said.code).toBe(0);
    expect(said.stdout).toContain("postgres://me:**********@db/x,postgres://me:**@db/y?password=*******&a=b");
    expect(said.stdout).toContain("mine: geheim3"); // the job names it
    expect(said.stdout.replaceAll(/^(mine|OTHER)[:=] ?geheim3$/gm, "")).not.toMatch(/geheim|pdr_t/);
  });
});
