/** Whose file it is. A file that is found, because it lies in the working directory, is believed only if it belongs to the person who
 *  runs the command or to root, as git and ssh have it: anybody may have put it there, and it could choose which server is called
 *  and what is run. Root is no exception: in a directory of another user it believes that user's files only after `sudo` by that
 *  very user. What a person names by option or environment is that person's choice.
 *
 *  Where a system has no user ids nothing is checked. */
import { fstatSync, lstatSync, type Stats } from "node:fs";
import { CliError, EXIT } from "./exit.ts";

const BY_OTHERS = 0o002;
const STICKY = 0o1000;

/** The ids of those whose files are believed; null where there are no ids. */
export function believedOwners(env: Readonly<Record<string, string | undefined>> = process.env): number[] | null {
  const me = process.geteuid?.();
  if (me === undefined) return null;
  const sudo = me === 0 && /^\d+$/.test(env.SUDO_UID ?? "") ? [Number(env.SUDO_UID)] : [];
  return [me, 0, ...sudo];
}

export function isBelieved({ uid }: Pick<Stats, "uid">): boolean {
  return believedOwners()?.includes(uid) ?? true;
}

/** Throws for an open file that was found and is another user's, or that everybody may change. `advice` says how to use it all
 *  the same. A link to it, of another user, is refused as well. */
export function requireOwned(descriptor: number, path: string, shown: string, advice: string): void {
  const file = fstatSync(descriptor);
  const entry = lstatSync(path, { throwIfNoEntry: false }) ?? file;
  for (const each of [file, entry]) {
    if (!isBelieved(each)) throw refused(`${shown} belongs to another user (uid ${each.uid}) and is not read`, advice);
  }
  if ((file.mode & BY_OTHERS) !== 0) {
    throw refused(
      `${shown} can be changed by every user (mode ${modeOf(file)}) and is not read`,
      `run \`chmod o-w ${shown}\``,
    );
  }
}

/** Throws for a directory in which everybody may replace files: those of its owner would prove nothing. */
export function requireClosed(directory: Pick<Stats, "mode">, shown: string): void {
  if ((directory.mode & BY_OTHERS) === 0 || (directory.mode & STICKY) !== 0) return;
  throw refused(`every user can change ${shown} (mode ${modeOf(directory)})`, `run \`chmod o-w ${shown}\``);
}

function refused(what: string, advice: string): CliError {
  return new CliError(EXIT.usage, `${what}: ${advice}`);
}

function modeOf({ mode }: Pick<Stats, "mode">): string {
  return (mode & 0o7777).toString(8).padStart(4, "0");
}
