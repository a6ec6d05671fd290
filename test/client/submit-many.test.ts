/** How a long list is cut into requests. */
import { expect, it } from "vitest";
import { Perdure } from "../../src/client/index.ts";

it("a request holds no more different policies than a server takes", async () => {
  const lists: { retry?: { maxAttempts: number } }[][] = [];
  const answer = { id: "job_01m7gekg9zevv9a6xvvwmt1v8g", created: true, chapter: 1, state: "queued" };
  await using client = await Perdure.connect("http://localhost:1", {
    token: "t".repeat(40),
    async fetch(_, init) {
      const { jobs } = JSON.parse(String(init?.body)) as { jobs: (typeof lists)[number] };
      lists.push(jobs);
      return Response.json({ answers: jobs.map(() => answer) });
    },
  });
  const entry = (maxAttempts: number) => ({ task: "k", input: null, options: { retry: { maxAttempts } } });
  const entries = Array.from({ length: 2_500 }, (_, i) => entry(1 + (i % 1_500)));
  expect((await client.submitMany(entries)).every(({ ok }) => ok)).toBe(true);
  const different = lists.map((jobs) => new Set(jobs.map(({ retry }) => retry?.maxAttempts)).size);
  expect([Math.max(...different), lists.flat().length]).toEqual([1_000, 2_500]);
});
