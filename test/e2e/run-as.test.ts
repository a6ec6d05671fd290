/** Commands of a server that runs as root run as another user, who can read neither its token nor its environment. */
import { chmodSync, existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { lookUp } from "../../src/worker/exec/run-user.ts";
import { connect, output, sh, TEST_MS, tokenIn, up } from "./kit.ts";

const IS_ROOT = process.geteuid?.() === 0 && lookUp("nobody") !== null;

describe.skipIf(!IS_ROOT)("perdure up as root (changing the user requires root)", { timeout: TEST_MS }, () => {
  it("runs commands as a user who cannot read the token, with everything that commands are guaranteed", async () => {
    // Not the directory for temporary files of tests: other users may have no access to it.
    const home = mkdtempSync("/tmp/perdure-run-as-");
    onTestFinished(() => rmSync(home, { recursive: true, force: true }));
    chmodSync(home, 0o755);
    writeFileSync(join(home, "here.txt"), "readable\n");
    const server = await up({ home });
    expect(server).toMatchObject({ commandsRunAs: expect.stringMatching(/^(perdure|nobody)$/) });
    const client = await connect(server.url, tokenIn(server));
    const script = `
      cd ${home} && cat here.txt; [ "$(id -u)" = 0 ] && echo is root
      for file in ${server.tokenFile} ${home}/data/worker-token ${home}/data/perdure.db /proc/$PPID/environ; do
        cat $file > /dev/null 2>&1 && echo "can read $file"; done
      ls ${home}/work > /dev/null 2>&1 && echo can list; echo again > /dev/stdout; cd; [ -w . ] && echo writable home
      [ "$PERDURE_ATTEMPT" = 2 ] && cat "$PERDURE_PREVIOUS_OUTPUT_DIR/artifacts/saved" "$PERDURE_PREVIOUS_OUTPUT_DIR/stdout.log"
      mkdir -p "$PERDURE_OUTPUT_DIR/artifacts/dir"; ln -s ${home}/data "$PERDURE_OUTPUT_DIR/artifacts/link"
      echo kept > "$PERDURE_OUTPUT_DIR/artifacts/saved"; chmod 000 "$PERDURE_OUTPUT_DIR/artifacts/dir"; [ "$PERDURE_ATTEMPT" = 2 ]`;
    const job = await client.submit("exec", sh(script), { retry: { maxAttempts: 2, backoff: { initial: "1ms" } } });
    expect(await job.result()).toMatchObject({ exitCode: 0, outputs: [{ name: "saved", size: 5 }], moreOutputs: 1 });
    const mine = "readable\nagain\nwritable home\n";
    expect(await output(client, job.id, 1, "stdout.log")).toBe(mine);
    expect(await output(client, job.id, 2, "stdout.log")).toBe(`${mine}kept\n${mine}`);
    expect(await output(client, job.id, 2, "artifacts/saved")).toBe("kept\n");

    // A directory that the job names is entered as that user too.
    chmodSync(join(home, "here.txt"), 0o600);
    const closed = await client.submit("exec", { ...sh("cat here.txt"), cwd: join(home, "data") });
    await expect(closed.result()).rejects.toThrow(/cannot enter .*\/data; .*--run-as/);
    expect(await server.proc.stop()).toBe(0);
    expect(existsSync(join(home, "work", job.id))).toBe(false);
  });
});
