import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { lookUp } from "../../worker/exec/run-user.ts";
import type { Config } from "../config/config.ts";
import { runAsOf } from "./run-as.ts";

it.skipIf(process.geteuid?.() !== 0)("notes that root can read the token, however it was named", () => {
  for (const given of ["root", "0", "0:65534"]) {
    const config = { text: () => given, sourceOf: () => "--run-as" } as unknown as Config;
    expect(runAsOf(config, "/").note).toContain("who can read the token");
  }
});

it.skipIf(process.geteuid?.() !== 0 || lookUp("nobody") === null)(
  "stays root, and reports it, if the other user cannot enter the working directory",
  () => {
    const config = { text: () => undefined } as unknown as Config;
    const cwd = mkdtempSync(join(tmpdir(), "perdure-run-as-")); // 0700
    onTestFinished(() => rmSync(cwd, { recursive: true, force: true }));
    expect(runAsOf(config, cwd)).toMatchObject({
      user: null,
      note: expect.stringMatching(/^run as root.*cannot enter/),
    });
    expect(runAsOf(config, "/").user).not.toBeNull();
  },
);
