/** The conformance suite on PostgreSQL: a schema of its own for each test. */
import { newSchema } from "../../../test/postgres/kit.ts";
import { systemClock } from "../../engine/clock.ts";
import { conformance } from "../conformance/conformance.ts";
import { openPostgres } from "./open.ts";

let made = 0;
const newSecret = () => `secret-${made}-of-a-store-in-tests`.padStart(40, `${made % 10}`);
const open = (url: string) => openPostgres({ url, random: Math.random, clock: systemClock, newSecret, connections: 4 });

conformance("postgres", async () => {
  made += 1;
  const { url } = newSchema("conformance");
  return { store: await open(url), reopen: () => open(url), second: () => open(url) };
});
