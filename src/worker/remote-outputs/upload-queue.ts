/** Brings what one attempt leaves to the server while it runs: its output each second, its files in `artifacts/` and its
 *  result.json as they stop changing. The rest goes when it has ended. What the server had by then is there even if this
 *  worker dies. A result.json is sent only as JSON that is whole, so that half a verdict never counts, and after all artifacts
 *  that exist by then: a lost attempt is settled by it, and must not succeed without what it wrote before. */
import { lstat } from "node:fs/promises";
import { join } from "node:path";
import { namesBelow } from "../../files/plain-files.ts";
import { mayPass } from "../../wire/repeat.ts";
import type { AttemptDirectory } from "../exec/exec-executor.ts";
import { readSmallJson } from "../exec/result-files.ts";
import { untilAnswered } from "../http-link/link-parts.ts";
import { SentArtifact } from "./sent-artifact.ts";
import { SentFile } from "./sent-file.ts";
import type { SessionFiles } from "./session-files.ts";

const FOLLOW_MS = 1_000;
/** However many files there are, they are looked at this often. */
const LOOK_MS = 5_000;
/** Of the time, that looking at them may take. */
const LOOK_SHARE = 10;
/** Small files take the time of the way there and back: several go at once. */
const AT_ONCE = 4;
const MAX_FILES = 10_000;

type FileToSend = SentFile | SentArtifact;

export class UploadQueue {
  readonly placed: AttemptDirectory;
  readonly #files: SessionFiles;
  readonly #dir: string;
  readonly #owner: number | undefined;
  readonly #streams: readonly SentFile[];
  readonly #result: SentArtifact;
  /** By their names; those that the command has removed are taken out. */
  readonly #artifacts = new Map<string, SentArtifact>();
  /** Refused for good: too large, or a name that the server does not take. */
  readonly #refused = new Set<FileToSend>();
  /** Artifacts that were over the limit beside others that may have been so too, and are gone since. */
  readonly #again: SentArtifact[] = [];
  #isLost = false;
  #hasEnded = false;
  #cancelTimer = () => {};
  #following: Promise<void> = Promise.resolve();
  /** The look at artifacts under way: a large file must not hold up the output. */
  #looking: Promise<void> | null = null;
  #lookAt = 0;

  /** `owner` is the user id that files must have to be sent; undefined: any. */
  constructor(files: SessionFiles, placed: AttemptDirectory, dir: string, owner?: number) {
    this.#files = files;
    this.#owner = owner;
    this.placed = placed;
    this.#dir = dir;
    this.#streams = ["stdout.log", "stderr.log"].map(
      (name) => new SentFile(files, placed, name, join(dir, name), owner),
    );
    this.#result = this.#artifact("result.json");
  }

  follow(): void {
    const { clock } = this.#files.parts;
    this.#cancelTimer = clock.after(FOLLOW_MS, () => {
      if (this.#looking === null && clock.monotonic() >= this.#lookAt) {
        this.#looking = this.#look().finally(() => {
          this.#looking = null;
        });
      }
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
    await this.#looking;
    for (const file of this.#streams) await this.#deliver(file);
    const names = await this.#names({ isEnd: true });
    for (const file of this.#gone(names)) await this.#untilDone(file, () => file.remove());
    await this.#each(names, (file) => this.#deliver(file));
    for (const file of this.#again) await this.#deliver(file, { isLast: true });
    await this.#deliver(this.#result);
  }

  /** What cannot be sent now is sent a second later. */
  async #sendNew(): Promise<void> {
    for (const file of this.#streams) await this.#try(file, () => file.send({ isEnd: false }));
  }

  /** Sends what has stopped changing, and what has changed for long. */
  async #look(): Promise<void> {
    const { clock } = this.#files.parts;
    const startedAt = clock.monotonic();
    await this.#try(this.#result, () => this.#withdrawResult());
    const names = await this.#names({ isEnd: false });
    const tookMs = clock.monotonic() - startedAt;
    for (const file of this.#gone(names)) await this.#try(file, () => file.remove());
    await this.#each(names, (file) => this.#try(file, () => file.look()));
    await this.#try(this.#result, () => this.#lookAtResult());
    this.#lookAt = clock.monotonic() + Math.min(LOOK_MS - FOLLOW_MS, tookMs * LOOK_SHARE);
  }

  async #withdrawResult(): Promise<void> {
    const isHere = (await lstat(join(this.#dir, "result.json")).catch(() => null)) !== null;
    if (!isHere && this.#result.isSent) await this.#result.remove();
  }

  async #lookAtResult(): Promise<void> {
    const read = await readSmallJson(join(this.#dir, "result.json"), this.#owner);
    if (read !== null && "value" in read) await this.#result.look({ mayBeSent: () => this.#hasAllArtifacts() });
  }

  /** Whether the server has each artifact as it is now, and none that was removed. One that is refused for good counts; one
   *  that is over the limit does not, as there may be room for it at the end. */
  async #hasAllArtifacts(): Promise<boolean> {
    const names = await this.#names({ isEnd: false });
    for (const [name, file] of this.#artifacts) if (file.isSent && !names.has(name)) return false;
    for (const name of names) {
      const file = this.#known(name);
      if (!this.#refused.has(file) && !(await file.isCurrent())) return false;
    }
    return !this.#isLost;
  }

  /** While it runs: what may pass is tried again with the next look. */
  async #try(file: FileToSend, send: () => Promise<void>): Promise<void> {
    if (this.#isLost || this.#refused.has(file)) return;
    try {
      await send();
    } catch (error) {
      const isLost = this.#files.isLost(this.placed, error);
      if (isLost || !(mayPass(error) || isOver(error))) this.#refuse(file, error);
      else if (!isOver(error)) this.#files.parts.outage.failed(error);
      else if (file instanceof SentArtifact)
        await file.over().catch(() => {}); // at the end there may be room for it
      else this.#refuse(file, error);
    }
  }

  /** The files in `artifacts/`, up to so many. */
  async #names({ isEnd }: { readonly isEnd: boolean }): Promise<Set<string>> {
    const names = new Set<string>();
    let more = 0;
    for await (const name of namesBelow(join(this.#dir, "artifacts"))) {
      if (!isEnd && names.size === MAX_FILES) break;
      if (name === null || names.size === MAX_FILES) more += 1;
      else names.add(`artifacts/${name}`);
    }
    if (isEnd && more > 0) this.placed.log(`${more} of its artifacts were not kept: too many, or no plain files`);
    return names;
  }

  /** Those on the server that are not here any more. */
  *#gone(names: ReadonlySet<string>): Generator<SentArtifact> {
    for (const [name, file] of this.#artifacts) {
      if (names.has(name)) continue;
      if (file.isSent) yield file;
      if (!file.isSent) this.#artifacts.delete(name);
    }
  }

  async #each(names: ReadonlySet<string>, send: (file: SentArtifact) => Promise<void>): Promise<void> {
    const wasEnded = this.#hasEnded;
    const left = names.values();
    const worker = async () => {
      for (const name of left) {
        if (this.#isLost || this.#hasEnded !== wasEnded) return; // the last look comes next, and takes them all
        await send(this.#known(name));
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, worker));
  }

  #known(name: string): SentArtifact {
    const known = this.#artifacts.get(name) ?? this.#artifact(name);
    this.#artifacts.set(name, known);
    return known;
  }

  async #deliver(file: FileToSend, { isLast = false } = {}): Promise<void> {
    const send = () => (file instanceof SentFile ? file.send({ isEnd: true }) : file.finish());
    await this.#untilDone(file, send, isLast);
  }

  async #untilDone(file: FileToSend, send: () => Promise<void>, isLast = false): Promise<void> {
    const { parts } = this.#files;
    if (this.#isLost || this.#refused.has(file) || parts.closed.aborted) return;
    const isWorthWaiting = (error: unknown) => mayPass(error) && !this.#files.isLost(this.placed, error);
    try {
      await untilAnswered(parts, send, { signal: parts.closed, isWorthWaiting });
    } catch (error) {
      if (parts.closed.aborted) return;
      if (file instanceof SentArtifact && isOver(error) && !isLast) {
        await file.over().catch(() => {});
        this.#again.push(file);
      } else this.#refuse(file, error);
    }
  }

  /** What was sent of a log stays: its beginning is better than nothing. */
  #refuse(file: FileToSend, error: unknown): void {
    if (this.#files.isLost(this.placed, error)) {
      this.#isLost = true;
      return;
    }
    this.#refused.add(file);
    this.placed.log(`${file.name} was not kept: ${(error as Error).message}`);
  }

  #artifact(name: string): SentArtifact {
    return new SentArtifact(this.#files, this.placed, name, join(this.#dir, name), this.#owner);
  }
}

function isOver(error: unknown): boolean {
  return (error as { code?: unknown }).code === "output_too_large";
}
