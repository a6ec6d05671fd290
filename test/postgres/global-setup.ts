/** One PostgreSQL server for a whole test run. Its URL reaches the tests through `postgresUrl` in `kit.ts`. With
 *  PERDURE_TEST_POSTGRES_URL set, tests use that server instead, each file in separate schemas, and none is started. */
import type { TestProject } from "vitest/node";
import { startServer } from "./server.ts";

declare module "vitest" {
  interface ProvidedContext {
    readonly postgresUrl: string;
  }
}

export default async function setup(project: TestProject): Promise<(() => Promise<void>) | undefined> {
  const given = process.env.PERDURE_TEST_POSTGRES_URL;
  if (given !== undefined && given !== "") {
    project.provide("postgresUrl", given);
    return undefined;
  }
  const server = await startServer();
  project.provide("postgresUrl", server.url);
  // The data is no longer needed. If the run ends without this, the server's keeper does it.
  return () => server.stop("immediate");
}
