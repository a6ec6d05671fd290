/** The path of an artifact, below `/api/artifacts/`: a job, an attempt as in OPAL's own directories, and a name. This decides which
 *  reply a path gets that would leave the job's folder. It is not what keeps readers inside: the store of the files does that. */
import { PerdureError } from "../../core/errors.ts";
import { leavesFolder } from "../../dialects/opal/output-name.ts";

export interface ArtifactPath {
  readonly id: string;
  /** Null where it is none. */
  readonly attempt: number | null;
  readonly name: string;
}

/** Throws 403 for a path that would leave the job's folder. Checked before the job is read, so that the reply does not depend on
 *  whether it exists. */
export function artifactPath(path: string): ArtifactPath {
  if (leavesFolder(path)) throw new PerdureError("forbidden", "Access denied");
  const [id = "", attempt = "", ...name] = path.split("/");
  const number = /^attempt_([1-9]\d{0,8})$/.exec(attempt)?.[1];
  return { id, attempt: number === undefined ? null : Number(number), name: name.join("/") };
}
