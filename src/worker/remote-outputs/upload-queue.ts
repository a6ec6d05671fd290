/** Uploads the files of one attempt while it runs: its output each second, `artifacts/` and result.json when they have stopped
 *  changing, and the rest when the attempt has ended. What was uploaded survives the loss of this worker. result.json is sent
 *  only when it is complete JSON, and after all artifacts that exist at that time: a lost attempt is settled by it, and must not
 *  succeed without the artifacts that it wrote before. */
import { lstat } from "node:fs/promises";
import { join } from "node:path";
import { namesBelow } from "../../files/plain-files.ts";
import { mayPass } from "../../wire/repeat.ts";
import type { RunningAttempt } from "../exec/exec-executor.ts";
import { readSmallJson } from "../exec/result-files.ts";
import { untilAnswered } from "../http-link/link-parts.ts";
import { SentArtifact } from "./sent-artifact.ts";
import { SentFile } from "./sent-file.ts";
import type { SessionFiles } from "./session-files.ts";

const FOLLOW_MS = 1_000;
/** Maximum pause between two scans of the artifacts, however many there are. */
const SCAN_MS = 5_000;
/** The pause after a scan is this many times its duration. */
const PAUSE_FACTOR = 10;
/** Concurrent uploads: small files mostly wait for the round trip. */
const AT_ONCE = 4;
const MAX_FILES = 10_000;

type FileToSend = SentFile | SentArtifact;

export class UploadQueue {
  readonly running: RunningAttempt;
  readonly #files: SessionFiles;
  readonly #dir: string;
  readonly #owner: number | undefined;
  readonly #streams: readonly SentFile[];
  readonly #result: SentArtifact;
  /** By name, without those that the command has removed. */
  readonly #artifacts = new Map<string, SentArtifact>();
  /** Refused permanently: too large, or a name that the server does not accept. */
  readonly #refused = new Set<FileToSend>();
  /** Artifacts that were over the total limit and are tried again at the end, when others may have been removed. */
  readonly #overLimit: SentArtifact[] = [];
  #isLost = false;
  #hasEnded = false;
  #cancelTimer = () => {};
  #following: Promise<void> = Promise.resolve();
  /** The scan of artifacts in progress, separate from the output, which a large file must not delay. */
  #scanning: Promise<void> | null = null;
  #nextScanAt = 0;

  /** `owner` is the user id that files must have to be sent; undefined: any. */
  constructor(files: SessionFiles, running: RunningAttempt, dir: string, owner?: number) {
    this.#files = files;
    this.#owner = owner;
    this.running = running;
    this.#dir = dir;
    this.#streams = ["stdout.log", "stderr.log"].map(
      (name) => new SentFile(files, running, name, join(dir, name), owner),
    );
    this.#result = this.#artifact("result.json");
  }

  follow(): void {
    const { clock } = this.#files.parts;
    this.#cancelTimer = clock.after(FOLLOW_MS, () => {
      if (this.#scanning === null && clock.monotonic() >= this.#nextScanAt) {
        this.#scanning = this.#scan().finally(() => {
          this.#scanning = null;
        });
      }
      this.#following = this.#sendNew().finally(() => {
        if (!this.#hasEnded && !this.#isLost) this.follow();
      });
    });
  }

  /** Sends all files; ends when that is done, the attempt is lost, or the link is closed. */
  async finish(): Promise<void> {
    this.#hasEnded = true;
    this.#cancelTimer();
    await this.#following;
    await this.#scanning;
    for (const file of this.#streams) await this.#deliver(file);
    const names = await this.#names({ isEnd: true });
    for (const file of this.#removed(names)) await this.#untilDone(file, () => file.remove());
    await this.#each(names, (file) => this.#deliver(file));
    for (const file of this.#overLimit) await this.#deliver(file, { isLast: true });
    await this.#deliver(this.#result);
  }

  /** After an error, it is tried again a second later. */
  async #sendNew(): Promise<void> {
    for (const file of this.#streams) await this.#try(file, () => file.send({ isEnd: false }));
  }

  /** Sends artifacts that have stopped changing, or have been changing for long, and then result.json. */
  async #scan(): Promise<void> {
    const { clock } = this.#files.parts;
    const startedAt = clock.monotonic();
    await this.#try(this.#result, () => this.#withdrawResult());
    const names = await this.#names({ isEnd: false });
    const tookMs = clock.monotonic() - startedAt;
    for (const file of this.#removed(names)) await this.#try(file, () => file.remove());
    await this.#each(names, (file) => this.#try(file, () => file.sync()));
    await this.#try(this.#result, () => this.#syncResult());
    this.#nextScanAt = clock.monotonic() + Math.min(SCAN_MS - FOLLOW_MS, tookMs * PAUSE_FACTOR);
  }

  async #withdrawResult(): Promise<void> {
    const exists = (await lstat(join(this.#dir, "result.json")).catch(() => null)) !== null;
    if (!exists && this.#result.isSent) await this.#result.remove();
  }

  async #syncResult(): Promise<void> {
    const read = await readSmallJson(join(this.#dir, "result.json"), this.#owner);
    if (read !== null && "value" in read) await this.#result.sync({ mayBeSent: () => this.#areArtifactsSent() });
  }

  /** Whether the server has the present version of each artifact, and none that was removed. Artifacts that are refused
   *  permanently are ignored; one over the total limit is not, since it may fit at the end. */
  async #areArtifactsSent(): Promise<boolean> {
    const names = await this.#names({ isEnd: false });
    for (const [name, file] of this.#artifacts) if (file.isSent && !names.has(name)) return false;
    for (const name of names) {
      const file = this.#known(name);
      if (!this.#refused.has(file) && !(await file.isCurrent())) return false;
    }
    return !this.#isLost;
  }

  /** While the attempt runs: after a transient error, the file is tried again with the next scan. */
  async #try(file: FileToSend, send: () => Promise<void>): Promise<void> {
    if (this.#isLost || this.#refused.has(file)) return;
    try {
      await send();
    } catch (error) {
      const isLost = this.#files.isLost(this.running, error);
      if (isLost || !(mayPass(error) || isOver(error))) this.#refuse(file, error);
      else if (!isOver(error)) this.#files.parts.outage.failed(error);
      else if (file instanceof SentArtifact)
        await file.markOverLimit().catch(() => {}); // it may fit at the end
      else this.#refuse(file, error);
    }
  }

  /** The names of the files in `artifacts/`, up to the limit. */
  async #names({ isEnd }: { readonly isEnd: boolean }): Promise<Set<string>> {
    const names = new Set<string>();
    let more = 0;
    for await (const name of namesBelow(join(this.#dir, "artifacts"))) {
      if (!isEnd && names.size === MAX_FILES) break;
      if (name === null || names.size === MAX_FILES) more += 1;
      else names.add(`artifacts/${name}`);
    }
    if (isEnd && more > 0) this.running.log(`${more} artifacts were not kept: too many, or not plain files`);
    return names;
  }

  /** Artifacts on the server that the command has removed. */
  *#removed(names: ReadonlySet<string>): Generator<SentArtifact> {
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
        if (this.#isLost || this.#hasEnded !== wasEnded) return; // finish() comes next and sends them all
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
    const shouldRetry = (error: unknown) => mayPass(error) && !this.#files.isLost(this.running, error);
    try {
      await untilAnswered(parts, send, { signal: parts.closed, shouldRetry });
    } catch (error) {
      if (parts.closed.aborted) return;
      if (file instanceof SentArtifact && isOver(error) && !isLast) {
        await file.markOverLimit().catch(() => {});
        this.#overLimit.push(file);
      } else this.#refuse(file, error);
    }
  }

  /** What was already sent of a log stays: its beginning is better than nothing. */
  #refuse(file: FileToSend, error: unknown): void {
    if (this.#files.isLost(this.running, error)) {
      this.#isLost = true;
      return;
    }
    this.#refused.add(file);
    this.running.log(`${file.name} was not kept: ${(error as Error).message}`);
  }

  #artifact(name: string): SentArtifact {
    return new SentArtifact(this.#files, this.running, name, join(this.#dir, name), this.#owner);
  }
}

function isOver(error: unknown): boolean {
  return (error as { code?: unknown }).code === "output_too_large";
}
