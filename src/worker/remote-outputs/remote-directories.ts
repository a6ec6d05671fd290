/** Directories of attempts whose outputs are stored by a server. Outputs (not scratch files) are uploaded while the attempt runs,
 *  and completely before its outcome is reported. If an attempt is lost with its worker, the server keeps what was uploaded, and
 *  its directory stays on this host.
 *
 *  The next attempt finds the files of the previous one: in their directory, with scratch files, if that ran on this host, else
 *  downloaded from the server. */

import { join } from "node:path";
import { listPlainFiles } from "../../files/plain-files.ts";
import { runName } from "../attempt-run.ts";
import type { AttemptDirectories, RunningAttempt } from "../exec/exec-executor.ts";
import { chownDirectory, type RunUser } from "../exec/run-user.ts";
import type { LinkParts } from "../http-link/link-parts.ts";
import { fetchEarlier, fetchStdin, findEarlier } from "./earlier-files.ts";
import { HostDirectory, type HostDirectoryOptions } from "./host-directory.ts";
import { SessionFiles, type SessionLookup } from "./session-files.ts";
import { UploadQueue } from "./upload-queue.ts";

export interface RemoteDirectoriesOptions extends Pick<HostDirectoryOptions, "keepMs" | "keepBytes" | "log"> {
  /** Of the worker's link. */
  readonly parts: LinkParts;
  readonly sessionOf: SessionLookup;
  /** Shared by the workers of this machine. */
  readonly dir: string;
  /** The user that commands run as; null: the worker's own. */
  readonly user?: RunUser | null;
}

export interface RemoteDirectories extends AttemptDirectories {
  close(): Promise<void>;
}

/** An attempt that this worker holds. */
interface RemoteAttempt {
  readonly uploads: UploadQueue;
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
  const attempts = new Map<string, RemoteAttempt>();
  /** Jobs that have ended, while an attempt of them is still held. */
  const ended = new Set<string>();
  /** Directories of jobs that are being removed. */
  const removals = new Map<string, Promise<void>>();
  const attemptOf = ({ job }: RunningAttempt) => attempts.get(runName(job.id, job.attempt));

  /** The directory with the files of the previous attempt; null if there are none, or if they cannot be fetched. */
  async function previousOf(running: RunningAttempt): Promise<string | null> {
    const { id, attempt } = running.job;
    if (attempt === 1) return null;
    const here = (await host.attempts(id)).filter((n) => n < attempt).at(-1) ?? 0;
    const isLast = here === attempt - 1;
    try {
      const earlier = isLast ? null : await findEarlier(files, running);
      if (earlier === null || earlier.attempt <= here) return here === 0 ? null : host.dirOf(id, here);
      return await host.adopt(id, earlier.attempt, async (dir) => {
        await fetchEarlier(files, running, earlier, dir);
        if (user !== null) await chownDirectory(dir, user);
      });
    } catch (error) {
      running.log(`the files of the previous attempt could not be fetched: ${(error as Error).message}`);
      return null;
    }
  }

  /** Releases the attempt once its report was answered and its uploads are finished. Its directory stays for the next attempt. */
  async function releaseIfDone(running: RunningAttempt, remote: RemoteAttempt): Promise<void> {
    if (!remote.isFinished || !remote.isReleased) return;
    const { id, attempt } = running.job;
    await host.release(id, attempt);
    attempts.delete(runName(id, attempt)); // only after the release: until then removeJob() would find it held on disk
    if (ended.has(id)) await removeJob(id);
  }

  async function removeJob(id: string): Promise<void> {
    const isHeld = [...attempts.keys()].some((name) => name.startsWith(`${id}.`));
    if (isHeld) {
      ended.add(id);
      return;
    }
    ended.delete(id);
    const removal = host.removeJob(id).finally(() => removals.delete(id));
    removals.set(id, removal);
    await removal;
  }

  return {
    async begin(jobId, attempt, keep, running) {
      await removals.get(jobId)?.catch(() => {}); // a redrive may begin before the last attempt is cleared
      ended.delete(jobId);
      const dir = await host.begin(jobId, attempt, keep);
      attempts.set(runName(jobId, attempt), {
        uploads: new UploadQueue(files, running, dir, user?.uid),
        isFinished: false,
        isReleased: false,
      });
      return { dir, previous: await previousOf(running) };
    },

    openStdin: (jobId, running) => fetchStdin(files, running, host.dirOf(jobId, running.job.attempt)),

    follow: (running) => attemptOf(running)?.uploads.follow(),

    async finish(running) {
      const remote = attemptOf(running);
      if (remote === undefined) return;
      await remote.uploads.finish();
      remote.isFinished = true;
      await releaseIfDone(running, remote);
    },

    async release(running) {
      const remote = attemptOf(running);
      if (remote === undefined) return;
      remote.isReleased = true;
      await releaseIfDone(running, remote);
    },

    list: (jobId, attempt) => listPlainFiles(join(host.dirOf(jobId, attempt), "artifacts"), user?.uid),
    tidy: removeJob,
    close: () => host.close(),
  };
}
