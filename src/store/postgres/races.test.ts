/** The races on PostgreSQL: connections and processes on one schema. */
import { newSchema } from "../../../test/postgres/kit.ts";
import { systemClock } from "../../engine/clock.ts";
import { raceTests } from "../conformance/races.ts";
import { openPostgres } from "./open.ts";

const newSecret = () => "a secret of the race tests";

raceTests("races on postgres", async () => {
  const { url } = newSchema("races");
  const open = () => openPostgres({ url, random: Math.random, clock: systemClock, newSecret, connections: 4 });
  return { stores: [await open(), await open()], url };
});
