/** What the attempts of a job left outside the database. */
import { randomBytes } from "node:crypto";
import { rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, dirname, join, resolve } from "node:path";
import { asInteger, asText } from "../core/check.ts";
import type { JobOutputs } from "../core/face.ts";
import type { Blobs } from "../store/blobs.ts";
import type { Store } from "../store/store.ts";
import type { OpenOptions } from "./options.ts";

export async function jobOutputs(blobs: Blobs, store: Pick<Store, "log">, jobId: string): Promise<JobOutputs> {
  return {
    attempts: await blobs.attempts(jobId),
    files: (attempt) => blobs.list(jobId, attempt),
    read: async (attempt, name, offset = 0) =>
      blobs.get(jobId, attempt, name, asInteger(offset, "read.offset", { min: 0 })),
    async log(attempt, after = 0) {
      asInteger(after, "log.after", { min: 0 });
      const page = await store.log(jobId, asInteger(attempt, "log.attempt", { min: 1 }), after);
      return { text: page?.text ?? "", next: page?.next ?? after };
    },
  };
}

const DEFAULT_NAME = "perdure.db";

/** Beside the database: `artifacts` for `perdure.db`, `jobs.db-artifacts` for `jobs.db`. Databases may share one, as ids of
 *  jobs never come twice. That of a database in memory goes with it, and has a name that nobody can guess. */
export function artifactsDir({ artifacts, url }: OpenOptions): { readonly dir: string; remove(): Promise<void> } {
  const isShort = artifacts === undefined && /^(sqlite:(\/\/)?)?:memory:$/.test(url ?? "");
  const dir = isShort ? join(tmpdir(), `perdure-${randomBytes(12).toString("hex")}`) : lastingDir(artifacts, url);
  return { dir, remove: async () => (isShort ? rm(dir, { recursive: true, force: true }) : undefined) };
}

function lastingDir(artifacts: string | undefined, url: string | undefined): string {
  if (artifacts !== undefined) return resolve(asText(artifacts, "open.artifacts", 4_096));
  if (url === undefined || /^postgres(ql)?:/i.test(url)) return resolve(".perdure", "artifacts");
  const path = String(url).replace(/^sqlite:(\/\/)?/, "");
  const name = basename(path);
  return join(dirname(resolve(path)), name === DEFAULT_NAME ? "artifacts" : `${name}-artifacts`);
}
