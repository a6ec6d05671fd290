/** Runs before each test file, also if files share a process. */

import { configureGlobal } from "fast-check";
import { afterAll, afterEach } from "vitest";
import { fileIsOver, testIsOver } from "./file-is-over.ts";
import { SEED } from "./tier.ts";

configureGlobal({ seed: SEED });

afterEach(testIsOver);
afterAll(fileIsOver);
