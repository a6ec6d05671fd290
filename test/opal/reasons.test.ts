/** "A2.2: Retry Reason Filtering", with a real server, a real worker and an engine that is a real program: whether what
 *  it reports, in its result.json or on stderr, is retried. */
import { describe, expect, it } from "vitest";
import { startOpal } from "./kit.ts";

/** The prompt is the engine's script. */
const ENGINE = ["sh", "-c", 'sh "$OPAL_PROMPT_FILE"'];
const AT_ONCE = { OPAL_RETRY_BACKOFFS: "0", OPAL_MAX_RETRIES: "3" };
/** Only the first attempt fails. */
const FIRST = '[ "$PERDURE_ATTEMPT" = 1 ] || exit 0\n';
const reported = (result: object, exitCode: number) =>
  `${FIRST}echo '${JSON.stringify(result)}' > "$PERDURE_OUTPUT_DIR/result.json"; exit ${exitCode}`;
const onStderr = (text: string, exitCode = 1) => `${FIRST}printf '${text}' >&2; exit ${exitCode}`;

type Case = readonly [what: string, script: string];

describe('"Distinguish between transient failures (retry) vs. deterministic errors (fail fast)"', () => {
  async function ran(cases: readonly Case[]) {
    const { call, work, ended } = await startOpal({ engine: ENGINE, env: AT_ONCE });
    const ids = cases.map((_, i) => `job_${i}`);
    for (const [i, [, prompt]] of cases.entries()) {
      await call("POST", "/api/jobs", { body: { prompt, job_id: ids[i] } });
    }
    await work();
    for (const id of ids) await ended(id);
    const shown = await Promise.all(ids.map((id) => call("GET", `/api/jobs/${id}?include_attempts=true`)));
    return shown.map(({ body }, i) => ({ what: cases[i]?.[0], ...body }));
  }

  it('"`worker_oom` → retry", wherever the engine reports it', async () => {
    const cases: Case[] = [
      ["error of result.json", reported({ status: "failed", error: "worker_oom" }, 0)],
      ["error of result.json, exit code 1", reported({ status: "failed", error: "worker_oom" }, 1)],
      ["reason of result.json", reported({ status: "failed", reason: "worker_oom" }, 7)],
      ["with more behind it", reported({ status: "failed", reason: "worker_oom: 3 GB of 2 GB" }, 1)],
      ["a code beside its text", reported({ status: "failed", reason: "CUDA is full", error: "worker_oom" }, 1)],
      ["the last line of stderr", onStderr("loading the model\\nworker_oom\\n")],
      ["the last line of stderr, with words around", onStderr("loading\\nERROR engine: worker_oom (3 GB)")],
      ["exit code 137", onStderr("worker_oom", 137)],
    ];
    for (const job of await ran(cases)) {
      expect(job).toMatchObject({
        ...{ what: job.what, status: "succeeded", error: null, run_provenance: { attempt: 2 } },
        attempts: {
          attempts: 2,
          reclaim: null,
          history: [
            { attempt: 1, outcome: "failed", error: expect.stringMatching(/worker_oom|CUDA/), backoff_secs: 0 },
            { attempt: 2, outcome: "succeeded" },
          ],
        },
      });
    }
  });

  it('"`invalid_input` → no retry", nor anything else that an engine reports', async () => {
    const cases: Case[] = [
      ["error of result.json", reported({ status: "failed", error: "invalid_input" }, 0)],
      ["reason of result.json", reported({ status: "failed", reason: "invalid_input" }, 1)],
      ["with the other beside it", reported({ status: "failed", reason: "invalid_input: worker_oom is no prompt" }, 1)],
      ["the last line of stderr", onStderr("invalid_input\\n")],
      ["an earlier line of stderr", onStderr("worker_oom seen before\\ninvalid_input: no prompt\\n")],
      ["another reason", reported({ status: "failed", error: "model_missing" }, 1)],
      ["no reason", reported({ status: "failed" }, 0)],
      ["another line", onStderr("no such model")],
      ["a budget", reported({ status: "budget_exceeded", reason: "worker_oom" }, 1)],
    ];
    for (const job of await ran(cases)) {
      expect(job).toMatchObject({ what: job.what, status: "failed", run_provenance: { attempt: 1 } });
      expect(job.attempts.history).toMatchObject([{ attempt: 1, outcome: "failed", backoff_secs: null }]);
    }
  });

  it("memory that is never enough ends with the maximum, and with what the engine reported", async () => {
    const script = `echo '{"status": "failed", "error": "worker_oom"}' > "$PERDURE_OUTPUT_DIR/result.json"`;
    const [job] = await ran([["always", script]]);
    expect(job).toMatchObject({ status: "failed", error: "worker_oom", attempts: { attempts: 3, reclaim: null } });
  });
});
