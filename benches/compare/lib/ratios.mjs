// The programs of oracles/programs, timed on the engines here and on their references, and the section of
// docs/performance.md about their ratios, from ratios.json and reasons.json.
import { existsSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { readCases } from "../../../oracles/lib/cases.mjs";
import { start, time } from "./measure.mjs";

const cases = new URL("../../../oracles/programs/", import.meta.url);
const ratiosFile = new URL("../ratios.json", import.meta.url);
const reasonsFile = new URL("../reasons.json", import.meta.url);
const LIMIT = 2; // a greater ratio needs a reason
const AGAIN = 3; // times as many rounds for programs beyond the limit, which are measured again

/** Which peers are compared. */
const PAIRS = [
  { label: "QuickJS", ours: "execbox", theirs: "quickjs-emscripten" },
  { label: "V8", ours: "execbox-v8", theirs: "node-vm" },
];
export const compared = PAIRS.flatMap(({ ours, theirs }) => [ours, theirs]);

const programs = () =>
  readdirSync(cases).filter((file) => file.endsWith(".cases")).sort().flatMap((file) => readCases(new URL(file, cases).pathname));
const recorded = () => (existsSync(ratiosFile) ? JSON.parse(readFileSync(ratiosFile, "utf8")) : undefined);

/** Times the programs whose name contains `only`. Returns the medians in ms by program and peer, and the versions of the peers. */
export async function measureRatios(subjects, rows, { rounds, only = "", report }) {
  const chosen = programs().filter(({ name }) => name.includes(only));
  const hosts = await start(subjects, rows, { report });
  const medians = (name) => hosts.running.map(({ peer }) => [peer.name, rows[peer.name].work[name].median ?? null]);
  const programsOf = async (list, rounds) => {
    await time(hosts, rows, list.map(({ name, source }) => ({ name, sourceIn: () => source })), { rounds, report });
    return Object.fromEntries(list.map(({ name }) => [name, Object.fromEntries(medians(name))]));
  };
  const measured = await programsOf(chosen, rounds);
  const slow = new Set(beyond({ programs: measured }).map(([name]) => name));
  Object.assign(measured, await programsOf(chosen.filter(({ name }) => slow.has(name)), AGAIN * rounds));
  hosts.stop();
  return { peers: Object.fromEntries(hosts.running.map(({ peer }) => [peer.name, rows[peer.name].version])), programs: measured };
}

export const record = (ratios) => writeFileSync(ratiosFile, `${JSON.stringify(ratios, null, 1)}\n`);

/** The ratios of each program: `[{ name, label, ratio }]`. */
const ratiosOf = ({ programs }) => Object.entries(programs).flatMap(([name, row]) =>
  PAIRS.filter(({ ours, theirs }) => row[ours] && row[theirs]).map(({ label, ours, theirs }) => ({ name, label, ratio: row[ours] / row[theirs] })));

/** The programs beyond the limit, the worst first: `[name, ratios]`. */
function beyond(ratios) {
  const found = ratiosOf(ratios).filter(({ ratio }) => ratio > LIMIT).sort((a, b) => b.ratio - a.ratio);
  return [...new Set(found.map(({ name }) => name))].map((name) => [name, found.filter((each) => each.name === name)]);
}

/** What is wrong with the files: programs without a row, rows without a program, missing and superfluous reasons. */
export function problems() {
  const ratios = recorded();
  if (!ratios) return ["there is no ratios.json"];
  const reasons = readReasons();
  const names = new Set(programs().map(({ name }) => name));
  const slow = new Map(beyond(ratios));
  return [
    ...[...names].filter((name) => !(name in ratios.programs)).map((name) => `${name}: not in ratios.json`),
    ...Object.keys(ratios.programs).filter((name) => !names.has(name)).map((name) => `${name}: in ratios.json, and no such program`),
    ...Object.entries(ratios.programs).flatMap(([name, row]) => Object.keys(row).filter((peer) => row[peer] === null).map((peer) => `${name}: failed on ${peer}`)),
    ...[...slow].filter(([name]) => !(name in reasons)).map(([name, list]) => `${name}: ${show(list)}, without a reason in reasons.json`),
    ...Object.keys(reasons).filter((name) => !slow.has(name)).map((name) => `${name}: not beyond ${LIMIT} ×: remove its reason from reasons.json`),
  ];
}

const readReasons = () => JSON.parse(readFileSync(reasonsFile, "utf8"));
const show = (list) => list.map(({ label, ratio }) => `${label} ${ratio.toFixed(2)} ×`).join(", ");

/** The section of the page; empty if nothing is recorded. */
export function section(ratios = recorded()) {
  if (!ratios) return "";
  const { machine, versions, date, rounds, peers } = ratios;
  const all = ratiosOf(ratios);
  const reasons = readReasons();
  const kinds = [...new Set(all.map(({ name }) => name.split("/")[0]))];
  const line = (title, prefix) => {
    const cells = PAIRS.flatMap(({ label }) => {
      const list = all.filter((each) => each.label === label && each.name.startsWith(prefix)).map(({ ratio }) => ratio).sort((a, b) => a - b);
      return list.length ? [list[list.length >> 1], list.at(-1)].map((ratio) => ratio.toFixed(2)) : ["–", "–"];
    });
    return `| ${[title, Object.keys(ratios.programs).filter((name) => name.startsWith(prefix)).length, ...cells].join(" | ")} |`;
  };
  const slow = beyond(ratios).map(([name, list]) => `- ${name}: ${show(list)}: ${reasons[name] ?? "no reason is recorded"}`);
  return `## Ordinary programs

How much longer the programs of [\`oracles/programs\`](https://github.com/execbox/execbox/tree/main/oracles/programs) take here than elsewhere, as \`benches/compare/run --ratios\` measured it: medians of
${rounds} rounds that alternate, each program in a fresh sandbox whose start is included, on ${machine.cpu}, ${machine.cores} cores, with Execbox ${peers.execbox}, quickjs-emscripten ${peers["quickjs-emscripten"]} and node ${versions.node} (node:vm), on ${date}.

|  | programs | QuickJS ÷ quickjs-emscripten: median | worst | V8 ÷ node: median | worst |
| --- | --: | --: | --: | --: | --: |
${kinds.map((kind) => line(kind, `${kind}/`)).join("\n")}
${line("**all**", "")}

Beyond ${LIMIT} ×: ${slow.length ? `\n\n${slow.join("\n")}` : "none."}`;
}
