/** The races on PostgreSQL: connections and processes on one schema. */
import { newSchema } from "../../../test/postgres/kit.ts";
import { systemClock } from "../../lib/system-clock.ts";
import { advanceRaceTests } from "../conformance/advance-races.ts";
import { childRaceTests } from "../conformance/child-races.ts";
import { type Arena, raceTests } from "../conformance/races.ts";
import { openPostgres } from "./open.ts";

const newSecret = () => "a secret of the race tests";

const arena = async (): Promise<Arena> => {
  const { url } = newSchema("races");
  const open = () => openPostgres({ url, random: Math.random, clock: systemClock, newSecret, connections: 4 });
  return { stores: [await open(), await open()], url };
};

raceTests("races on postgres", arena);
childRaceTests("races of children on postgres", arena);
advanceRaceTests("races of runs on postgres", arena);
