/** What a dialect adds to the command line, and with it to a server: settings, routes, pages, names of jobs. All parts are
 *  optional. Commands go through `DIALECT_CLIS` and name no dialect. What is large is imported when it is called. */
import type { Config } from "../../cli/config/config.ts";
import type { SettingKey } from "../../cli/config/settings.ts";
import type { Engine } from "../../engine/engine.ts";
import type { SettledAttempt } from "../../engine/observer.ts";
import type { ServerParts } from "../../server/context.ts";
import type { ServerLog } from "../../server/log.ts";
import type { ServedRoute } from "../../server/served-route.ts";
import type { Blobs } from "../../store/blobs.ts";
import type { DialectSettings } from "../settings.ts";

export interface DialectCli {
  /** Its group of `DialectSettings`. */
  readonly settings?: DialectSettingsReader;
  /** What it adds to a server. Called before the server opens anything; throws where its settings cannot be served. */
  serve?(start: ServerStart): Promise<DialectServing>;
}

export interface DialectSettingsReader {
  readonly group: keyof DialectSettings;
  /** What reading its files may ask for. */
  readonly keys: readonly SettingKey[];
  /** Those of them that change the policies of jobs. */
  readonly policyKeys: readonly SettingKey[];
  /** `cwd` is where relative paths start. */
  read(config: Config, cwd: string): object;
}

export interface ServerStart {
  readonly config: Config;
  readonly cwd: string;
  readonly log: ServerLog;
  /** Directories of the server, which no dialect may share. */
  readonly folders: readonly { readonly what: string; readonly path: string }[];
}

export interface DialectServing {
  routes?(parts: ServerParts): ServedRoute[];
  /** How often lost attempts are searched for, if more often than by default. */
  readonly reapEveryMs?: number;
  /** As an observer of the engine. */
  reaped?(attempts: readonly SettledAttempt[]): void;
  /** Called with the running engine. The answer stops what was started, before the engine is closed. */
  start?(running: RunningEngine): () => Promise<void>;
  /** Called last, also when the server could not be opened. */
  close?(): unknown;
}

export interface RunningEngine {
  readonly engine: Engine;
  readonly blobs: Blobs;
}
