/** Brings what one attempt leaves to the server: its output while it runs, the rest when it has ended. What the server had
 *  by then is there even if this worker dies. */
import { join } from "node:path";
import { namesBelow } from "../../files/plain-files.ts";
import type { PlacedAttempt } from "../exec/exec-executor.ts";
import { untilAnswered } from "../http-link/link-parts.ts";
import { mayPass } from "../http-link/wire-error.ts";
import { SentFile } from "./sent-file.ts";
import type { SessionFiles } from "./session-files.ts";

const FOLLOW_MS = 1_000;
/** Small files take the time of the way there and back: several go at once. */
const AT_ONCE = 4;
const MAX_FILES = 10_000;

export class Outbox {
  readonly placed: PlacedAttempt;
  readonly #files: SessionFiles;
  readonly #dir: string;
  readonly #streams: readonly SentFile[];
  /** Refused for good: too large, or a name that the server does not take. */
  readonly #refused = new Set<SentFile>();
  /** Artifacts that were over the limit beside others that may have been so too, and are gone since. */
  readonly #again: SentFile[] = [];
  #isLost = false;
  #hasEnded = false;
  #cancelTimer = () => {};
  #following: Promise<void> = Promise.resolve();

  constructor(files: SessionFiles, placed: PlacedAttempt, dir: string) {
    this.#files = files;
    this.placed = placed;
    this.#dir = dir;
    this.#streams = ["stdout.log", "stderr.log"].map((name) => this.#file(name));
  }

  follow(): void {
    this.#cancelTimer = this.#files.parts.clock.after(FOLLOW_MS, () => {
      this.#following = this.#sendNew().finally(() => {
        if (!this.#hasEnded && !this.#isLost) this.follow();
      });
    });
  }

  /** Sends all that is there: until it is done, or the attempt is lost, or the link is closed. */
  async finish(): Promise<void> {
    this.#hasEnded = true;
    this.#cancelTimer();
    await this.#following;
    for (const file of [...this.#streams, this.#file("result.json")]) await this.#deliver(file);
    const names = this.#artifacts();
    await Promise.all(Array.from({ length: AT_ONCE }, () => this.#deliverAll(names)));
    for (const file of this.#again) await this.#deliver(file, { isLast: true });
  }

  /** What cannot be sent now is sent a second later. */
  async #sendNew(): Promise<void> {
    for (const file of this.#streams) {
      try {
        if (!this.#refused.has(file)) await file.send({ isEnd: false });
      } catch (error) {
        if (mayPass(error) && !this.#files.isLost(this.placed, error)) this.#files.parts.teller.trouble(error);
        else this.#refuse(file, error);
      }
    }
  }

  async *#artifacts(): AsyncGenerator<string> {
    let [count, more] = [0, 0];
    for await (const name of namesBelow(join(this.#dir, "artifacts"))) {
      if (name === null || count === MAX_FILES) more += 1;
      else {
        count += 1;
        yield `artifacts/${name}`;
      }
    }
    if (more > 0) this.placed.log(`${more} of its artifacts were not kept: too many, or no plain files`);
  }

  async #deliverAll(names: AsyncGenerator<string>): Promise<void> {
    for (;;) {
      const { value, done } = await names.next();
      if (done === true) return;
      await this.#deliver(this.#file(value));
    }
  }

  async #deliver(file: SentFile, { isLast = false } = {}): Promise<void> {
    const { parts } = this.#files;
    if (this.#isLost || this.#refused.has(file) || parts.closed.aborted) return;
    const isWorthWaiting = (error: unknown) => mayPass(error) && !this.#files.isLost(this.placed, error);
    try {
      await untilAnswered(parts, () => file.send({ isEnd: true }), { signal: parts.closed, isWorthWaiting });
    } catch (error) {
      if (parts.closed.aborted) return;
      const isOver = (error as { code?: unknown }).code === "output_too_large" && !this.#streams.includes(file);
      if (isOver) await file.drop().catch(() => {});
      if (isOver && !isLast) this.#again.push(file);
      else this.#refuse(file, error);
    }
  }

  /** What was sent of a log stays: its beginning is better than nothing. */
  #refuse(file: SentFile, error: unknown): void {
    if (this.#files.isLost(this.placed, error)) {
      this.#isLost = true;
      return;
    }
    this.#refused.add(file);
    this.placed.log(`${file.name} was not kept: ${(error as Error).message}`);
  }

  #file(name: string): SentFile {
    return new SentFile(this.#files, this.placed, name, join(this.#dir, name));
  }
}
