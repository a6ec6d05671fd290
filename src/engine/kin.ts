/** What passes between parents and children: a parent whose children have ended is queued again, and a cancel is passed on
 *  to all children. Both follow after the commit that made them due, and are found again by a sweep, should this process end
 *  in between: what waits is written in the store. Any number of engines may do it at once; each change is checked again
 *  under the row's lock. Locks are taken one job at a time, the parent's before the child's. */
import { type Command, decideCommand } from "../core/command.ts";
import type { JobState } from "../core/job.ts";
import type { AmendAnswer } from "../store/store.ts";
import type { EngineParts } from "./engine.ts";
import { DEFAULTS } from "./limits.ts";
import { Service } from "./service.ts";

const BATCH = 200;
const LIVE: readonly JobState[] = ["queued", "running", "blocked"];

export class Kin extends Service {
  readonly #parts: EngineParts;
  #parents = new Set<string>();
  #hasCancels = false;
  #working: Promise<void> | null = null;

  constructor(parts: EngineParts) {
    super(parts, DEFAULTS.sweepEvery, "kin");
    this.#parts = parts;
  }

  /** These jobs may go on: a child of theirs has ended, or they have just begun to wait. */
  mayGoOn(parents: Iterable<string>): void {
    for (const id of parents) this.#parents.add(id);
    if (this.#parents.size > 0) this.#work();
  }

  /** A job was cancelled that may have children. */
  cancelled(): void {
    this.#hasCancels = true;
    this.#work();
  }

  override async runOnce(): Promise<void> {
    await this.#unblock(null);
    await this.#passOnCancels();
  }

  /** What was begun is ended first: whoever cancels a job and leaves has cancelled its children too. */
  override async stop(): Promise<void> {
    await this.#working;
    await super.stop();
    await this.#working;
  }

  #work(): void {
    this.#working ??= this.#workOff().finally(() => {
      this.#working = null;
      // What came while the last round was ending.
      if (this.#parents.size > 0 || this.#hasCancels) this.#work();
    });
  }

  async #workOff(): Promise<void> {
    try {
      while (this.#parents.size > 0) {
        const parents = [...this.#parents].slice(0, BATCH);
        for (const id of parents) this.#parents.delete(id);
        await this.#unblock(parents);
      }
      if (this.#hasCancels) {
        this.#hasCancels = false;
        await this.#passOnCancels();
      }
    } catch (error) {
      // The sweep finds them.
      this.#parents.clear();
      this.#hasCancels = false;
      if (!this.stopped) this.#parts.log("warn", `kin: ${String(error)}`);
    }
  }

  async #unblock(parents: readonly string[] | null): Promise<void> {
    const { store, clock, hub } = this.#parts;
    for (;;) {
      const found = await store.unblockable({ parents, limit: BATCH });
      if (found.length === 0) return;
      const now = clock.now();
      const commands = found.map(({ jobId, attempt }) => {
        return { jobId, command: { kind: "unblock", attempt, runAt: now, by: null } satisfies Command };
      });
      const answers = await this.#amend(commands, now);
      if (!answers.some(({ status }) => status === "applied")) return;
      hub.ready.fire();
      hub.written.fire();
      if (found.length < BATCH) return;
    }
  }

  /** Level by level: the children that were asked may be parents. One that is still there after all is for the next sweep. */
  async #passOnCancels(): Promise<void> {
    const { store } = this.#parts;
    const done = new Set<string>();
    for (;;) {
      const parents = (await store.cascades(BATCH)).filter((id) => !done.has(id));
      if (parents.length === 0) return;
      for (const parent of parents) {
        if (this.stopped) return;
        done.add(parent);
        await this.#cancelChildren(parent);
        await store.cascaded(parent);
      }
    }
  }

  async #cancelChildren(parentId: string): Promise<void> {
    const { store, clock, hub, outputs } = this.#parts;
    let cursor: string | null = null;
    do {
      const page: Awaited<ReturnType<typeof store.find>> = await store.find({
        ...{ parentId, state: LIVE, order: "oldest", limit: BATCH },
        ...(cursor === null ? {} : { cursor }),
      });
      // Redriven meanwhile, it wants its children back: those of before, and those of its new chapter. Asked after they
      // were found: whatever it starts after this look is in a later chapter than was found, or was not found.
      const [parent] = await store.jobs([parentId]);
      if (parent != null && parent.cancelRequestedAt === null) return;
      const now = clock.now();
      const by = `parent:${parentId}`;
      const commands = page.jobs.map(({ id, chapter }) => {
        return { jobId: id, command: { kind: "cancel", chapter, by } satisfies Command };
      });
      const answers = await this.#amend(commands, now);
      for (const answer of answers) {
        if (answer.status !== "applied") continue;
        const { id, state, worker, attempt } = answer.job;
        if (state === "running" && worker !== null) hub.cancelAsked(worker, id, attempt);
        else {
          hub.ended(id);
          await outputs?.tidy(id);
        }
      }
      hub.written.fire();
      cursor = page.next;
    } while (cursor !== null);
  }

  async #amend(
    commands: readonly { readonly jobId: string; readonly command: Command }[],
    now: number,
  ): Promise<AmendAnswer[]> {
    if (commands.length === 0) return [];
    return this.#parts.store.amend(commands, now, (job, asked) => decideCommand(job, asked, now));
  }
}
