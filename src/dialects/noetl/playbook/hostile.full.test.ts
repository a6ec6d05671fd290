import { expect, it } from "vitest";
import { mutated } from "../../../../test/hostile-playbooks.ts";
import { TEST_CONTEXT } from "../../../../test/playbook-text.ts";
import { SEED } from "../../../../test/tier.ts";
import { graphOf } from "../../../core/playbook/graph.ts";
import { PROBLEM_CODES } from "../../../core/playbook/problem.ts";
import { readYaml } from "../../../yaml/read.ts";
import { readNoetlPlaybook } from "./read.ts";

const FIRST = `
apiVersion: noetl.io/v1
kind: Playbook
metadata: { name: first, path: tests/first }
workload: { items: [1, 2], base: "http://x.test", id: "{{ job.uuid }}" }
workbook:
  - { name: flag, type: python, assert: { expects: [t], returns: [hot] }, input: { t: null }, code: "result = {'hot': t > 1}" }
workflow:
  - { step: start, next: [{ step: check, args: { a: "{{ workload.base }}" } }] }
  - step: check
    type: workbook
    name: flag
    data: { t: 3 }
    next: [{ when: "{{ result.hot }} == True", then: [{ step: each }] }, { else: [{ step: end }] }]
  - step: each
    type: iterator
    collection: "{{ workload.items }}"
    element: n
    mode: async
    task: { type: http, method: GET, endpoint: "{{ workload.base }}/{{ n }}", data: { q: "{{ loop_index }}" }, retry: { max_attempts: 2, retry_when: "{{ status_code >= 500 }}" } }
    next: [{ step: store }]
  - { step: store, type: postgres, auth: { pg: { type: postgres, key: pg } }, command: "insert into t values ('{{ each.results | tojson }}')", next: end }
  - { step: end, type: end, pass: "{{ 1 > 2 }}", save: { type: event_log, data: { n: "{{ store.row_count }}" } } }
`;

const SECOND = `
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: second }
executor: { spec: { entry_step: begin, no_next_is_error: true } }
workload: { url: "http://x.test", page: 1 }
workflow:
  - step: begin
    loop: { in: [1, 2], iterator: n, spec: { mode: parallel, max_in_flight: 2 } }
    tool:
      - name: fetch
        kind: http
        url: "{{ url }}/{{ iter.n }}"
        set: { iter.got: "{{ output.data }}" }
        spec:
          policy:
            rules:
              - { when: "{{ output.error.retryable }}", then: { do: retry, attempts: 3, delay: 1.0, backoff: linear } }
              - { when: "{{ output.error.kind == 'auth' }}", then: { do: fail } }
              - { else: { then: { do: continue, set_ctx: { last: "{{ output }}" } } } }
      - { store: { kind: shell, cmds: ["echo {{ got }}", "echo '{{ _prev.body }}'"], timeout_seconds: 3 } }
    set: { ctx.page: "{{ (ctx.page | default(1) | int) + 1 }}" }
    next: { spec: { mode: inclusive }, arcs: [{ step: judge, when: "{{ event.name == 'loop.done' }}" }] }
  - step: judge
    tool: { kind: python, args: { rows: "{{ begin.results }}" }, code: "return rows" }
    case:
      - { when: "{{ event.name == 'call.error' and error.status in [500] }}", then: { retry: { max_attempts: 4 } } }
      - { when: "{{ event.name in ['step.exit', 'call.done'] and response.more }}", then: { set: [{ name: a, value: 1 }], next: [{ step: begin }] } }
    next: end
`;

const documents = [FIRST, SECOND].map((text) => readYaml(text, "test.yaml").value);

/** Whether it is accepted. */
function checkReading(document: unknown): boolean {
  const { playbook, problems } = readNoetlPlaybook(document, TEST_CONTEXT);
  for (const { code, path, offset, message } of problems) {
    const isPath = path.every((part) => typeof part === "string" || typeof part === "number");
    const isOffset = offset === null || (Number.isInteger(offset) && offset >= 0);
    const isText = message.length <= 1_000 && !message.includes("\n");
    if (!PROBLEM_CODES.includes(code) || !isPath || !isOffset || !isText)
      expect({ code, path, offset, message }).toBe("well-formed");
  }
  const isRefused = problems.some(({ severity }) => severity === "error");
  if ((playbook === null) !== isRefused) expect(problems).toBe("errors exactly if there is no playbook");
  if (playbook === null) return false;
  if (!graphOf(playbook).reachable.has(playbook.entry)) expect(playbook).toBe("one with an entry");
  expect(JSON.parse(JSON.stringify(playbook))).toEqual(playbook);
  return true;
}

it("accepts both as they are", () => {
  expect(documents.map(checkReading)).toEqual([true, true]);
});

it("20,000 changed playbooks are read or refused", { timeout: 600_000 }, () => {
  for (let i = 0; i < 20_000; i++) checkReading(mutated(documents[i % documents.length], SEED * 1_000_003 + i));
});
