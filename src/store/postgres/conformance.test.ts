/** The conformance suite on PostgreSQL: an empty schema for each test. */
import { borrowSchema } from "../../../test/postgres/borrowed.ts";
import { ask } from "../../../test/postgres/client.ts";
import { postgresUrl } from "../../../test/postgres/kit.ts";
import { IS_FULL } from "../../../test/tier.ts";
import { systemClock } from "../../lib/system-clock.ts";
import { conformance } from "../conformance/conformance.ts";
import { openPostgres } from "./open.ts";

/** Fewer connections, because each test prepares all statements again on each of them. */
const connections = IS_FULL ? 4 : 2;
let made = 0;
const newSecret = () => `secret-${made}-of-a-store-in-tests`.padStart(40, `${made % 10}`);
const open = (url: string) => openPostgres({ url, random: Math.random, clock: systemClock, newSecret, connections });

conformance("postgres", async () => {
  made += 1;
  const { url, schema, giveBack } = borrowSchema();
  const dropSession = async (id: string) => {
    await ask(postgresUrl(), `delete from "${schema}".session where id = $1`, [id]);
  };
  const policyCount = async () => {
    const [row] = await ask(postgresUrl(), `select count(*)::int as count from "${schema}".policy`);
    return (row as { count: number }).count;
  };
  const again = () => open(url);
  return { store: await open(url), reopen: again, second: again, dropSession, policyCount, closed: giveBack };
});
