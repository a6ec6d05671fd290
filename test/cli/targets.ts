/** The two targets of commands, each with the library on the same data: a local data directory and a real server. */
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
/** A command runs the same code on both through one interface, so only the full tier tests both. */
export const KINDS = inFull<TargetKind>(["server", "data"]);

export interface Where {
  /** The library on the same jobs; closed when the test is over. */
  readonly library: Perdure;
  readonly server: TestServer | null;
  readonly dir: string;
  /** Runs a command on this target; the options for the target come right after its name. */
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
