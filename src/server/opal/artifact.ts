/** The path of an artifact, below `/api/artifacts/`: a job, an attempt as in OPAL's own directories, and a name. This decides which
 *  reply a path gets that would leave the job's folder. It is not what keeps readers inside: the store of the files does that. */
import { PerdureError } from "../../core/errors.ts";

export interface ArtifactPath {
  readonly id: string;
  /** Null where it is none. */
  readonly attempt: number | null;
  readonly name: string;
}

/** How many times over a path may be encoded and is still recognised. */
const MAX_DECODED = 4;

/** Throws 403 for a path that would leave the job's folder. Checked before the job is read, so that the reply does not depend on
 *  whether it exists. */
export function artifactPath(path: string): ArtifactPath {
  if (leavesFolder(path)) throw new PerdureError("forbidden", "Access denied");
  const [id = "", attempt = "", ...name] = path.split("/");
  const number = /^attempt_([1-9]\d{0,8})$/.exec(attempt)?.[1];
  return { id, attempt: number === undefined ? null : Number(number), name: name.join("/") };
}

/** As it stands, or decoded again: a path may be encoded several times. */
function leavesFolder(path: string): boolean {
  let text = path;
  for (let times = 0; times <= MAX_DECODED; times++) {
    if (isOutside(text)) return true;
    const decoded = text.replaceAll(/%([0-9a-f]{2})/gi, (_, hex: string) =>
      String.fromCharCode(Number.parseInt(hex, 16)),
    );
    if (decoded === text) return false;
    text = decoded;
  }
  return false;
}

/** A folder above, an absolute path (an empty part before the last one, or a drive), or a NUL, which ends a path elsewhere. */
function isOutside(text: string): boolean {
  const parts = text.split(/[/\\]/);
  return parts.includes("..") || parts.slice(0, -1).includes("") || text.includes("\0") || DRIVE.test(text);
}

const DRIVE = /(?:^|[/\\])[a-z]:\\/i;
