/** Runs as this engine last wrote them, so that the next advance need not read them whole. The store compares revisions, so what
 *  another engine changed is read again. */
import type { LoadedRun } from "../../core/run/run.ts";
import { ByteCache } from "../../lib/byte-cache.ts";
import type { AdvanceWrite, KnownRuns } from "../../store/store.ts";

const CACHE_BYTES = 67_108_864;
/** Of a run besides its data; and of each step in its state. */
const RUN_BYTES = 3_000;
const STEP_BYTES = 150;

type RememberedRun = Pick<LoadedRun, "job" | "run">;

export class RunMemory {
  readonly #runs = new ByteCache<string, RememberedRun>(CACHE_BYTES);

  readonly known: KnownRuns = (id, revision) => {
    const facts = this.#runs.get(id);
    return facts?.job.revision === revision ? facts : undefined;
  };

  written({ job, run }: LoadedRun, write: AdvanceWrite): void {
    const last = write.transitions.at(-1);
    if (last === undefined || write.progress.phase === "ended") {
      this.#runs.delete(run.id);
      return;
    }
    const { phase, open, made, state } = write.progress;
    const next: LoadedRun["run"] = {
      id: run.id,
      namespace: run.namespace,
      phase,
      open,
      made,
      state,
      playbook: write.playbook ?? run.playbook,
      pins: write.pins ?? run.pins,
      data: write.data ?? run.data,
      deadlineAt: write.deadlineAt === undefined ? run.deadlineAt : write.deadlineAt,
      result: write.result === undefined ? run.result : write.result,
      failure: write.failure === undefined ? run.failure : write.failure,
      origin: run.origin,
    };
    const steps = Object.keys(state.visits).length;
    const bytes = RUN_BYTES + 2 * next.data.length + STEP_BYTES * steps;
    this.#runs.set(run.id, { job: Object.assign({}, job, last.next), run: next }, bytes);
  }
}
