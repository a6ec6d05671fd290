/** Commands with children: the command line within a job finds its server, its job, and a restricted token. */

import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { connect, output, sh, TEST_MS, tokenIn, up } from "./kit.ts";

const DIST = process.env.PERDURE_TEST_DIST ?? fileURLToPath(new URL("../../dist", import.meta.url));
/** As it would be called on a machine where it is installed. */
const PERDURE = `perdure() { "${process.execPath}" "${join(DIST, "cli", "main.js")}" "$@"; }; `;
const command = (script: string) => sh(`set -e; ${PERDURE}${script}`);

describe("a command with children", { timeout: TEST_MS }, () => {
  it("submits, waits and reads with its environment, and may do nothing else", async () => {
    const { url, ...said } = await up({ args: ["--concurrency", "3"] });
    const client = await connect(url, tokenIn({ ...said }));
    const stranger = await client.submit("nobody-runs-this");
    const parent = await client.submit(
      "exec",
      command(`
        child=$(perdure submit --key one -- sh -c 'echo from the child')
        test "$child" = "$(perdure submit --key one -- sh -c 'echo from the child' 2>/dev/null)"
        perdure wait "$child" >/dev/null
        perdure logs "$child"
        perdure ps --json | grep -c '"id"'
        for try in "cancel $child" "get ${stranger.id}" "queues" "token list" "redrive $child"; do
          perdure $try >/dev/null 2>&1 && echo "allowed: $try"
        done
        echo done
      `),
    );
    await parent.result();
    expect(await output(client, parent.id, 1, "stdout.log")).toBe("from the child\n1\ndone\n");
    const { jobs } = await client.jobs({ parent: parent.id });
    expect(jobs).toMatchObject([{ parentId: parent.id, depth: 1, state: "succeeded" }]);
    expect((await stranger.get()).state).toBe("queued");
  });

  it("gives up its slot while it waits, and finds its children again", async () => {
    const { url, ...said } = await up({ args: ["--concurrency", "1"] });
    const client = await connect(url, tokenIn({ ...said }));
    const parent = await client.submit(
      "exec",
      command(`
        child=$(perdure submit --key part -- sh -c 'exit 0')
        if [ "$PERDURE_ATTEMPT" = 1 ]; then
          echo "{\\"status\\": \\"waiting\\", \\"children\\": [\\"$child\\"]}" > "$PERDURE_RESULT_FILE"
        else
          perdure tree "$PERDURE_JOB_ID" | sed 's/job_[a-z0-9]*/ID/'
        fi
      `),
    );
    await parent.result();
    expect(await parent.get()).toMatchObject({ attempt: 2, failures: 0 });
    expect(await output(client, parent.id, 2, "stdout.log")).toMatch(/^ID {2}running .*\n└─ ID {2}succeeded .*\n$/);
  });

  it("is stopped when it has reported that its budget is used up", async () => {
    const { url, ...said } = await up();
    const client = await connect(url, tokenIn({ ...said }));
    const job = await client.submit("exec", command("perdure usage --cost-usd 2; while :; do sleep 1; done"), {
      retry: { maxAttempts: 5, budget: { costUsd: 1.5 } },
    });
    await expect(job.result()).rejects.toMatchObject({ reason: "budget" });
    expect(await job.get()).toMatchObject({ attempt: 1, usage: { costUsd: 2 } });
  });
});
