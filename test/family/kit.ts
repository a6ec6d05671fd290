/** Families on every way to have one: an engine of this process on either store, and a worker of a server. */
import { onTestFinished } from "vitest";
import { Perdure } from "../../src/index.ts";
import { tempFile } from "../kit.ts";
import { newSchema } from "../postgres/kit.ts";
import { startServer } from "../server/kit.ts";

export const WAYS = ["sqlite", "postgres", "http"] as const;
export type Way = (typeof WAYS)[number];

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
