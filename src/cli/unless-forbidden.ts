/** For commands of which reading is only a part: a token that may not read does the rest all the same. */
import { PerdureError } from "../core/errors.ts";

/** Null where the token may not read it. */
export async function unlessForbidden<T>(read: Promise<T>): Promise<T | null> {
  try {
    return await read;
  } catch (error) {
    if (error instanceof PerdureError && error.code === "forbidden") return null;
    throw error;
  }
}
