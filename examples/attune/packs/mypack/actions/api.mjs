// Calls a service that refuses its first calls. It is simulated here, so that the example needs no network.
import { readFileSync, writeFileSync } from "node:fs";

const { url, failures } = JSON.parse(readFileSync(0, "utf8"));
const attempt = Number(process.env.PERDURE_ATTEMPT);

if (attempt <= failures) {
  console.error(`connect to ${new URL(url).host}: connection refused`);
  process.exit(1);
}
console.log(`${url} answered, attempt ${attempt}`);
writeFileSync(process.env.PERDURE_RESULT_FILE, JSON.stringify({ status: "completed", output: { url, price: 42 } }));
