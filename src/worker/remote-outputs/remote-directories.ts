/** Places for commands whose outputs are kept by a server: a directory here, and what goes beyond scratch files sent there while
 *  the attempt runs, all of it before its end is reported. Of an attempt that is lost with its worker, what had been sent is
 *  kept by the server, and its directory here.
 *
 *  The next attempt finds the files of the one before: in their directory, scratch files too, if that ran on this host; else
 *  what the server has of them. */

import { join } from "node:path";
import { listPlainFiles } from "../../files/plain-files.ts";
import { runName } from "../attempt-run.ts";
import type { AttemptDirectories, AttemptDirectory } from "../exec/exec-executor.ts";
import { giveDirectory, type RunUser } from "../exec/run-user.ts";
import type { LinkParts } from "../http-link/link-parts.ts";
import { fetchEarlier, fetchStdin, findEarlier } from "./earlier-files.ts";
import { HostDirectory, type HostDirectoryOptions } from "./host-directory.ts";
import { SessionFiles, type SessionLookup } from "./session-files.ts";
import { UploadQueue } from "./upload-queue.ts";

export interface RemoteDirectoriesOptions extends Pick<HostDirectoryOptions, "keepMs" | "keepBytes" | "log"> {
  /** Of the link that the attempts come through. */
  readonly parts: LinkParts;
  readonly sessionOf: SessionLookup;
  /** Shared by the workers of this machine. */
  readonly dir: string;
  /** The user that commands run as; null: our own. */
  readonly user?: RunUser | null;
}

export interface RemoteDirectories extends AttemptDirectories {
  close(): Promise<void>;
}

/** An attempt in hand. */
interface RemoteAttempt {
  readonly outbox: UploadQueue;
  isFinished: boolean;
  isReleased: boolean;
}

export async function remoteDirectories(options: RemoteDirectoriesOptions): Promise<RemoteDirectories> {
  const { parts, sessionOf, dir: root, user = null, keepMs, keepBytes, log } = options;
  const host = await HostDirectory.open({
    root,
    clock: parts.clock,
    keepMs,
    keepBytes,
    log,
    isPassable: user !== null,
  });
  const files = new SessionFiles(parts, sessionOf);
  const places = new Map<string, RemoteAttempt>();
  /** Jobs that have ended, while an attempt of theirs is still in hand. */
  const ended = new Set<string>();
  /** Directories of jobs that are being removed. */
  const removals = new Map<string, Promise<void>>();
  const placeOf = ({ job }: AttemptDirectory) => places.get(runName(job.id, job.attempt));

  /** Where the files of the attempt before lie now; null without any, or if they cannot be had. */
  async function previousOf(placed: AttemptDirectory): Promise<string | null> {
    const { id, attempt } = placed.job;
    if (attempt === 1) return null;
    const here = (await host.attempts(id)).filter((n) => n < attempt).at(-1) ?? 0;
    const isLast = here === attempt - 1;
    try {
      const earlier = isLast ? null : await findEarlier(files, placed);
      if (earlier === null || earlier.attempt <= here) return here === 0 ? null : host.dirOf(id, here);
      return await host.adopt(id, earlier.attempt, async (dir) => {
        await fetchEarlier(files, placed, earlier, dir);
        if (user !== null) await giveDirectory(dir, user);
      });
    } catch (error) {
      placed.log(`the files of the attempt before could not be fetched: ${(error as Error).message}`);
      return null;
    }
  }

  /** When its report was answered and nothing of it is on its way any more. Its directory stays for the next attempt. */
  async function clear(placed: AttemptDirectory, place: RemoteAttempt): Promise<void> {
    if (!place.isFinished || !place.isReleased) return;
    const { id, attempt } = placed.job;
    await host.release(id, attempt);
    places.delete(runName(id, attempt)); // not before: who hears now that the job has ended would find it held
    if (ended.has(id)) await removeJob(id);
  }

  async function removeJob(id: string): Promise<void> {
    const isInHand = [...places.keys()].some((name) => name.startsWith(`${id}.`));
    if (isInHand) {
      ended.add(id);
      return;
    }
    ended.delete(id);
    const removal = host.removeJob(id).finally(() => removals.delete(id));
    removals.set(id, removal);
    await removal;
  }

  return {
    async begin(jobId, attempt, keep, placed) {
      await removals.get(jobId)?.catch(() => {}); // a redrive may begin before the last attempt is cleared
      ended.delete(jobId);
      const dir = await host.begin(jobId, attempt, keep);
      places.set(runName(jobId, attempt), {
        outbox: new UploadQueue(files, placed, dir, user?.uid),
        isFinished: false,
        isReleased: false,
      });
      return { dir, previous: await previousOf(placed) };
    },

    openStdin: (jobId, placed) => fetchStdin(files, placed, host.dirOf(jobId, placed.job.attempt)),

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

    list: (jobId, attempt) => listPlainFiles(join(host.dirOf(jobId, attempt), "artifacts"), user?.uid),
    tidy: removeJob,
    close: () => host.close(),
  };
}
