/** A renewal that brings the session another key. */
import { expect, it } from "vitest";
import { openLink } from "./link-kit.ts";

it("shows the key that the last renewal brought", async () => {
  const answer = { alive: true, leaseMs: 15_000, lost: [], cancel: [], drain: false, overspent: [] };
  let renewals = 0;
  const { link, server, session } = await openLink(() => {
    renewals += 1;
    return { json: renewals === 1 ? { ...answer, key: "key_2" } : answer };
  });
  expect(await link.renew(session, [])).not.toHaveProperty("key");
  await link.renew(session, []);
  await link.closeSession(session);
  expect(server.asked.map(({ headers }) => headers["perdure-session-key"])).toEqual(["key_1", "key_2", "key_2"]);
  expect(link.sessionOf(session)).toMatchObject({ key: "key_2" });
});
