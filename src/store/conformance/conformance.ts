/** The tests that every adapter of the port must pass. An adapter's test file calls `conformance` with a way to create
 *  an empty store; after each test the whole store is audited. No mocks, no sleeps: time is a number. */
import { afterEach, beforeEach, describe } from "vitest";
import { accessTests } from "./access.ts";
import { amendTests } from "./amend.ts";
import { beatTests } from "./beat.ts";
import { Bench, type MakeStore } from "./bench.ts";
import { blockedTests } from "./blocked.ts";
import { budgetTests } from "./budget.ts";
import { cascadeTests } from "./cascade.ts";
import { chapterTests } from "./chapters.ts";
import { claimTests } from "./claim.ts";
import { claimOrderTests } from "./claim-order.ts";
import { claimRepeatTests } from "./claim-repeat.ts";
import { drainTests } from "./drain.ts";
import { eventTests } from "./events.ts";
import { expiryTests } from "./expiry.ts";
import { factTests } from "./facts.ts";
import { fenceTests } from "./fence.ts";
import { findTests } from "./find.ts";
import { groupTests } from "./groups.ts";
import { historyTests } from "./history.ts";
import { inboxTests } from "./inbox.ts";
import { insertTests } from "./insert.ts";
import { keyTests } from "./keys.ts";
import { ledgerTests } from "./ledgers.ts";
import { nameTests } from "./names.ts";
import { namespaceEventTests } from "./namespace-events.ts";
import { pageTests } from "./pages.ts";
import { parentTests } from "./parents.ts";
import { pauseTests } from "./pauses.ts";
import { pruneTests } from "./prune.ts";
import { randomRunTests } from "./random-runs.ts";
import { reaperTests } from "./reaper.ts";
import { renewTests } from "./renew.ts";
import { reopenTests } from "./reopen.ts";
import { resourceTests } from "./resources.ts";
import { runLaneTests } from "./run-lanes.ts";
import { runTests } from "./runs.ts";
import { sessionTests, taskDefaultTests } from "./sessions.ts";
import { settleTests } from "./settle.ts";
import { suspectTests } from "./suspects.ts";
import { textTests } from "./text.ts";
import { unusedNameTests } from "./unused-names.ts";

const IDEAS: Readonly<Record<string, (bench: Bench) => void>> = {
  insert: insertTests,
  "submit keys": keyTests,
  parents: parentTests,
  claim: claimTests,
  resources: resourceTests,
  "claim order": claimOrderTests,
  "claim repeated": claimRepeatTests,
  renew: renewTests,
  budget: budgetTests,
  ledgers: ledgerTests,
  settle: settleTests,
  fence: fenceTests,
  reaper: reaperTests,
  suspects: suspectTests,
  amend: amendTests,
  blocked: blockedTests,
  cascade: cascadeTests,
  chapters: chapterTests,
  expiry: expiryTests,
  pauses: pauseTests,
  sessions: sessionTests,
  "task defaults": taskDefaultTests,
  draining: drainTests,
  access: accessTests,
  beat: beatTests,
  find: findTests,
  names: nameTests,
  facts: factTests,
  events: eventTests,
  "events of a namespace": namespaceEventTests,
  prune: pruneTests,
  "queues of single runs": runLaneTests,
  "unused lanes and policies": unusedNameTests,
  "group commit": groupTests,
  runs: runTests,
  "messages to runs": inboxTests,
  "random runs": randomRunTests,
  text: textTests,
  history: historyTests,
  pages: pageTests,
  reopen: reopenTests,
};

export function conformance(name: string, makeStore: MakeStore): void {
  describe(`${name} conforms to the port`, () => {
    const bench = new Bench(makeStore);
    beforeEach(() => bench.begin());
    afterEach(() => bench.end());
    for (const [idea, tests] of Object.entries(IDEAS)) describe(idea, () => tests(bench));
  });
}
