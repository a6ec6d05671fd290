/** The two places that commands speak to, each with the library on it: data of this machine, and a real server. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished } from "vitest";
import type { Io } from "../../src/cli/io.ts";
import { Perdure } from "../../src/embedded/perdure.ts";
import { startServer, type TestServer } from "../server/kit.ts";
import { inFull } from "../tier.ts";
import { DANGEROUS, perdure, type Said } from "./kit.ts";

export type TargetKind = "data" | "server";
/** What a command does with either is the same code above one interface: the second has its turn in the second tier. */
export const KINDS = inFull<TargetKind>(["server", "data"]);

export interface Where {
  /** The library on the same jobs; closed when the test is over. */
  readonly library: Perdure;
  readonly server: TestServer | null;
  readonly dir: string;
  /** A command line about it; what names the place stands right after the command. */
  ask(command: string, ...argv: string[]): Promise<Said>;
  askJson<T>(command: string, ...argv: string[]): Promise<T>;
}

export function newDir(): string {
  const dir = mkdtempSync(join(tmpdir(), "perdure-cli-"));
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
  return dir;
}

export async function openWhere(kind: TargetKind, parts: Partial<Io> = {}): Promise<Where> {
  const dir = newDir();
  const server = kind === "server" ? await startServer() : null;
  if (server !== null) onTestFinished(() => server.close());
  const url = server?.url ?? join(dir, "perdure.db");
  const library = await Perdure.open(server === null ? url : { url, token: server.admin });
  onTestFinished(() => library.close({ grace: 0 }));
  const place = server === null ? ["--data", dir] : ["--server", url];
  const env = { ...(server === null ? {} : { PERDURE_TOKEN: server.admin }), ...parts.env };
  async function ask(command: string, ...argv: string[]): Promise<Said> {
    const said = await perdure([command, ...place, ...argv], { cwd: dir, ...parts, env });
    expect(said.stdout).not.toMatch(DANGEROUS);
    expect(said.stderr).not.toMatch(DANGEROUS);
    return said;
  }
  async function askJson<T>(command: string, ...argv: string[]): Promise<T> {
    const { stdout } = await ask(command, "--json", ...argv);
    return JSON.parse(stdout) as T;
  }
  return { library, server, dir, ask, askJson };
}
