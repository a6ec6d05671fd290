/** Runs before each test file, also where files share a process. */
import { afterAll } from "vitest";
import { fileIsOver } from "./file-is-over.ts";

afterAll(fileIsOver);
