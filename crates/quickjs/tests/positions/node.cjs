// Writes into the cases beside it where node (20 or later) places each error: `node node.cjs`. A difference of the
// column is kept in `ours`, by hand; one of the line is none that may be.
const fs = require("fs");
const vm = require("vm");

const place = async (code) => {
  try {
    const script = `(async () => {\n${code}\n})`;
    await new vm.Script(script, { filename: "<script>", lineOffset: -1 }).runInThisContext()();
  } catch (error) {
    if (!(error instanceof Error)) return "none";
    if (error instanceof SyntaxError && /^(await )?using /m.test(code)) return "none"; // newer than node 20
    const early = /^<script>:(\d+)\n.*\n( *)\^/.exec(error.stack);
    if (early) return `${early[1]}:${early[2].length + 1}`;
    return /<script>:(\d+:\d+)\)?$/m.exec(error.stack.replace(String(error), ""))?.[1] ?? "none";
  }
  return "none";
};

(async () => {
  process.on("unhandledRejection", () => {});
  const file = `${__dirname}/errors.cases`;
  const [head, ...cases] = fs.readFileSync(file, "utf8").split(/^=== /m);
  let text = head;
  for (const one of cases) {
    const [, name, ours, code] = /^(.*)\n(?:node: .*\n)?(ours: .*\n)?(?:---\n)?([^]*)$/.exec(one);
    text += `=== ${name}\nnode: ${await place(code.trimEnd().replace("\\u2028", "\u2028"))}\n${ours ?? ""}---\n${code}`;
  }
  fs.writeFileSync(file, text);
})();
