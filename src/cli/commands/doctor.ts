/** `perdure doctor`: checks for problems and shows how to fix them; it changes nothing. */
import { hostEnvironmentOf } from "../../embedded/open-engine.ts";
import { Perdure } from "../../embedded/perdure.ts";
import { type CliCommand, type CommandContext, READING } from "../command.ts";
import { loadConfig } from "../config/config.ts";
import {
  type CheckResult,
  type DoctorCheck,
  errorText,
  type Finding,
  type FindingLevel,
  findingsOf,
  note,
  problem,
} from "../doctor/finding.ts";
import { checkData, checkDisk, checkDriver, checkNode, checkSettings, checkStore } from "../doctor/local-checks.ts";
import {
  checkClock,
  checkReach,
  checkSecrets,
  checkStatus,
  checkToken,
  clientOf,
  ifAllowed,
  notReached,
} from "../doctor/server-checks.ts";
import { checkDeadLetters, checkQueues, checkWorkers, type WorkReader } from "../doctor/work-checks.ts";
import { EXIT } from "../exit.ts";
import { type Colour, painted } from "../output/terminal-text.ts";
import { type DataDir, dataAt, holdsData, stillClock } from "../target/data-directory.ts";
import { liveServer } from "../target/server-notes.ts";
import { serverNow } from "../target/server-time.ts";
import type { StoreTarget } from "../target/store-target.ts";
import { type ServerTarget, TARGET, type Target, targetOf } from "../target/target.ts";

export const doctor: CliCommand = {
  name: "doctor",
  summary: "Check for problems and show how to fix them",
  usage: "perdure doctor [OPTIONS]",
  about:
    "Checks the settings, the server or the data, the database, the clocks, the disk, and jobs that are stuck. Changes " +
    "nothing. A SQLite file is read completely. Exits with 1 if there is a problem; warnings and notes do not count.",
  options: [...TARGET, ...READING],
  examples: ["perdure doctor", "perdure doctor --server https://perdure.example:4400 --json"],

  async run(context) {
    const { given, out } = context;
    given.atMost(0);
    const findings = await examine(context);
    const problems = findings.filter(({ level }) => level === "problem").length;
    const warnings = findings.filter(({ level }) => level === "warning").length;
    if (given.flag("json")) out.json({ ok: problems === 0, problems, warnings, findings });
    else {
      for (const finding of findings) print(out, finding);
      out.note(`${counted(problems, "problem")}, ${counted(warnings, "warning")}`);
    }
    return problems === 0 ? EXIT.done : EXIT.failed;
  },
};

function counted(count: number, what: string): string {
  return `${count === 0 ? "no" : count} ${what}${count === 1 ? "" : "s"}`;
}

const COLOURS: Readonly<Record<FindingLevel, Colour>> = {
  ok: "green",
  note: "cyan",
  warning: "yellow",
  problem: "red",
};

function print(out: CommandContext["out"], { check, level, message, advice }: Finding): void {
  out.line(painted(COLOURS[level], level.padEnd(8)), painted("dim", check.padEnd(10)), message);
  if (advice !== null) out.line(painted("dim", `${" ".repeat(18)}→ ${advice}`));
}

async function examine(context: CommandContext): Promise<Finding[]> {
  const first: DoctorCheck[] = [
    { name: "program", run: () => checkNode() },
    { name: "sqlite", run: checkDriver },
    { name: "settings", run: () => checkSettings(context) },
  ];
  const found = whereTo(context);
  if (found instanceof Error) {
    const before = await findingsOf(first);
    const message = errorText(found);
    // A mistake in the settings file has been reported.
    if (before.some((each) => each.message === message)) return before;
    return [...before, { check: "target", ...problem(message, null) }];
  }
  const { place, dir } = found;
  const isOurs = place.kind === "store" ? place.isData : liveServer(dir.path)?.url != null;
  if (isOurs) {
    first.push({ name: "data", run: () => checkData(dir, place.kind === "server") });
    if (holdsSomething(dir)) first.push({ name: "disk", run: () => checkDisk(dir.path) });
  }
  const [before, after] = await Promise.all([
    findingsOf(first),
    place.kind === "server" ? examineServer(place) : examineStore(context, place),
  ]);
  return [...before, ...after];
}

/** An error if the target is not known: then nothing more can be checked. */
function whereTo(context: CommandContext): { readonly place: Target; readonly dir: DataDir } | Error {
  try {
    const config = loadConfig(context, ["data"]);
    const dir = dataAt(config.text("data"), config.sourceOf("data"), context.io.cwd);
    return { place: targetOf(context), dir };
  } catch (error) {
    return error as Error;
  }
}

function holdsSomething(dir: DataDir): boolean {
  try {
    return holdsData(dir);
  } catch {
    return false; // the check of the directory reports why
  }
}

async function examineServer(target: ServerTarget): Promise<Finding[]> {
  await using client = await clientOf(target);
  const reach = await findingsOf([{ name: "server", run: () => checkReach(client, target.url) }]);
  const isReached = reach.some(({ level }) => level === "ok");
  const unless = (run: () => Promise<readonly CheckResult[]>) => (isReached ? ifAllowed(run) : async () => notReached);
  const time = async () => (await client.admin.status()).now;
  const rest = await findingsOf([
    { name: "token", run: unless(() => checkToken(client)) },
    { name: "store", run: unless(() => checkStatus(client)) },
    { name: "secrets", run: unless(() => checkSecrets(client)) },
    { name: "clock", run: unless(() => checkClock(client)) },
    ...workChecks(client, time).map(({ name, run }) => ({ name, run: unless(run) })),
  ]);
  return [...reach, ...rest];
}

async function examineStore(context: CommandContext, place: StoreTarget): Promise<Finding[]> {
  if (place.isData && !holdsSomething(place.dir)) return []; // reported by the check of the directory
  const { found, isCurrent } = await checkStore(place);
  const store = await findingsOf([{ name: "store", run: async () => found }]);
  // Opening it would upgrade it, or fail again.
  const skipped = [note("not checked: the store cannot be opened without an upgrade or a repair")];
  if (!isCurrent) return [...store, ...(await findingsOf([{ name: "work", run: async () => skipped }]))];
  return [...store, ...(await examineWork(context, place))];
}

async function examineWork(
  { given, out }: CommandContext,
  { url, schema, namespace }: StoreTarget,
): Promise<Finding[]> {
  const logger = (level: string, message: string) => {
    if (given.flag("verbose")) out.note(`perdure: ${level}: ${message}`);
  };
  const options = { url, namespace, logger, ...(schema === undefined ? {} : { schema }) };
  try {
    await using perdure = await Perdure.open(options, hostEnvironmentOf(stillClock));
    return await findingsOf(workChecks(perdure, () => serverNow(perdure)));
  } catch (error) {
    return [{ check: "work", ...problem(errorText(error), null) }];
  }
}

/** `time`: the clock that the stored instants are from. */
function workChecks(perdure: WorkReader, time: () => Promise<number>): DoctorCheck[] {
  const reader: WorkReader = {
    jobs: (filter) => perdure.jobs(filter),
    queues: (page) => perdure.queues(page),
    workers: (page) => perdure.workers(page),
    redriveMany: (filter, options) => perdure.redriveMany(filter, options),
  };
  return [
    { name: "workers", run: async () => checkWorkers(reader, await time()) },
    { name: "work", run: async () => checkQueues(reader, await time()) },
    { name: "letters", run: () => checkDeadLetters(reader) },
  ];
}
