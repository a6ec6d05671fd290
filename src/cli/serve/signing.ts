/** The signing secrets of a server, from PERDURE_SECRET or the file `secret`. Their fingerprint is compared with the store,
 *  so that all servers of a database use the same. The file is reloaded when it changes. The operator copies it between
 *  servers: the database must not contain anything that can sign. */
import { rmSync, statSync } from "node:fs";
import { join, resolve } from "node:path";
import type { EngineRecord } from "../../core/job/event.ts";
import type { Clock } from "../../lib/clock.ts";
import { KeyRing, type Secret } from "../../server/key-ring.ts";
import type { ServerLog } from "../../server/log.ts";
import type { Store } from "../../store/store.ts";
import type { Config } from "../config/config.ts";
import { CliError, EXIT } from "../exit.ts";
import { newSecret, readSecretFile, rotated, SECRET_FILE, writeSecretFile } from "./secret-file.ts";

/** The setting in the store: the fingerprint of the secret in use. */
export const SETTING = "signing_key";

/** The event of a replaced secret. A server that reloads a file does not know who wrote it. */
export function secretReplaced(at: number, by: string): EngineRecord {
  return { at, name: "secret.replaced", data: { v: 1, by } };
}
/** Longer than almost all commands run. Sessions switch to the new secret within seconds. */
export const GRACE_MS = 86_400_000;
/** How often the file and the fingerprint are checked for changes. */
const POLL_MS = 2_000;
/** How often the open sessions are checked for former secrets. */
const RETIRE_MS = 30_000;
/** Maximum clock difference of servers: for this long after a change one may still sign with the former secret. */
const SKEW_MS = 10_000;

export interface SigningParts {
  readonly store: Pick<Store, "settings" | "sessions">;
  readonly clock: Clock;
  readonly log: ServerLog;
  /** The full path of the file. */
  readonly file: string;
  /** From the environment: the first one signs; those in the file are only accepted. */
  readonly given: readonly string[];
  /** The database, for messages. */
  readonly shown: string;
}

export function secretFileOf(config: Config, dir: string, cwd: string): string {
  const named = config.text("server.secretFile");
  return named === undefined ? join(dir, SECRET_FILE) : resolve(cwd, named);
}

export function givenSecrets(config: Config): string[] {
  return (config.text("server.secret") ?? "").split(/[\s,]+/).filter((text) => text !== "");
}

export class Signing {
  readonly keys: KeyRing;
  readonly #parts: SigningParts;
  #seen: string;
  #announced: string;
  #retireCheckedAt: number;
  #cancel = () => {};
  #closed = false;

  private constructor(parts: SigningParts, keys: KeyRing, seen: string) {
    this.#parts = parts;
    this.keys = keys;
    this.#seen = seen;
    this.#announced = keys.current.print;
    this.#retireCheckedAt = parts.clock.monotonic();
  }

  /** Throws if the servers of this store use another secret. */
  static async open(parts: SigningParts): Promise<Signing> {
    const { store, clock, file } = parts;
    const isNew = await ensureFile(parts);
    const seen = stampOf(file);
    const keys = new KeyRing(secretsOf(parts), clock.now);
    const current = keys.current.print;
    const print = await store.settings.setIfAbsent(SETTING, current);
    if (!keys.has(print)) {
      if (isNew) rmSync(file, { force: true }); // another server was faster; this secret is unused
      throw refusal(parts, isNew);
    }
    if (print !== current) await store.settings.replace(SETTING, print, current, secretReplaced(clock.now(), "server"));
    if ((await store.settings.formerSecret()) !== null) await store.settings.eraseFormerSecret();
    const signing = new Signing(parts, keys, seen);
    signing.#later();
    return signing;
  }

  close(): void {
    this.#closed = true;
    this.#cancel();
  }

  #later(): void {
    const again = () =>
      void this.poll()
        .catch(() => {}) // the store is unreachable, which is logged elsewhere
        .then(() => this.#closed || this.#later());
    this.#cancel = this.#parts.clock.after(POLL_MS, again, { background: true });
  }

  /** Runs every two seconds. */
  async poll(): Promise<void> {
    this.#readAgain();
    await this.#announce();
    await this.#compare();
    await this.#retire();
  }

  #readAgain(): void {
    const { file, log } = this.#parts;
    const stamp = stampOf(file);
    if (stamp === this.#seen) {
      this.keys.fault = null; // the file was restored
      return;
    }
    try {
      this.keys.replace(secretsOf(this.#parts));
      log("info", "signing secrets reloaded", { file, signsWith: this.keys.current.id });
      this.#seen = stamp;
      this.keys.fault = null;
    } catch (error) {
      const cause = (error as Error).message;
      const message = "cannot read the signing secrets; keeping the loaded ones";
      if (this.keys.fault === null) log("error", message, { file, error: cause });
      this.keys.fault = `${file}: ${cause}`;
    }
  }

  /** Stores the fingerprint of a new key, so that other servers switch. Once per key, so that servers with different keys do
   *  not overwrite each other repeatedly. */
  async #announce(): Promise<void> {
    const { store, clock, log } = this.#parts;
    const { print, id } = this.keys.current;
    if (print === this.#announced) return;
    const before = await store.settings.setIfAbsent(SETTING, print);
    if (before !== print && this.keys.has(before)) {
      await store.settings.replace(SETTING, before, print, secretReplaced(clock.now(), "server"));
    }
    this.#announced = print;
    log("info", "signing with a new secret", { signsWith: id });
  }

  async #compare(): Promise<void> {
    const { store, log, file } = this.#parts;
    const print = await store.settings.setIfAbsent(SETTING, this.keys.current.print);
    const missing = this.keys.has(print) ? null : print;
    if (missing !== null && this.keys.missing === null) {
      log("error", "other servers sign with a secret that is missing here: copy their file; not ready until then", {
        file,
      });
    }
    if (missing === null && this.keys.missing !== null)
      log("info", "the missing signing secret was added; ready", { file });
    this.keys.missing = missing;
  }

  /** Removes former secrets once the sessions opened with them have ended. */
  async #retire(): Promise<void> {
    const { store, clock, log } = this.#parts;
    const { retiring, current } = this.keys;
    if (retiring.length === 0 || current.signsFrom === null) return;
    if (clock.monotonic() - this.#retireCheckedAt < RETIRE_MS) return;
    this.#retireCheckedAt = clock.monotonic();
    const since = current.signsFrom + SKEW_MS;
    if (clock.now() < since || (await store.sessions.listOpen()).some(({ startedAt }) => startedAt < since)) return;
    for (const id of retiring) this.keys.retire(id);
    log("info", "former signing secrets retired: no session was opened with them", {
      secrets: retiring,
    });
  }
}

/** Changes when the file changes; "" without a file. */
function stampOf(file: string): string {
  const stat = statSync(file, { throwIfNoEntry: false });
  return stat === undefined ? "" : `${stat.ino} ${stat.mtimeMs} ${stat.ctimeMs} ${stat.size}`;
}

function secretsOf({ given, file }: SigningParts): Secret[] {
  const ofFile = readSecretFile(file) ?? [];
  return [...given.map((text) => ({ text, signsFrom: null, until: null })), ...ofFile];
}

/** Creates the file if needed: for a new store, and for a secret that an earlier version kept in the database. True if it did
 *  not exist. */
async function ensureFile({ store, clock, file, given, log, shown }: SigningParts): Promise<boolean> {
  const former = await store.settings.formerSecret();
  const found = readSecretFile(file);
  if (former === null) {
    if (found !== null || given.length > 0) return false;
    // Other servers of this store have a secret: an error, as creating another would not match.
    if ((await store.settings.get(SETTING)) !== null) throw refusal({ file, given, shown }, true);
    const isMade = writeSecretFile(file, [{ text: newSecret(), signsFrom: null, until: null }], { replace: false });
    if (isMade) log("info", "created a signing secret; all servers of this database need a copy of the file", { file });
    return isMade;
  }
  if (found?.some(({ text }) => text === former)) return false;
  const now = clock.now();
  // Copies of the database contain this secret, so it is replaced at once and no longer signs.
  const kept: Secret = { text: former, signsFrom: null, until: now + GRACE_MS, isUnnamed: true };
  const isFirst = found === null && given.length === 0;
  const secrets = isFirst ? rotated([kept], { now, signsFrom: now, graceMs: GRACE_MS }) : [...(found ?? []), kept];
  if (!writeSecretFile(file, secrets, { replace: found !== null })) return false;
  log("info", "moved the signing secret from the database to the file, and replaced it", { file, acceptedFor: "24h" });
  return found === null;
}

function refusal({ file, given, shown }: Pick<SigningParts, "file" | "given" | "shown">, isMissing: boolean): CliError {
  const what =
    given.length > 0
      ? "PERDURE_SECRET does not hold the signing secret"
      : isMissing
        ? `${file} does not exist, and would have to hold the signing secret`
        : `${file} does not hold the signing secret`;
  return new CliError(
    EXIT.usage,
    `${what} of the other servers of ${shown}: copy the file \`${SECRET_FILE}\` from the data directory of one of them to ` +
      `${file}, or set PERDURE_SECRET as they have it. If it is lost, \`perdure token rotate-secret --force\` makes a new one; ` +
      "then workers register again, and commands that run lose their token",
  );
}
