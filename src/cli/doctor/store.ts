/** The store behind data without a server: its schema, and whether SQLite finds the file sound. It is not brought forward. */
import { systemClock } from "../../engine/clock.ts";
import { isPostgres, schemaVersion, storeFaults } from "../../store/open.ts";
import type { StoreTarget } from "../store-target.ts";
import { type Found, ok, problem, warning, wordsOf } from "./finding.ts";

export interface StoreLook {
  readonly found: readonly Found[];
  /** It can be opened without changing it. */
  readonly isCurrent: boolean;
}

export async function lookAtStore(place: StoreTarget): Promise<StoreLook> {
  const [version, faults] = [await lookAtVersion(place), await lookAtFile(place)];
  return { found: [...version.found, ...faults], isCurrent: version.isCurrent };
}

async function lookAtVersion({ url, schema, shown, isData }: StoreTarget): Promise<StoreLook> {
  try {
    const { found, known } = await schemaVersion({ url, schema, clock: systemClock, random: Math.random });
    if (found === known) return { found: [ok(`${shown} has schema ${known}`)], isCurrent: true };
    const option = isData ? "" : " with the same --db";
    if (found === 0) {
      const message = `${shown} has no tables of Perdure yet`;
      return { found: [warning(message, `run \`perdure migrate\`${option}, or start a server`)], isCurrent: false };
    }
    const message = `${shown} has schema ${found}, and this version works with ${known}`;
    return { found: [warning(message, `run \`perdure migrate\`${option}`)], isCurrent: false };
  } catch (error) {
    return { found: [problem(wordsOf(error), "see what the message says")], isCurrent: false };
  }
}

async function lookAtFile({ url, dir, isData }: StoreTarget): Promise<Found[]> {
  if (isPostgres(url)) return [];
  try {
    const faults = await storeFaults({ url, random: Math.random });
    if (faults.length === 0) return [ok("SQLite finds the file sound")];
    const advice = `stop all who use it, keep a copy, and restore a backup of ${isData ? dir.given : "it"}`;
    return faults.map((fault) => problem(`the file is damaged: ${fault}`, advice));
  } catch (error) {
    return [problem(wordsOf(error), "restore a backup, or choose another file")];
  }
}
