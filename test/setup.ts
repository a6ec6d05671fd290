/** Runs before each test file, also where files share a process. */
import { afterAll, afterEach } from "vitest";
import { fileIsOver, testIsOver } from "./file-is-over.ts";

afterEach(testIsOver);
afterAll(fileIsOver);
