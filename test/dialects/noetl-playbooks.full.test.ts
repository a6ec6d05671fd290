/** More playbooks of NoETL that run unchanged, with many starts of Python: sub-playbooks, loops over requests, pipelines, pages. */
import { spawnSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { describe, expect, it, onTestFinished } from "vitest";
import { ask } from "../postgres/client.ts";
import { postgresUrl } from "../postgres/kit.ts";
import { realEngine, runPlaybook, serveAnswers, stepOf, timelineOf } from "./noetl-playbook-kit.ts";

const noPython = spawnSync("python3", ["--version"]).status !== 0;
const HEAD = "apiVersion: noetl.io/v1\nkind: Playbook\n";
const HEAD_2 = "apiVersion: noetl.io/v2\nkind: Playbook\n";

const SCORER = `${HEAD}
metadata: { name: scorer, path: tests/scorer }
workload:
  user_data: { name: "Test", years: 5, rating: 4.0 }
workbook:
  - name: score_years
    type: python
    input: { years: null }
    assert: { expects: [years], returns: [score, weight] }
    code: |
      years = float(years)
      result = {"score": years * 2.0, "weight": 0.5}
  - name: score_rating
    type: python
    code: |
      def main(rating):
          return {"score": rating * 5.0, "weight": 0.5}
workflow:
  - step: start
    next: [{ step: years }]
  - step: years
    type: workbook
    name: score_years
    data: { years: "{{ user_data.years }}" }
    next: [{ step: rating }]
  - step: rating
    type: workbook
    name: score_rating
    data: { rating: "{{ workload.user_data.rating }}" }
    next: [{ step: total }]
  - step: total
    type: python
    data: { name: "{{ user_data.name }}", years: "{{ years }}", rating: "{{ rating.data }}" }
    code: |
      def main(name, years, rating):
          total = years["score"] * years["weight"] + rating["score"] * rating["weight"]
          return {"name": name, "total": total}
    next:
      - { when: "{{ total.total }} >= 20", then: [{ step: senior }] }
      - { else: [{ step: junior }] }
  - { step: senior, type: python, code: "result = 'senior'", next: [{ step: end }] }
  - { step: junior, type: python, code: "result = 'junior'", next: [{ step: end }] }
  - step: end
`;

const CALLER = `${HEAD}
metadata: { name: caller, path: tests/caller }
workload:
  users:
    - { name: ada, years: 20, rating: 5 }
    - { name: bo, years: 1, rating: 2 }
workflow:
  - step: start
    next: [{ step: score_all }]
  - step: score_all
    type: iterator
    collection: "{{ workload.users }}"
    element: user
    mode: async
    task:
      type: playbook
      path: tests/scorer
      return_step: total
      data: { user_data: "{{ user }}" }
    next: [{ step: end }]
  - step: end
    result: { scores: "{{ score_all.results }}" }
`;

describe.skipIf(noPython)("playbooks in playbooks", () => {
  it("run with data of each item, and give the result of the step named by return_step", async () => {
    const engine = await realEngine();
    const { perdure } = engine;
    const scorer = await perdure.pushPlaybook({ source: SCORER });
    expect(scorer).toMatchObject({ path: "tests/scorer", version: 1 });
    const ran = await runPlaybook(engine, CALLER);
    expect(ran.info).toMatchObject({
      state: "succeeded",
      result: {
        scores: [
          { name: "ada", total: 32.5 },
          { name: "bo", total: 6 },
        ],
      },
    });
    const below = await perdure.runs({ parent: ran.run.id });
    const ends = await Promise.all(below.runs.map(({ id }) => perdure.steps(id)));
    expect(ends.map((steps) => steps.at(-2)?.step).toSorted()).toEqual(["junior", "senior"]);
    const types = (await timelineOf(ran)).map(({ event_type }) => event_type);
    expect(types.filter((type) => type === "loop_iteration")).toHaveLength(2);
    expect(types.filter((type) => type === "loop_completed")).toHaveLength(1);
  });
});

const weather = (temperature: number) => ({
  current_weather: { temperature },
  hourly: { temperature_2m: [temperature] },
});

it.skipIf(noPython)("an iterator over cities asks for each, in order, and the results are read by name", async () => {
  const { url, asked } = await serveAnswers(weather(10), 503, weather(31), weather(22));
  const ran = await runPlaybook(
    await realEngine(),
    `${HEAD}
metadata: { name: cities, path: tests/cities }
workload:
  base_url: ""
  cities: [{ name: A, lat: 1.5, lon: 2 }, { name: B, lat: 3, lon: 4 }, { name: C, lat: 5, lon: 6 }]
workflow:
  - step: start
    next: [{ step: each_city }]
  - step: each_city
    type: iterator
    collection: "{{ workload.cities }}"
    element: city
    mode: sequential
    task:
      type: http
      method: GET
      endpoint: "{{ workload.base_url }}/forecast"
      data: { latitude: "{{ city.lat }}", longitude: "{{ city.lon }}", hourly: temperature_2m }
      timeout: 20
      retry: { max_attempts: 2, initial_delay: 0.1 }
    next: [{ step: hottest }]
  - step: hottest
    type: python
    args: { answers: "{{ each_city.results }}", names: "{{ workload.cities }}" }
    code: |
      def main(answers, names):
          found = [max(each["body"]["hourly"]["temperature_2m"]) for each in answers]
          best = found.index(max(found))
          return {"city": names[best]["name"], "max": found[best]}
    next: [{ step: end }]
  - step: end
    desc: Done
`,
    { base_url: url },
  );
  expect(asked.map((line) => line.replace(/.*latitude=([\d.]+).*/, "$1"))).toEqual(["1.5", "3", "3", "5"]);
  expect(ran.info).toMatchObject({ state: "succeeded", result: { city: "B", max: 31 } });
});

it.skipIf(noPython).each([
  [25, "report_warm", "warm"],
  [12, "report_cold", "cold"],
])("weather of %j degrees takes one of two branches", async (degrees, branch, word) => {
  const { url } = await serveAnswers(weather(degrees));
  const ran = await runPlaybook(
    await realEngine(),
    `${HEAD}
metadata: { name: weather, path: tests/weather }
workload: { state: ready, base_url: "", threshold: 20, city: { name: A, lat: 1, lon: 2 } }
workflow:
  - step: start
    next:
      - { when: "{{ workload.state == 'ready' }}", then: [{ step: fetch }] }
      - { else: [{ step: end }] }
  - step: fetch
    type: http
    method: GET
    endpoint: "{{ workload.base_url }}/v1"
    params: { latitude: "{{ workload.city.lat }}" }
    next: [{ step: judge, data: { body: "{{ fetch.data }}" } }]
  - step: judge
    type: python
    code: |
      def main(input_data):
          return {"max": input_data["body"]["current_weather"]["temperature"]}
    next:
      - { when: "{{ judge.max > workload.threshold }}", step: report_warm, data: { max: "{{ judge.max }}" } }
      - { when: "{{ judge.max }} <= {{ workload.threshold }}", step: report_cold, data: { max: "{{ judge.max }}" } }
  - { step: report_warm, type: python, code: "result = { 'is': 'warm', 'max': max }", next: [{ step: end }] }
  - { step: report_cold, type: python, code: "return { 'is': 'cold', 'max': input_data['max'] }", next: [{ step: end }] }
  - step: end
`,
    { base_url: url },
  );
  expect(ran.steps).toEqual(["start", "fetch", "judge", branch, "end"].map((name) => `${name} succeeded`));
  expect(ran.info.result).toEqual({ is: word, max: degrees });
});

it.skipIf(noPython)("Python that raises is repeated", async () => {
  const ran = await runPlaybook(
    await realEngine(),
    `${HEAD}
metadata: { name: raises, path: tests/raises }
workflow:
  - step: start
    type: python
    code: |
      def main(input_data):
          import os
          if int(os.environ["PERDURE_ATTEMPT"]) < 4:
              raise Exception("not yet")
          return {"success": True, "data": {"value": 7}}
    retry: { max_attempts: 5, initial_delay: 0.2, backoff_multiplier: 1.5, max_delay: 2.0, retry_when: "{{ error != None }}" }
    next: [{ step: end }]
  - step: end
`,
  );
  expect(ran.info).toMatchObject({ state: "succeeded", result: { success: true, data: { value: 7 } } });
  expect(await stepOf(ran, "start")).toMatchObject({ attempt: 4 });
});

describe.skipIf(noPython)("version 2", () => {
  const page = (from: number, more: boolean) => ({ users: [{ id: from }, { id: from + 1 }], has_more: more });

  it("asks for pages with ctx and an arc back", async () => {
    const { url, asked } = await serveAnswers(page(1, true), 503, page(3, true), page(5, false));
    const ran = await runPlaybook(
      await realEngine(),
      `${HEAD_2}
metadata: { name: pages, path: tests/pages }
workload: { api_url: "", offset: 0, limit: 2, collected: [] }
workflow:
  - step: start
    tool: { kind: python, input: {}, code: "result = {'status': 'initialized'}" }
    set: { ctx.offset: "{{ workload.offset }}", ctx.collected: "{{ workload.collected }}" }
    next: { spec: { mode: exclusive }, arcs: [{ step: fetch_page }] }
  - step: fetch_page
    tool:
      kind: http
      url: "{{ api_url }}/users"
      params: { offset: "{{ ctx.offset }}", limit: "{{ limit }}" }
      spec:
        policy:
          rules:
            - when: "{{ output.status == 'error' and output.error.retryable }}"
              then: { do: retry, attempts: 3, backoff: exponential, delay: 0.1 }
            - when: "{{ output.status == 'error' }}"
              then: { do: fail }
            - else: { then: { do: continue } }
    next: { spec: { mode: exclusive }, arcs: [{ step: collect }] }
  - step: collect
    tool:
      kind: python
      input: { response: "{{ fetch_page }}", collected: "{{ ctx.collected }}", offset: "{{ ctx.offset }}", limit: "{{ limit }}" }
      code: |
        body = response.get("body", {})
        result = {"collected": collected + body["users"], "has_more": body["has_more"], "next": offset + limit}
    set:
      ctx.collected: "{{ collect.collected }}"
      ctx.offset: "{{ collect.next }}"
      ctx.has_more: "{{ collect.has_more }}"
    next:
      spec: { mode: exclusive }
      arcs:
        - { step: fetch_page, when: "{{ ctx.has_more == true }}" }
        - { step: end, when: "{{ ctx.has_more != true }}" }
  - step: end
    tool: { kind: python, input: { users: "{{ ctx.collected }}" }, code: "return [user['id'] for user in input_data['users']]" }
`,
      { api_url: url },
    );
    expect(ran.info).toMatchObject({ state: "succeeded", result: [1, 2, 3, 4, 5, 6] });
    expect(asked.map((line) => line.replace(/.*offset=(\d+).*/, "$1"))).toEqual(["0", "2", "2", "4"]);
  });

  it("runs several tools in a row, which pass values on by name", async () => {
    const { url, asked } = await serveAnswers(429, { data: [{ id: 1 }, { id: 2 }] });
    const ran = await runPlaybook(
      await realEngine(),
      `${HEAD_2}
metadata: { name: pipeline, path: tests/pipeline }
workload: { api_url: "", factor: 10 }
workflow:
  - step: start
    tool:
      - name: fetch
        kind: http
        url: "{{ api_url }}/items"
        spec:
          policy:
            rules:
              - when: "{{ output.error.kind == 'rate_limit' }}"
                then: { do: retry, attempts: 5, delay: 0.1 }
              - when: "{{ output.error.retryable }}"
                then: { do: retry, attempts: 3 }
              - when: "{{ output.status == 'error' }}"
                then: { do: fail }
        set: { fetched: "{{ output }}" }
      - name: multiply
        kind: python
        input: { answer: "{{ fetched }}", factor: "{{ workload.factor }}" }
        code: "result = {'ids': [each['id'] * factor for each in answer['body']['data']]}"
        set: { iter.ids: "{{ output.ids }}" }
      - name: broken
        kind: python
        code: "raise Exception('skipped')"
        spec: { policy: { rules: [{ when: "{{ output.status == 'error' }}", then: { do: continue } }] } }
      - name: total
        kind: python
        input: { ids: "{{ iter.ids }}", before: "{{ _prev | default('none') }}" }
        code: "result = {'total': sum(ids), 'before': before}"
    next: { spec: { mode: exclusive }, arcs: [{ step: end, when: "{{ start.total > 0 }}" }] }
  - step: end
    tool: { kind: noop }
`,
      { api_url: url },
    );
    expect(ran.info).toMatchObject({ state: "succeeded", result: { total: 30 } });
    expect(asked).toHaveLength(2);
  });

  it("a case after a failure, and one after a success", async () => {
    const { url } = await serveAnswers(404);
    const ran = await runPlaybook(
      await realEngine(),
      `${HEAD_2}
metadata: { name: cases, path: tests/cases }
workload: { url: "", fallback: plan B }
workflow:
  - step: start
    tool: { kind: http, method: GET, endpoint: "{{ workload.url }}" }
    case:
      - when: "{{ event.name == 'call.error' and error.status in [500, 503] }}"
        then: { retry: { max_attempts: 4, initial_delay: 0.5 } }
      - when: "{{ event.name == 'call.error' }}"
        then: { set: [{ name: reason, value: "{{ error }}" }], next: [{ step: rescue, args: { word: "{{ workload.fallback }}" } }] }
      - when: "{{ event.name == 'step.exit' and response is defined }}"
        then: { next: [{ step: end }] }
  - step: rescue
    tool: { kind: python, args: { word: null }, code: "def main(word, reason): return [word, '404' in reason]" }
    args: { reason: "{{ vars.reason }}" }
    next: end
  - step: end
`,
      { url },
    );
    expect(ran.steps).toEqual(["start handled", "rescue succeeded", "end succeeded"]);
    expect(ran.info).toMatchObject({ state: "succeeded", result: ["plan B", true] });
  });
});

it("queries a database by the name of a connection, and reads rows by their names in NoETL", async () => {
  const table = `noetl_${randomUUID().slice(0, 8)}`;
  const engine = await realEngine({ pg_local: postgresUrl() });
  onTestFinished(() => void ask(postgresUrl(), `drop table if exists ${table}`));
  const ran = await runPlaybook(
    engine,
    `${HEAD}
metadata: { name: database, path: tests/database }
workload: { pg_auth: pg_local, words: ["it's", "plain"] }
workflow:
  - step: start
    next: [{ step: create_table }]
  - step: create_table
    tool: postgres
    auth: "{{ workload.pg_auth }}"
    command: |
      CREATE TABLE ${table} (id INTEGER PRIMARY KEY, word TEXT, more JSONB);
      CREATE INDEX ON ${table} (word);
    next: [{ step: each }]
  - step: each
    tool: iterator
    collection: "{{ workload.words }}"
    element: word
    mode: sequential
    task:
      tool: postgres
      auth: { pg: { type: postgres, key: pg_local } }
      command: |
        INSERT INTO ${table} (id, word, more)
        VALUES ({{ loop_index }}, '{{ word }}', '{{ {"word": word} | tojson | replace("'", "''") }}'::jsonb)
        ON CONFLICT (id) DO UPDATE SET word = EXCLUDED.word;
    next: [{ step: select }]
  - step: select
    tool: postgres
    auth: pg_local
    query: SELECT word, more ->> 'word' AS same FROM ${table} ORDER BY id
    next: [{ step: end }]
  - step: end
    result: { rows: "{{ select.command_0.rows }}", count: "{{ select.row_count }}" }
`,
  );
  expect(ran.steps).toEqual([
    ...["start succeeded", "create_table succeeded", "each succeeded", "each[0] succeeded", "each[1] succeeded"],
    ...["select succeeded", "end succeeded"],
  ]);
  expect(ran.info.result).toEqual({
    rows: [
      { word: "it's", same: "it's" },
      { word: "plain", same: "plain" },
    ],
    count: 2,
  });
});
