/** A worker process. Handlers do what their payload selects:
 *  { work: "quick" | "fail-first" | "fail" | "poison" } · { work: "sleep", ms } ·
 *  { work: "block", ms } or { work: "block", untilFile }: in a loop that blocks the event loop ·
 *  { work: "hold" }: until the test sends "release" (all of them) or "release <attempt>" (those with that number) ·
 *  with `stubborn` it ignores its signal.
 *  `first` overrides these for attempt 1.
 *  Prints: pid <pid> · ready <session> · start <job> <attempt> · aborted <job> <attempt> <why> · end <job> <attempt> ·
 *  held <until> (reaping was held) · draining · closed. With `effects`, starts are also appended to that file. */
import { appendFileSync, existsSync } from "node:fs";
import { createInterface } from "node:readline";
import { Perdure, task } from "perdure";

const settings = JSON.parse(process.argv[2]);
const { url, lease = "1s", concurrency = 10, grace = "30s", stopGrace = "5s", labels = {}, effects, quiet } = settings;

const say = (...words) => {
  if (!quiet) console.log(words.join(" "));
};

say("pid", process.pid);

const held = new Set();
let allReleased = false;
const released = ({ attempt }) =>
  new Promise((resolve) => {
    if (allReleased) resolve();
    else held.add({ attempt, resolve });
  });

/** Resolves after `ms`, or throws when the signal aborts and the handler listens. */
function rest(promise, ctx, stubborn) {
  return new Promise((resolve, reject) => {
    promise.then(resolve);
    const stop = () => {
      say("aborted", ctx.jobId, ctx.attempt, ctx.signal.reason.message);
      if (!stubborn) reject(ctx.signal.reason);
    };
    if (ctx.signal.aborted) stop();
    else ctx.signal.addEventListener("abort", stop);
  });
}

function block({ ms = Number.POSITIVE_INFINITY, untilFile }) {
  const end = performance.now() + ms;
  while (performance.now() < end && !(untilFile && existsSync(untilFile)));
}

async function run(input, ctx) {
  const { work, ms, untilFile, stubborn } = ctx.attempt === 1 ? { ...input, ...input.first } : input;
  switch (work) {
    case "fail-first":
      if (ctx.attempt === 1) throw new Error("not yet");
      break;
    case "fail":
      throw new Error("never");
    case "poison":
      process.kill(process.pid, "SIGKILL");
      block({ ms: 10_000 }); // a signal to oneself arrives soon, not at once
      break;
    case "sleep":
      await rest(new Promise((resolve) => setTimeout(resolve, ms)), ctx, stubborn);
      break;
    case "block":
      block({ ms, untilFile });
      break;
    case "hold":
      await rest(released(ctx), ctx, stubborn);
      break;
  }
  return { pid: process.pid, attempt: ctx.attempt };
}

const handler = async (input, ctx) => {
  if (effects) appendFileSync(effects, `${ctx.jobId} ${ctx.attempt}\n`);
  say("start", ctx.jobId, ctx.attempt);
  try {
    return await run(input, ctx);
  } finally {
    say("end", ctx.jobId, ctx.attempt);
  }
};

const keep = { succeeded: false, failed: false, cancelled: false };
const perdure = await Perdure.open({ url, lease, retention: keep });
const worker = await perdure.work([task("job", handler)], { concurrency, labels, stopGrace });

const ending = new AbortController();
process.on("SIGTERM", async () => {
  say("draining");
  ending.abort();
  await perdure.close({ grace });
  say("closed");
  process.exit(0);
});

createInterface({ input: process.stdin })
  .on("line", (line) => {
    const [word, attempt] = line.split(" ");
    if (word !== "release") return;
    allReleased ||= attempt === undefined;
    for (const one of held) if (allReleased || one.attempt === Number(attempt)) one.resolve();
  })
  .on("close", () => process.exit(1)); // the test has exited: exit too

say("ready", worker.session);

if (!quiet) {
  for await (const event of perdure.events({ follow: true, signal: ending.signal })) {
    if (event.name === "engine.reaping_held") say("held", event.data.until);
  }
}
