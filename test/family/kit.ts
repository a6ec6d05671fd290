/** Parents and children on every kind of worker: an engine of this process on either store, and a worker of a
 *  server. */
import { onTestFinished } from "vitest";
import { Perdure } from "../../src/index.ts";
import { tempFile } from "../kit.ts";
import { newSchema } from "../postgres/kit.ts";
import { startServer } from "../server/kit.ts";
import { inFull } from "../tier.ts";

export type Way = "sqlite" | "postgres" | "http";
/** A worker of a server exercises everything that an engine of this process does; the engines are tested in the second
 *  tier. */
export const WAYS = inFull<Way>(["http", "sqlite", "postgres"]);

export async function openWay(way: Way): Promise<Perdure> {
  if (way !== "http") {
    const perdure = await Perdure.open({ url: way === "sqlite" ? tempFile() : newSchema("family").url });
    onTestFinished(() => perdure.close({ grace: 0 }));
    return perdure;
  }
  const server = await startServer();
  const perdure = await Perdure.open({ url: server.url, token: server.admin });
  onTestFinished(async () => {
    await perdure.close({ grace: 0 });
    await server.close();
  });
  return perdure;
}
