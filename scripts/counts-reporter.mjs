// Ends a test run with one plain line of counts, which CI repeats as its last. `npm test` has two parts: the heart, whose
// coverage is measured, and the rest, which adds to the counts that the first kept.
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const KEPT = fileURLToPath(new URL("../node_modules/.perdure-counts.json", import.meta.url));

export default class CountsReporter {
  onTestRunEnd(modules) {
    const part = process.env.PERDURE_COUNTS;
    const counts = part === "add" ? kept() : { passed: 0, failed: 0, skipped: 0 };
    for (const module of modules) {
      for (const test of module.children.allTests()) {
        const { state } = test.result();
        if (state in counts) counts[state] += 1;
      }
    }
    if (part === "keep") writeFileSync(KEPT, JSON.stringify(counts));
    console.log(`${counts.passed} passed, ${counts.failed} failed, ${counts.skipped} skipped`);
  }
}

function kept() {
  try {
    return JSON.parse(readFileSync(KEPT, "utf8"));
  } catch {
    return { passed: 0, failed: 0, skipped: 0 };
  } finally {
    rmSync(KEPT, { force: true });
  }
}
