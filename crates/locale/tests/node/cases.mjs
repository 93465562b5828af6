// Checks the results of `*.cases` with the Intl of node: `node cases.mjs [--update]`. With `--update`, writes what node returns.
import { readdirSync, readFileSync, writeFileSync } from "node:fs";

const folder = new URL("../", import.meta.url);
const update = process.argv.includes("--update");

const numberOptions = ({ useGrouping, roundingType, ...options }) => (
  useGrouping === "never" ? { ...options, useGrouping: false } : { ...options, ...(useGrouping && { useGrouping }) }
);
const flat = (parts) => parts.flatMap(({ type, value }) => [type, value]);
const functions = {
  number: (locale, options, value) => new Intl.NumberFormat(locale, numberOptions(options)).format(value),
  numberParts: (locale, options, value) => flat(new Intl.NumberFormat(locale, numberOptions(options)).formatToParts(value)),
  date: (locale, options, timeZone, time) => new Intl.DateTimeFormat(locale, { ...options, timeZone }).format(time),
  dateParts: (locale, options, timeZone, time) => flat(new Intl.DateTimeFormat(locale, { ...options, timeZone }).formatToParts(time)),
  zone: (timeZone) => new Intl.DateTimeFormat("en", { timeZone }).resolvedOptions().timeZone,
  compare: (locale, options, left, right) => new Intl.Collator(locale, options).compare(left, right),
  plural: (locale, type, options, value) => new Intl.PluralRules(locale, { ...numberOptions(options), type }).select(Number(value)),
};

const result = ([name, ...values]) => {
  try {
    return `result: ${JSON.stringify(functions[name](...values))}`;
  } catch (error) {
    return `error: ${error.message}`;
  }
};

let wrong = 0;
for (const name of readdirSync(folder).filter((file) => file.endsWith(".cases"))) {
  const text = readFileSync(new URL(name, folder), "utf8");
  const checked = text.replace(/^call: (.*)\n(?:(?:result|error): .*\n)?/gm, (block, call) => {
    const expected = `call: ${call}\n${result(JSON.parse(call))}\n`;
    if (block !== expected && !update) {
      wrong += 1;
      console.log(`${name}: expected\n${expected}found\n${block}`);
    }
    return expected;
  });
  if (update) writeFileSync(new URL(name, folder), checked);
}
process.exitCode = wrong > 0 ? 1 : 0;
