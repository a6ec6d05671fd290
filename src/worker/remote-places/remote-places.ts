/** Places for commands whose outputs are kept by a server: a directory here while the attempt is in hand, and all that it
 *  leaves sent there before its end is reported. Of an attempt that is lost with its worker, what had been sent is kept.
 *
 *    <dir>/worker-<pid>-<start>-<n>/<jobId>/attempt_<m>/
 *
 *  Scratch files go with the directory, also where a job asks to keep them: nobody could reach them. */
import { mkdir, stat } from "node:fs/promises";
import { join } from "node:path";
import { listPlainFiles, removeAll } from "../../files/plain-files.ts";
import { runName } from "../attempt-run.ts";
import type { AttemptPlaces, PlacedAttempt } from "../exec/exec-executor.ts";
import type { LinkParts } from "../http-link/link-parts.ts";
import { fetchEarlier, findEarlier } from "./earlier-files.ts";
import { Outbox } from "./outbox.ts";
import { SessionFiles, type SessionOf } from "./session-files.ts";
import { makeWorkerDirectory } from "./worker-directory.ts";

export interface RemotePlacesOptions {
  /** Of the link that the attempts come through. */
  readonly parts: LinkParts;
  readonly sessionOf: SessionOf;
  /** Shared by the workers of this machine. */
  readonly dir: string;
}

export interface RemotePlaces extends AttemptPlaces {
  /** Removes what is left here. */
  close(): Promise<void>;
}

/** An attempt in hand. */
interface Place {
  readonly outbox: Outbox;
  isFinished: boolean;
  isReleased: boolean;
}

export async function remotePlaces({ parts, sessionOf, dir }: RemotePlacesOptions): Promise<RemotePlaces> {
  const own = await makeWorkerDirectory(dir, parts.clock.now());
  const files = new SessionFiles(parts, sessionOf);
  const places = new Map<string, Place>();
  /** Directories of jobs that are being removed. */
  const removals = new Map<string, Promise<void>>();
  const jobDir = (jobId: string) => join(own, jobId);
  const attemptDir = (jobId: string, attempt: number) => join(jobDir(jobId), `attempt_${attempt}`);
  const placeOf = ({ job }: PlacedAttempt) => places.get(runName(job.id, job.attempt));

  /** Where the files of the attempt before lie now; null without any, or if they cannot be had. */
  async function previousOf(placed: PlacedAttempt): Promise<string | null> {
    const { id, attempt } = placed.job;
    if (attempt === 1) return null;
    let to: string | null = null;
    try {
      const earlier = await findEarlier(files, placed);
      if (earlier === null) return null;
      const path = attemptDir(id, earlier.attempt);
      // It ran here, and may still: then it is all there.
      if ((await stat(path).catch(() => null)) !== null) return path;
      to = path;
      await fetchEarlier(files, placed, earlier, to);
      return to;
    } catch (error) {
      placed.log(`the files of the attempt before could not be fetched: ${(error as Error).message}`);
      if (to !== null) await removeAll(to);
      return null;
    }
  }

  /** When its report was answered and nothing of it is on its way any more. What a later run of the job may look at stays
   *  until that is cleared, too. */
  async function clear(placed: PlacedAttempt, place: Place): Promise<void> {
    if (!place.isFinished || !place.isReleased) return;
    const { id, attempt } = placed.job;
    places.delete(runName(id, attempt));
    if ([...places.keys()].some((name) => name.startsWith(`${id}.`))) return;
    const removal = removeAll(jobDir(id)).finally(() => removals.delete(id));
    removals.set(id, removal);
    await removal;
  }

  return {
    async begin(jobId, attempt, _keep, placed) {
      const path = attemptDir(jobId, attempt);
      places.set(runName(jobId, attempt), {
        outbox: new Outbox(files, placed, path),
        isFinished: false,
        isReleased: false,
      });
      await removals.get(jobId)?.catch(() => {}); // the next run may begin before the last one is cleared
      await removeAll(path); // of a job that a restored backup has brought back
      await mkdir(join(path, "artifacts"), { recursive: true, mode: 0o700 });
      return { dir: path, previous: await previousOf(placed) };
    },

    follow: (placed) => placeOf(placed)?.outbox.follow(),

    async finish(placed) {
      const place = placeOf(placed);
      if (place === undefined) return;
      await place.outbox.finish();
      place.isFinished = true;
      await clear(placed, place);
    },

    async release(placed) {
      const place = placeOf(placed);
      if (place === undefined) return;
      place.isReleased = true;
      await clear(placed, place);
    },

    list: (jobId, attempt) => listPlainFiles(join(attemptDir(jobId, attempt), "artifacts")),
    tidy: async () => {},
    close: () => removeAll(own),
  };
}
