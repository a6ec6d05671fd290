/** The conformance suite for outputs, on a directory. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { blobConformance } from "./conformance/blobs.ts";
import { directoryBlobs } from "./directory-blobs.ts";

blobConformance("a directory", async () => {
  const dir = mkdtempSync(join(tmpdir(), "perdure-blobs-"));
  return {
    blobs: directoryBlobs(join(dir, "made", "when used")),
    close: async () => rmSync(dir, { recursive: true, force: true }),
  };
});
