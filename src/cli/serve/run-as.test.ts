import { expect, it } from "vitest";
import type { Config } from "../config/config.ts";
import { runAsOf } from "./run-as.ts";

it.skipIf(process.geteuid?.() !== 0)("says that root can read the token, however it was named", () => {
  for (const given of ["root", "0", "0:65534"]) {
    const config = { text: () => given, sourceOf: () => "--run-as" } as unknown as Config;
    expect(runAsOf(config, "/").note).toContain("who can read the token");
  }
});
