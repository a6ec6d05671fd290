/** `perdure token`: who may speak to a server. Through a server, or on its database while none is at work. A token is shown
 *  once, when it is made: only its hash is kept. */
import { randomBytes } from "node:crypto";
import type { Admin } from "../../client/admin.ts";
import type { PerdureClient } from "../../client/client.ts";
import { type AccessToken, SCOPES } from "../../core/access.ts";
import { asOneOf, nearest } from "../../core/check.ts";
import { asSpan, toMs } from "../../core/duration.ts";
import { PerdureError, show } from "../../core/errors.ts";
import { isName } from "../../core/names.ts";
import { thisUser } from "../../embedded/options.ts";
import { TokenBook } from "../../server/tokens.ts";
import { type Arguments, type CliCommand, type CommandContext, READING } from "../command.ts";
import { loadConfig, optionsFor } from "../config/config.ts";
import { EXIT, usageError } from "../exit.ts";
import { type TimeText, timeOf } from "../input/shared-options.ts";
import { showLocal } from "../output/print.ts";
import { painted, type TextPiece } from "../output/terminal-text.ts";
import { replaceLostSecret, rotateSecret, type SecretRotation } from "../serve/rotate-secret.ts";
import { dataAt } from "../target/data-directory.ts";
import { withEngine } from "../target/open-store.ts";
import { TARGET, targetOf, withServer } from "../target/target.ts";

const VERBS = ["create", "list", "revoke", "rotate-secret"] as const;

export const token: CliCommand = {
  name: "token",
  summary: "Make, list or revoke tokens of a server",
  usage: "perdure token create NAME | list | revoke ID… | rotate-secret [OPTIONS]",
  about:
    "Scopes: read looks at jobs, submit submits and commands them, work runs them, admin may do all. A new token is printed " +
    "on stdout, this once; only its hash is kept. It is for the namespace in force, or for all. A revoked token is refused " +
    "by all servers within about two seconds.\n" +
    "rotate-secret replaces what servers sign session keys and job tokens with, in the file of the server on this machine, which " +
    "reads it again by itself. Workers and jobs go on: the old secret is accepted until the grace time is over, or no worker is " +
    "left that has a session of it. Several servers of one database need a copy of the file before the new secret signs.",
  options: [
    {
      ...{ name: "scope", short: "s", type: "string", value: "SCOPE", multiple: true },
      help: `What a new token may do: ${SCOPES.join(", ")}.`,
    },
    { name: "all-namespaces", type: "boolean", help: "The new token is for all namespaces." },
    {
      name: "expires",
      type: "string",
      value: "TIME",
      help: "The new token ends after this: 12h, 30d. Default: never.",
    },
    {
      name: "after",
      type: "string",
      value: "TIME",
      help: "rotate-secret: the new secret signs after this. Default: 10m with PostgreSQL, else 0s; 0s if the old one leaked.",
    },
    {
      name: "grace",
      type: "string",
      value: "TIME",
      help: "rotate-secret: the old one is accepted for this long after that. Default: 1d; 1m if it leaked.",
    },
    { name: "force", type: "boolean", help: "rotate-secret: also if the old one is lost. Workers register again." },
    ...optionsFor(["server.secretFile"]).filter(({ name }) => name === "secret-file"),
    ...TARGET,
    ...READING,
  ],
  examples: [
    "perdure token create ci --scope read --scope submit --expires 30d",
    "perdure token list",
    "perdure token revoke 3f8k2m9x",
    "perdure token rotate-secret --data /var/lib/perdure",
    "perdure token create ops -s admin --all-namespaces --db postgres://db/jobs",
  ],

  async run(context) {
    const [verb, ...rest] = context.given.positionals;
    switch (verb) {
      case "create":
        return create(context, rest);
      case "list":
        return list(context);
      case "revoke":
        return revoke(context, rest);
      case "rotate-secret":
        return rotate(context);
      default: {
        if (verb === undefined) throw usageError(`what to do? Usage: ${token.usage}`);
        const near = nearest(verb, VERBS);
        const hint = near === null ? `words are ${VERBS.join(", ")}` : `did you mean ${near}?`;
        throw usageError(`unknown word ${show(verb)}; ${hint}`);
      }
    }
  },
};

type TokenCommands = Pick<Admin, "createToken" | "listTokens" | "revokeToken">;

function withTokens<T>(context: CommandContext, use: (tokens: TokenCommands) => Promise<T>): Promise<T> {
  const target = targetOf(context);
  if (target.kind === "server") return withServer(target, (perdure) => use((perdure as PerdureClient).admin));
  return withEngine(context, target, {}, async ({ store, clock }, log) => {
    const book = await TokenBook.open({ store, clock, randomBytes, log: (_, message) => log("warn", message) });
    try {
      return await use(tokensOf(book));
    } finally {
      book.close();
    }
  });
}

/** As a server has it. */
function tokensOf(book: TokenBook): TokenCommands {
  return {
    async createToken({ name, scopes, namespace = null, expiresIn }) {
      const expiresInMs = expiresIn === undefined ? null : asSpan(expiresIn, "--expires");
      const { token, info } = await book.create({ name, scopes, namespace, expiresInMs, by: thisUser() });
      return { token, info: withoutHash(info) };
    },
    listTokens: async () => (await book.list()).map(withoutHash),
    async revokeToken(id) {
      if (!(await book.list()).some((known) => known.id === id)) {
        throw new PerdureError("not_found", "no token has this id");
      }
      await book.revoke(id, thisUser());
    },
  };
}

function withoutHash({ hash: _, ...rest }: AccessToken): Omit<AccessToken, "hash"> {
  return rest;
}

async function create(context: CommandContext, names: readonly string[]): Promise<number> {
  const { given, out } = context;
  const [name] = names;
  if (name === undefined) throw usageError("which name? Usage: perdure token create NAME --scope SCOPE…");
  given.atMost(2);
  refuseOptions(given, "create");
  if (!isName(name) || name.trim() === "") {
    throw usageError(`got the name ${show(name)}; give 1 to 200 characters, none of them control characters`);
  }
  const wanted = { name, scopes: scopesOf(given), namespace: namespaceOf(context), ...endOf(given) };
  const { token: secret, info } = await withTokens(context, (tokens) => tokens.createToken(wanted));
  if (given.flag("json")) out.json({ token: secret, ...info });
  else {
    out.line(secret);
    const where = info.namespace === null ? "all namespaces" : `the namespace ${info.namespace}`;
    const until = info.expiresAt === null ? "" : `, until ${showLocal(info.expiresAt)}`;
    out.note(`${info.id} (${info.name}) may ${info.scopes.join(", ")} in ${where}${until}; it is not shown again`);
  }
  return EXIT.done;
}

function scopesOf(given: Arguments) {
  const texts = given.texts("scope").flatMap((text) => text.split(","));
  if (texts.length === 0) throw usageError(`--scope: say what it may do: ${SCOPES.join(", ")}`);
  return [...new Set(texts.map((text) => asOneOf(text.trim(), SCOPES, "--scope")))];
}

function endOf(given: Arguments): { expiresIn?: TimeText } {
  const expires = timeOf(given, "expires");
  if (expires === undefined) return {};
  asSpan(expires, "--expires");
  return { expiresIn: expires };
}

/** That of the settings, unless all are meant. */
function namespaceOf({ given, io }: CommandContext): string | null {
  if (!given.flag("all-namespaces")) return loadConfig({ given, io }, ["namespace"]).text("namespace");
  if (given.flag("namespace")) throw usageError("--namespace and --all-namespaces cannot be used together");
  return null;
}

async function list(context: CommandContext): Promise<number> {
  const { given, out } = context;
  given.atMost(1);
  refuseOptions(given, "list");
  const found = await withTokens(context, (tokens) => tokens.listTokens());
  if (given.flag("json")) out.json(found);
  else if (found.length === 0) out.note("there is no token yet");
  else {
    const now = Date.now();
    const columns = [{ head: "ID" }, { head: "NAME", flexible: true }, { head: "SCOPES" }, { head: "NAMESPACE" }];
    out.table(
      [...columns, { head: "STATE" }, { head: "CREATED" }, { head: "ENDS" }],
      found.map((each): TextPiece[] => [
        ...[each.id, each.name, each.scopes.join(","), each.namespace ?? painted("dim", "all"), stateOf(each, now)],
        ...[showLocal(each.createdAt), each.expiresAt === null ? painted("dim", "never") : showLocal(each.expiresAt)],
      ]),
    );
  }
  return EXIT.done;
}

function stateOf({ revokedAt, expiresAt }: Pick<AccessToken, "revokedAt" | "expiresAt">, now: number): TextPiece {
  if (revokedAt !== null) return painted("red", "revoked");
  return expiresAt !== null && expiresAt <= now ? painted("yellow", "over") : painted("green", "good");
}

async function revoke(context: CommandContext, words: readonly string[]): Promise<number> {
  const { given, out } = context;
  refuseOptions(given, "revoke");
  if (words.length === 0) throw usageError("which token? Usage: perdure token revoke ID…; see `perdure token list`");
  // Who has only the token itself may give that: its id stands in it. It is never printed.
  const ids = [...new Set(words.map((word) => /^pdr_([0-9a-z]{8})_/.exec(word)?.[1] ?? word))];
  const isJson = given.flag("json");
  const answers: { id: string; revoked: boolean }[] = [];
  await withTokens(context, async (tokens) => {
    for (const id of ids) {
      const revoked = await tokens.revokeToken(id).then(
        () => true,
        (error: unknown) => {
          if (!(error instanceof PerdureError) || error.code !== "not_found") throw error;
          return false;
        },
      );
      answers.push({ id, revoked });
      if (isJson) continue;
      if (revoked) out.line(`${id}: revoked`);
      else out.note(`${id}: no token has this id; see \`perdure token list\``);
    }
  });
  if (isJson) out.json(answers);
  return answers.every(({ revoked }) => revoked) ? EXIT.done : EXIT.failed;
}

/** Of the server on this machine: with or without one at work, only its file changes. */
async function rotate(context: CommandContext): Promise<number> {
  const { given, io, out } = context;
  given.atMost(1);
  refuseOptions(given, "rotate-secret");
  if (given.flag("server"))
    throw usageError("--server: rotate-secret changes a file; run it on the host of the server");
  const config = loadConfig({ given, io }, ["data", "db", "schema", "server.secret", "server.secretFile"]);
  const dir = dataAt(config.text("data"), config.sourceOf("data"), io.cwd);
  const force = given.flag("force");
  const [afterMs, graceMs] = ["after", "grace"].map((name) => spanOf(given, name));
  const wish = { dir, cwd: io.cwd, now: Date.now(), afterMs, graceMs, force };
  const done = force ? await replaceLostSecret(context, config, wish) : rotateSecret(config, wish);
  const { file, signsFrom, until, isShared } = done;
  if (given.flag("json")) out.json({ file, signsFrom, acceptedUntil: until });
  else {
    out.line(`${file}: a new secret signs from ${showLocal(signsFrom)} on`);
    if (until !== null)
      out.line(`the one before is accepted until ${showLocal(until)}, or until no worker has a session of it`);
    if (isShared)
      for (const line of sharedSteps(done, { isLeak: graceMs !== undefined && afterMs === undefined })) out.note(line);
  }
  return EXIT.done;
}

/** What is left to do where several servers may use the database. Another run on another host would make another secret. */
function sharedSteps({ file, signsFrom }: SecretRotation, { isLeak }: { readonly isLeak: boolean }): string[] {
  const isNow = signsFrom <= Date.now();
  const by = isNow ? "now: they are out of service until they have it" : `before ${showLocal(signsFrom)}`;
  const copy = `copy ${file} to all other servers of the database ${by}; they read it by themselves. Do not run this command there`;
  const leak = `the old secret signs until ${showLocal(signsFrom)}; if it leaked, run this again with --after 0s`;
  return isLeak && !isNow ? [copy, leak] : [copy];
}

/** A secret that is accepted for ever was not replaced. */
const MAX_SPAN_MS = 30 * 86_400_000;

function spanOf(given: Arguments, name: string): number | undefined {
  const text = timeOf(given, name);
  const ms = text === undefined ? undefined : toMs(text, `--${name}`);
  if (ms !== undefined && ms > MAX_SPAN_MS) throw usageError(`--${name}: got ${show(text)}; pass a time up to 30d`);
  return ms;
}

const OPTIONS_OF = {
  create: ["scope", "all-namespaces", "expires"],
  "rotate-secret": ["after", "grace", "force", "secret-file"],
} as const;

function refuseOptions(given: Arguments, verb: (typeof VERBS)[number]): void {
  for (const [owner, names] of Object.entries(OPTIONS_OF)) {
    const name = owner === verb ? undefined : names.find((each) => given.flag(each));
    if (name !== undefined) throw usageError(`--${name} requires ${owner}, and cannot be used with ${verb}`);
  }
}
