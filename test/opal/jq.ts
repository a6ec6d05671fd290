/** `jq` for the commands of OPAL's document. If it is not installed, a replacement does what these commands need: print a
 *  value, and the keys of an object. */
import { spawnSync } from "node:child_process";
import { chmodSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const OWN = `#!${process.execPath}
const value = JSON.parse(require("fs").readFileSync(0, "utf8"));
console.log(JSON.stringify(process.argv[2] === "keys" ? Object.keys(value).sort() : value, null, 2));
`;

/** A PATH that includes `jq`; the replacement is written to the folder `bin` of this directory. */
export function pathWithJq(cwd: string): string {
  const path = process.env.PATH ?? "";
  if (spawnSync("jq", ["--version"]).status === 0) return path;
  const bin = join(cwd, "bin");
  mkdirSync(bin, { recursive: true });
  writeFileSync(join(bin, "jq"), OWN);
  chmodSync(join(bin, "jq"), 0o755);
  return `${bin}:${path}`;
}
