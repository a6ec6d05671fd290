/** `perdure token`: access tokens of a server. Through the server, or on its database while none is running. A token is shown
 *  once, when it is created: only its hash is stored. */
import { randomBytes } from "node:crypto";
import type { Admin } from "../../client/admin.ts";
import type { PerdureClient } from "../../client/client.ts";
import { type AccessToken, SCOPES } from "../../core/access.ts";
import { asOneOf } from "../../core/check.ts";
import { asSpan, toMs } from "../../core/duration.ts";
import { PerdureError } from "../../core/errors.ts";
import { isName } from "../../core/names.ts";
import { thisUser } from "../../embedded/options.ts";
import { TokenBook } from "../../server/tokens.ts";
import { type Arguments, type CliCommand, type CommandContext, READING } from "../command.ts";
import { loadConfig, optionsFor } from "../config/config.ts";
import { choiceError, conflictError, EXIT, missingArgument, usageError, valueError } from "../exit.ts";
import { NAME_RULE, type TimeText, timeOf } from "../input/shared-options.ts";
import { showLocal } from "../output/print.ts";
import { painted, type TextPiece } from "../output/terminal-text.ts";
import { replaceLostSecret, rotateSecret, type SecretRotation } from "../serve/rotate-secret.ts";
import { dataAt } from "../target/data-directory.ts";
import { withEngine } from "../target/open-store.ts";
import { TARGET, targetOf, withServer } from "../target/target.ts";

const VERBS = ["create", "list", "revoke", "rotate-secret"] as const;

export const token: CliCommand = {
  name: "token",
  summary: "Create, list or revoke access tokens; rotate the secret",
  usage: "perdure token create NAME | list | revoke ID… | rotate-secret [OPTIONS]",
  about:
    "Scopes: read shows jobs, submit submits jobs and changes them, work runs them, admin allows everything. A new token is " +
    "printed on stdout once; only its hash is stored. It is valid for the current namespace, or for all. All servers refuse a " +
    "revoked token within about two seconds.\n" +
    "rotate-secret makes a new secret to sign session keys and job tokens, in the file of the server on this machine, " +
    "which reloads it. Workers and jobs keep running: the old secret is accepted until the grace time is over, or until no " +
    "worker has a session of it. If several servers share a database, copy the file to each before the new secret signs.",
  options: [
    {
      ...{ name: "scope", short: "s", type: "string", value: "SCOPE", multiple: true },
      help: `What the new token allows: ${SCOPES.join(", ")}.`,
    },
    { name: "all-namespaces", type: "boolean", help: "The new token is valid for all namespaces." },
    {
      name: "expires",
      type: "string",
      value: "TIME",
      help: "The new token expires after this: 12h, 30d. Default: never.",
    },
    {
      name: "after",
      type: "string",
      value: "TIME",
      help: "rotate-secret: the new secret signs after this time. Default: 10m with PostgreSQL, else 0s. Use 0s if the old one leaked.",
    },
    {
      name: "grace",
      type: "string",
      value: "TIME",
      help: "rotate-secret: the old one is accepted for this long after that. Default: 1d. Use 1m if it leaked.",
    },
    { name: "force", type: "boolean", help: "rotate-secret: replace a secret that is lost. Workers register again." },
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
        if (verb === undefined) throw missingArgument("subcommand", token.usage);
        throw choiceError("subcommand", verb, VERBS);
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

/** The same calls as those of a server. */
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
  if (name === undefined) throw missingArgument("NAME", "perdure token create NAME --scope SCOPE…");
  given.atMost(2);
  refuseOptions(given, "create");
  if (!isName(name) || name.trim() === "") {
    throw valueError("NAME", name, NAME_RULE);
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
  if (texts.length === 0) throw usageError(`pass --scope: one or more of ${SCOPES.join(", ")}`);
  return [...new Set(texts.map((text) => asOneOf(text.trim(), SCOPES, "--scope")))];
}

function endOf(given: Arguments): { expiresIn?: TimeText } {
  const expires = timeOf(given, "expires");
  if (expires === undefined) return {};
  asSpan(expires, "--expires");
  return { expiresIn: expires };
}

/** That of the settings; null for all. */
function namespaceOf({ given, io }: CommandContext): string | null {
  if (!given.flag("all-namespaces")) return loadConfig({ given, io }, ["namespace"]).text("namespace");
  if (given.flag("namespace")) throw conflictError("--namespace", "--all-namespaces");
  return null;
}

async function list(context: CommandContext): Promise<number> {
  const { given, out } = context;
  given.atMost(1);
  refuseOptions(given, "list");
  const found = await withTokens(context, (tokens) => tokens.listTokens());
  if (given.flag("json")) out.json(found);
  else if (found.length === 0) out.note("no tokens");
  else {
    const now = Date.now();
    const columns = [{ head: "ID" }, { head: "NAME", flexible: true }, { head: "SCOPES" }, { head: "NAMESPACE" }];
    out.table(
      [...columns, { head: "STATE" }, { head: "CREATED" }, { head: "EXPIRES" }],
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
  return expiresAt !== null && expiresAt <= now ? painted("yellow", "expired") : painted("green", "valid");
}

async function revoke(context: CommandContext, words: readonly string[]): Promise<number> {
  const { given, out } = context;
  refuseOptions(given, "revoke");
  if (words.length === 0) throw missingArgument("ID", "perdure token revoke ID…; see `perdure token list`");
  // A whole token is accepted too: it contains its id. It is never printed.
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

/** For the server on this machine, running or not: only its file changes. */
async function rotate(context: CommandContext): Promise<number> {
  const { given, io, out } = context;
  given.atMost(1);
  refuseOptions(given, "rotate-secret");
  if (given.flag("server"))
    throw usageError(
      "--server cannot be used with rotate-secret, which changes a file: run it on the host of the server",
    );
  const config = loadConfig({ given, io }, ["data", "db", "schema", "server.secret", "server.secretFile"]);
  const dir = dataAt(config.text("data"), config.sourceOf("data"), io.cwd);
  const force = given.flag("force");
  const [afterMs, graceMs] = ["after", "grace"].map((name) => spanOf(given, name));
  const request = { dir, cwd: io.cwd, now: Date.now(), afterMs, graceMs, force };
  const done = force ? await replaceLostSecret(context, config, request) : rotateSecret(config, request);
  const { file, signsFrom, until, isShared } = done;
  if (given.flag("json")) out.json({ file, signsFrom, acceptedUntil: until });
  else {
    out.line(`${file}: the new secret signs from ${showLocal(signsFrom)}`);
    if (until !== null)
      out.line(`the old one is accepted until ${showLocal(until)}, or until no worker has a session of it`);
    if (isShared)
      for (const line of sharedSteps(done, { isLeak: graceMs !== undefined && afterMs === undefined })) out.note(line);
  }
  return EXIT.done;
}

/** What remains to be done if several servers may use the database. Running this on another host would create another secret. */
function sharedSteps({ file, signsFrom }: SecretRotation, { isLeak }: { readonly isLeak: boolean }): string[] {
  const isNow = signsFrom <= Date.now();
  const by = isNow ? "now: they cannot serve until they have it" : `before ${showLocal(signsFrom)}`;
  const copy = `copy ${file} to all other servers of the database ${by}; they reload it. Do not run this command there`;
  const leak = `the old secret signs until ${showLocal(signsFrom)}; if it leaked, run this again with --after 0s`;
  return isLeak && !isNow ? [copy, leak] : [copy];
}

/** Upper bound: a secret that is accepted for ever was not replaced. */
const MAX_SPAN_MS = 30 * 86_400_000;

function spanOf(given: Arguments, name: string): number | undefined {
  const text = timeOf(given, name);
  const ms = text === undefined ? undefined : toMs(text, `--${name}`);
  if (ms !== undefined && ms > MAX_SPAN_MS) throw valueError(`--${name}`, text, "a time up to 30d");
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
