import { expect, it, onTestFinished } from "vitest";
import { testIo } from "../../../test/cli/kit.ts";
import { all, tempFile } from "../../../test/kit.ts";
import type { ViewParts } from "../../dialects/dialect.ts";
import { VIEWED_EVENTS } from "../../dialects/read-view.ts";
import { Perdure, task } from "../../index.ts";
import type { CommandContext } from "../command.ts";
import { Printer } from "../output/print.ts";
import { followView } from "./follow-view.ts";

const RETRIES = 200;
const failing = task("failing", () => {
  throw new Error("busy");
});

async function open() {
  const perdure = await Perdure.open(tempFile());
  onTestFinished(() => perdure.close({ grace: 0 }));
  const retry = { maxAttempts: RETRIES, backoff: { type: "none" } } as const;
  return { perdure, job: await perdure.submit(failing, undefined, { retry, delay: "1h" }) };
}

function following(perdure: Perdure, id: string, revision?: number) {
  const io = testIo();
  const context = { io, out: new Printer(io), given: { flag: () => true } } as unknown as CommandContext;
  const seen: number[] = [];
  const view = {
    json: ({ events }: ViewParts) => {
      seen.push(events.length);
      return events.map(({ n }) => n);
    },
    table: () => ({ heads: [], rows: [] }),
  };
  /** Ends the pause between two reads, now or when it begins. */
  let go = () => {};
  const held = new Promise<void>((resolve) => {
    go = resolve;
  });
  const clock = {
    after: (_: number, call: () => void) => {
      void held.then(call);
      return () => {};
    },
  };
  const source = {
    workers: () => perdure.workers(),
    job: async (id: string) => {
      const handle = await perdure.job(id);
      const get = async () => {
        const job = await handle.get();
        return revision === undefined || seen.length === 0 ? job : { ...job, revision };
      };
      return Object.assign(Object.create(handle), {
        get,
        attempts: handle.attempts.bind(handle),
        events: handle.events.bind(handle),
      });
    },
  };
  return { io, seen, go, ended: followView(context, source as unknown as Perdure, id, view, clock) };
}

it("a view is read again once for many events, not for each", async () => {
  const { perdure, job } = await open();
  const { io, seen, go, ended } = following(perdure, job.id);
  await expect.poll(() => seen).toEqual([1]);
  await perdure.work([failing]);
  await perdure.retry(job.id);
  await job.result().catch(() => {});
  go();
  expect(await ended).toBe(0);
  const { revision } = await job.get();
  expect(revision).toBeGreaterThan(2 * RETRIES);
  expect(seen).toEqual([1, revision]);
  const lines = io.stdout.text.trimEnd().split("\n").map(Number);
  expect(lines).toEqual(Array.from({ length: revision }, (_, i) => i + 1));
});

it("a job with too many events for a view ends it, with the command for later events", async () => {
  const { perdure, job } = await open();
  const { seen, go, ended } = following(perdure, job.id, VIEWED_EVENTS + 1);
  await expect.poll(() => seen).toEqual([1]);
  const [first] = await all(job.events());
  go();
  void perdure.cancel(job.id);
  await expect(ended).rejects.toMatchObject({
    exitCode: 1,
    message: `${job.id} has more than 5000 events, too many for a view; for the events that follow, use perdure events ${job.id} --follow --after ${first?.seq}`,
  });
});
