/** F30: a few power cuts; `npm run test:power -- --rounds 300` makes more of them. */
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import { notTested } from "../crash/strace.ts";
import { whyNoPower } from "./disk.ts";

const ROUNDS = process.env.PERDURE_SOAK === "1" ? 30 : 2;
const ROUND_MS = 120_000;

const why = whyNoPower();
if (why !== null) notTested("test/power/power.full.test.ts", why);
else {
  it(`${ROUNDS} power cuts lose nothing acknowledged, and everything that was not flushed`, {
    timeout: ROUNDS * ROUND_MS,
  }, () => {
    const script = fileURLToPath(new URL("power.ts", import.meta.url));
    const args = ["--import", "tsx", script, "--rounds", String(ROUNDS)];
    const { stdout, stderr } = spawnSync(process.execPath, args, { encoding: "utf8" });
    expect(`${stdout}${stderr}`).toContain(": 0 with anything lost; 0 that lost not even unflushed data");
  });
}
