/** Logs and the progress of calls, streamed while a program runs. The application can end it, and keeps what it wrote. */

import { setTimeout as sleep } from "node:timers/promises";

import { Executor } from "execbox";

const PROGRAM = `
for (let page = 1; ; page++) {
  const { found } = await crawler.fetchPage({ page });
  console.log(\`page \${page}:\`, found, "links");
}
`;

async function fetchPage({ page }, call) {
  // A page that does not answer: the call is cancelled with the program.
  if (page > 3) await sleep(3_600_000, undefined, { signal: call.signal });
  for (const done of [1, 2]) {
    await sleep(10);
    call.reportProgress(done, 2, "parts");
  }
  return { found: 10 * page };
}

const box = new Executor();
const execution = box.run(PROGRAM, {
  tools: { crawler: { fetchPage } },
  timeout: 60_000,
  events: ["log", "call_progress"],
});
for await (const event of execution) {
  if (event.type === "call_progress") {
    console.log(`  call ${event.call}: ${event.done} of ${event.total} ${event.message}`);
  } else if (event.type === "log") {
    console.log(`${event.level}: ${event.text}`);
    if (event.text.includes("page 3")) execution.terminate("three pages are enough");
  }
}
const result = await execution;
console.log(String(result.error));
console.log("kept:", result.logs);
