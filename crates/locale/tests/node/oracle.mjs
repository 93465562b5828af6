// Compares random requests with the Intl of node: `node oracle.mjs LINES [COUNT] [SEED]`, where LINES is the built example `lines`.
// node must have the ICU of the tables (`process.versions.cldr`). Prints the number of differences by kind, with examples.
import { intl, start } from "./native.mjs";

const [lines, count = "20000", seed = "1", shown = "3"] = process.argv.slice(2);
const { call, stop } = start(lines);
const ours = intl(call);
const LOCALES = ["en-US", "en-US", "en", "en-GB", "en-CA", "en-AU", "en-IN", "de-DE", "fr-FR", "es-ES", "sv-SE"];
const UNITS = Intl.supportedValuesOf("unit");
const ZONES = [...Intl.supportedValuesOf("timeZone"), "UTC", "+05:30", "-03:00", "US/Pacific", "Asia/Kolkata", "utc", "America/new_york"];
const CURRENCIES = ["USD", "EUR", "GBP", "JPY", "CAD", "AUD", "INR", "CHF", "KWD", "SEK", "BRL", "MXN", "CNY", "KRW", "ZAR", "XXX", "PLN", "TWD", "CLF"];

let state = Number(seed) >>> 0;
const random = () => {
  state = (state + 0x6d2b79f5) >>> 0;
  let value = Math.imul(state ^ (state >>> 15), state | 1);
  value ^= value + Math.imul(value ^ (value >>> 7), value | 61);
  return ((value ^ (value >>> 14)) >>> 0) / 2 ** 32;
};
const pick = (list) => list[Math.floor(random() * list.length)];
const maybe = (chance, options, name, values) => {
  if (random() < chance) options[name] = pick(values);
};

const digits = ["numeric", "2-digit"];
const widths = ["long", "short", "narrow"];

function time() {
  const kind = random();
  if (kind < 0.7) return Math.floor((random() * 100 - 20) * 365.25 * 864e5);
  if (kind < 0.9) return Math.floor((random() * 400 - 300) * 365.25 * 864e5);
  return Math.floor((random() * 2 - 1) * 8.64e15);
}

function dateOptions() {
  const options = {};
  if (random() < 0.2) {
    maybe(0.7, options, "dateStyle", ["full", "long", "medium", "short"]);
    maybe(0.7, options, "timeStyle", ["full", "long", "medium", "short"]);
  } else {
    const dense = pick([0.15, 0.4, 0.7]);
    maybe(dense, options, "weekday", widths);
    maybe(dense / 4, options, "era", widths);
    maybe(dense, options, "year", digits);
    maybe(dense, options, "month", [...digits, ...widths]);
    maybe(dense, options, "day", digits);
    maybe(dense / 4, options, "dayPeriod", widths);
    maybe(dense, options, "hour", digits);
    maybe(dense, options, "minute", digits);
    maybe(dense, options, "second", digits);
    maybe(dense / 4, options, "fractionalSecondDigits", [1, 2, 3]);
    maybe(dense / 3, options, "timeZoneName", ["short", "long", "shortOffset", "longOffset", "shortGeneric", "longGeneric"]);
  }
  maybe(0.2, options, "hour12", [true, false]);
  maybe(0.1, options, "hourCycle", ["h11", "h12", "h23", "h24"]);
  maybe(0.6, options, "timeZone", ZONES);
  return options;
}

function number() {
  return pick([
    () => (random() - 0.3) * 10 ** Math.floor(random() * 24 - 8),
    () => Math.floor(random() * 2000) - 500,
    () => Math.round(random() * 1e6) / 100,
    () => pick([0, -0, 1, NaN, Infinity, -Infinity, 0.5, 1.5, 2.5, -0.4, 1.005, 999999, 999.95, 1e21, 1e-10, 5e-324, 1e6, -1e3]),
    () => BigInt(Math.floor(random() * 2 ** 53)) * BigInt(Math.floor(random() * 2 ** 53)) * pick([1n, -1n]),
  ])();
}

function numberOptions() {
  const options = {};
  options.style = pick(["decimal", "decimal", "percent", "currency", "currency", "unit"]);
  if (options.style === "currency") {
    options.currency = pick(CURRENCIES);
    maybe(0.5, options, "currencyDisplay", ["symbol", "narrowSymbol", "code", "name"]);
    maybe(0.3, options, "currencySign", ["standard", "accounting"]);
  }
  if (options.style === "unit") {
    options.unit = random() < 0.7 ? pick(UNITS) : `${pick(UNITS)}-per-${pick(UNITS)}`;
    maybe(0.7, options, "unitDisplay", widths);
  }
  if (random() < 0.4) {
    options.notation = pick(["standard", "scientific", "engineering", "compact"]);
    maybe(0.5, options, "compactDisplay", ["short", "long"]);
  }
  maybe(0.2, options, "signDisplay", ["auto", "never", "always", "exceptZero", "negative"]);
  maybe(0.2, options, "useGrouping", [true, false, "always", "auto", "min2"]);
  maybe(0.1, options, "minimumIntegerDigits", [1, 2, 5]);
  maybe(0.2, options, "minimumFractionDigits", [0, 1, 2, 4]);
  maybe(0.2, options, "maximumFractionDigits", [0, 1, 2, 4, 10]);
  maybe(0.1, options, "minimumSignificantDigits", [1, 2, 4]);
  maybe(0.1, options, "maximumSignificantDigits", [1, 2, 4, 15]);
  maybe(0.1, options, "roundingMode", ["ceil", "floor", "expand", "trunc", "halfCeil", "halfFloor", "halfExpand", "halfTrunc", "halfEven"]);
  maybe(0.05, options, "roundingPriority", ["auto", "morePrecision", "lessPrecision"]);
  maybe(0.05, options, "trailingZeroDisplay", ["auto", "stripIfInteger"]);
  if (random() < 0.05) {
    options.roundingIncrement = pick([1, 2, 5, 10, 25, 50, 100]);
    options.minimumFractionDigits = options.maximumFractionDigits = pick([0, 2, 3]);
  }
  return options;
}

const LETTERS = [..."aAbBzZäÄåöéèeEñnoOßsS012 9-_.'’!?@()æœøłŁíì日本語あア€$🎉\u0301"];
const text = () => Array.from({ length: Math.floor(random() * 6) }, () => pick(LETTERS)).join("");

const kinds = {
  date() {
    const [locale, options, at] = [pick(LOCALES), dateOptions(), time()];
    return { input: [locale, options, at], run: (api) => new api.DateTimeFormat(locale, options).format(at) };
  },
  dateParts() {
    const [locale, options, at] = [pick(LOCALES), dateOptions(), time()];
    return { input: [locale, options, at], run: (api) => new api.DateTimeFormat(locale, options).formatToParts(at) };
  },
  dateResolved() {
    const [locale, options] = [pick(LOCALES), dateOptions()];
    return { input: [locale, options], run: (api) => new api.DateTimeFormat(locale, options).resolvedOptions() };
  },
  dateRange() {
    const [locale, options, at] = [pick(LOCALES), dateOptions(), time()];
    const end = at + Math.floor(random() * 10 ** Math.floor(random() * 13));
    return { input: [locale, options, at, end], run: (api) => new api.DateTimeFormat(locale, options).formatRange(at, end) };
  },
  zoneName() {
    const options = { timeZone: pick(ZONES), timeZoneName: pick(["short", "long", "shortGeneric", "longGeneric", "longOffset"]), hour: "numeric", minute: "numeric" };
    const [locale, at] = [pick(LOCALES), time()];
    return { input: [locale, options, at], run: (api) => new api.DateTimeFormat(locale, options).format(at) };
  },
  number() {
    const [locale, options, value] = [pick(LOCALES), numberOptions(), number()];
    return { input: [locale, options, value], run: (api) => new api.NumberFormat(locale, options).format(value) };
  },
  numberParts() {
    const [locale, options, value] = [pick(LOCALES), numberOptions(), number()];
    return { input: [locale, options, value], run: (api) => new api.NumberFormat(locale, options).formatToParts(value) };
  },
  numberResolved() {
    const [locale, options] = [pick(LOCALES), numberOptions()];
    return { input: [locale, options], run: (api) => new api.NumberFormat(locale, options).resolvedOptions() };
  },
  plural() {
    const [locale, options, value] = [pick(LOCALES), { type: pick(["cardinal", "ordinal"]) }, number()];
    return { input: [locale, options, value], run: (api) => new api.PluralRules(locale, options).select(Number(value)) };
  },
  relative() {
    const locale = pick(LOCALES);
    const options = { numeric: pick(["auto", "always"]), style: pick(widths) };
    const [value, unit] = [pick([-1, 0, 1, -2, 2, -0, 3.5, 1000, 12345]), pick(["second", "minutes", "hour", "day", "week", "months", "quarter", "year"])];
    return { input: [locale, options, value, unit], run: (api) => new api.RelativeTimeFormat(locale, options).formatToParts(value, unit) };
  },
  list() {
    const [locale, options] = [pick(LOCALES), { type: pick(["conjunction", "disjunction", "unit"]), style: pick(widths) }];
    const values = Array.from({ length: Math.floor(random() * 5) }, () => pick(["a", "b", "isla", "hielo", "otro", "8", "11"]));
    return { input: [locale, options, values], run: (api) => new api.ListFormat(locale, options).formatToParts(values) };
  },
  compare() {
    const [locale, options, left, right] = [pick(LOCALES), {}, text(), text()];
    maybe(0.3, options, "sensitivity", ["base", "accent", "case", "variant"]);
    maybe(0.3, options, "numeric", [true, false]);
    maybe(0.2, options, "caseFirst", ["upper", "lower", "false"]);
    maybe(0.2, options, "ignorePunctuation", [true, false]);
    return { input: [locale, options, left, right], run: (api) => new api.Collator(locale, options).compare(left, right) };
  },
};

const outcome = (run, api) => {
  try {
    return JSON.stringify(run(api));
  } catch (error) {
    return `${error.name}: ${error.message}`;
  }
};

const totals = {};
for (let index = 0; index < Number(count); index += 1) {
  const kind = pick(Object.keys(kinds));
  const { input, run } = kinds[kind]();
  const [expected, found] = [outcome(run, Intl), outcome(run, ours.Intl)];
  const total = (totals[kind] ??= { requests: 0, unavailable: 0, differences: 0 });
  total.requests += 1;
  if (expected === found) continue;
  if (/is not available in this engine/.test(found)) {
    total.unavailable += 1;
    continue;
  }
  total.differences += 1;
  if (total.differences <= Number(shown)) {
    const shownInput = JSON.stringify(input, (_, value) => (typeof value === "bigint" ? `${value}n` : Object.is(value, -0) ? "-0" : value));
    console.log(`${kind} ${shownInput}\n  expected ${expected}\n  found    ${found}`);
  }
}
console.table(totals);
stop();
process.exitCode = Object.values(totals).some((total) => total.differences > 0) ? 1 : 0;
