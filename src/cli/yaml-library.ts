/** The library that reads YAML, loaded when there is something to read: most commands find no file of settings, and to load it
 *  is a good part of a short command's time. */
import { createRequire } from "node:module";

type Library = typeof import("yaml");

let loaded: Library | undefined;

export function yaml(): Library {
  loaded ??= createRequire(import.meta.url)("yaml") as Library;
  return loaded;
}
