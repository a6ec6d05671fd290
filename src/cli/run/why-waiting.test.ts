import { describe, expect, it } from "vitest";
import { resourceLabels } from "../../core/input/resources.ts";
import type { SessionRow } from "../../core/job/views.ts";
import { MissingWorker } from "./why-waiting.ts";

const GIB = 2 ** 30;
const worker = (parts: object = {}) =>
  ({
    ...{ namespace: "default", kinds: ["exec", "http"], queues: null, endedAt: null, drainingAt: null },
    labels: { zone: "a", ...resourceLabels({ cpu: 2_000, memory: GIB }) },
    ...parts,
  }) as unknown as SessionRow;
const job = (parts: object = {}) => ({ namespace: "default", kind: "exec", queue: "default", labels: {}, ...parts });
const sized = (cpu: number, memory: number) => job({ labels: resourceLabels({ cpu: cpu * 1_000, memory }) });

function lackOf(wanted: ReturnType<typeof job>, workers: readonly SessionRow[], at?: "store"): string | null {
  const lack = new MissingWorker(wanted);
  for (const each of workers) lack.add(each);
  return lack.message(at);
}

const NOBODY = "no worker takes this job; start one with `perdure worker`";

describe("what a job lacks to start", () => {
  it.each([
    ["nothing, where a worker takes it", job(), null],
    ["nothing, where a worker has more than it takes", sized(0.5, GIB), null],
    [
      "a worker of its kind",
      job({ kind: "mail" }),
      "no worker takes jobs of kind mail; start one with `perdure worker`",
    ],
    [
      "a worker with its labels, though others take its kind",
      job({ kind: "http", labels: { zone: "b" } }),
      "no worker takes this job; start one with `perdure worker --label zone=b`",
    ],
    [
      "a worker with its runtime and its labels",
      job({ labels: { "runtime/python": "yes", zone: "b c" } }),
      "no worker takes this job; start one with `perdure worker --runtime python --label 'zone=b c'`",
    ],
    [
      "cpus",
      sized(999, 0),
      "no worker is large enough for 999 cpus; start a larger one with `perdure worker` (see --cpu), or submit the job with less",
    ],
    [
      "cpus and memory",
      sized(4, 2 * GIB),
      "no worker is large enough for 4 cpus and 2048 MiB of memory; start a larger one with `perdure worker` (see --cpu, --memory), or submit the job with less",
    ],
  ])("is %s", (_, wanted, message) => {
    expect(lackOf(wanted, [worker()])).toBe(message);
  });

  it("without a server, names the command that works there", () => {
    expect(lackOf(job(), [], "store")).toBe("no worker takes this job; start one with `perdure up`");
    expect(lackOf(sized(999, 0), [worker()], "store")).toContain("start a larger one with `perdure up` (see --cpu)");
  });

  it("is a worker if all have ended or are draining, whatever the size of the job", () => {
    for (const workers of [[], [worker({ endedAt: 1 })], [worker({ drainingAt: 1 })], [worker({ namespace: "x" })]]) {
      expect(lackOf(job(), workers)).toBe(NOBODY);
      expect(lackOf(sized(999, 0), workers)).toBe(NOBODY);
    }
  });
});
