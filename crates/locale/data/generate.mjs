// Writes the tables of this folder from the packages of CLDR: `node generate.mjs FOLDER` with node 26, where FOLDER has
// cldr-bcp47, cldr-core, cldr-dates-full, cldr-localenames-full, cldr-misc-full, cldr-numbers-full and cldr-units-full of npm,
// unpacked, in version 48.2.0, which is what node's ICU 78.3 has. A table is a list of lines `key=value` in the order of their bytes. The table of a locale other than
// `en` has only the lines that differ from those of `en`; an empty value removes a line.
import { readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const LOCALES = ["en", "en-GB", "en-CA", "en-AU", "en-IN", "de", "fr", "es", "sv"];
const UNITS = `acre bit byte celsius centimeter day degree fahrenheit fluid-ounce foot gallon gigabit gigabyte gram hectare hour inch
  kilobit kilobyte kilogram kilometer liter megabit megabyte meter microsecond mile mile-scandinavian milliliter millimeter millisecond
  minute month nanosecond ounce percent petabyte pound second stone terabit terabyte week yard year`.split(/\s+/);
const RELATIVE = ["year", "quarter", "month", "week", "day", "hour", "minute", "second"];
const STYLES = ["full", "long", "medium", "short"];
const WIDTHS = ["wide", "abbreviated", "narrow"];

const folder = process.argv[2];
const output = dirname(fileURLToPath(import.meta.url));
const read = (...path) => JSON.parse(readFileSync(join(folder, ...path), "utf8"));
const supplemental = (name) => read("cldr-core/supplemental", `${name}.json`).supplemental;
const main = (pack, locale, file) => read(pack, "main", locale, `${file}.json`).main[locale];
// V8 writes a plain space where CLDR has a narrow one in times.
const plain = (text) => text.replaceAll("\u202f", " ");

const { metaZones } = supplemental("metaZones");
const { primaryZones } = supplemental("primaryZones");

function dates(locale, put) {
  const calendar = main("cldr-dates-full", locale, "ca-gregorian").dates.calendars.gregorian;
  for (const style of STYLES) {
    put(`date.${style}`, plain(calendar.dateFormats[style]));
    put(`time.${style}`, plain(calendar.timeFormats[style]));
    put(`glue.${style}`, plain(calendar["dateTimeFormats-atTime"].standard[style]));
    put(`join.${style}`, plain(calendar.dateTimeFormats[style]));
  }
  const { availableFormats, appendItems, intervalFormats } = calendar.dateTimeFormats;
  for (const [skeleton, pattern] of Object.entries(availableFormats)) {
    // ICU has another pattern of the root for the hour and the zone.
    if (!/-|W|w|Q/.test(skeleton)) put(`skeleton.${skeleton}`, pattern === "HH'h' v" ? "HH v" : plain(pattern));
  }
  // ICU looks at the patterns of the locale before those of its parent, and takes the first of those that are equally near.
  const { parentLocale } = supplemental("parentLocales").parentLocales;
  if (parentLocale[locale] === "en-001") {
    const parent = main("cldr-dates-full", "en-001", "ca-gregorian").dates.calendars.gregorian.dateTimeFormats.availableFormats;
    const own = Object.keys(availableFormats).filter((key) => !/-|W|w|Q/.test(key) && availableFormats[key] !== parent[key]);
    put("skeletons", own.join("|"));
  }
  for (const [field, pattern] of Object.entries(appendItems)) put(`append.${field}`, plain(pattern));
  put("interval", plain(intervalFormats.intervalFormatFallback));
  for (const [skeleton, patterns] of Object.entries(intervalFormats)) {
    if (typeof patterns === "string" || /-|W|w|Q/.test(skeleton)) continue;
    for (const [field, pattern] of Object.entries(patterns)) {
      if (!/-/.test(field)) put(`interval.${skeleton}.${field}`, plain(pattern));
    }
  }
  for (const context of ["format", "stand-alone"]) {
    for (const width of WIDTHS) {
      put(`month.${context}.${width}`, Object.values(calendar.months[context][width]).join("|"));
      put(`day.${context}.${width}`, Object.values(calendar.days[context][width]).join("|"));
      for (const [period, name] of Object.entries(calendar.dayPeriods[context][width])) {
        if (!/-/.test(period)) put(`period.${context}.${width}.${period}`, plain(name));
      }
    }
  }
  for (const [width, key] of [["wide", "eraNames"], ["abbreviated", "eraAbbr"], ["narrow", "eraNarrow"]]) {
    put(`era.${width}`, `${calendar.eras[key][0]}|${calendar.eras[key][1]}`);
  }
  const rules = supplemental("dayPeriods").dayPeriodRuleSet[locale.split("-")[0]];
  put("periods", Object.entries(rules).filter(([name]) => !/am|pm/.test(name)).map(([name, rule]) => {
    const at = (text) => parseInt(text, 10);
    return rule._at ? `${name} ${at(rule._at)} ${at(rule._at)}` : `${name} ${at(rule._from)} ${at(rule._before)}`;
  }).join("|"));
  const { fields } = main("cldr-dates-full", locale, "dateFields").dates;
  for (const [field, name] of Object.entries({ Era: "era", Year: "year", "Day-Of-Week": "weekday", DayPeriod: "dayperiod", Timezone: "zone", Day: "day", Hour: "hour", Minute: "minute", Month: "month", Second: "second" })) {
    put(`field.${field}`, fields[name].displayName);
  }
  relative(fields, put);
}

function relative(fields, put) {
  for (const unit of RELATIVE) {
    for (const style of ["", "-short", "-narrow"]) {
      const field = fields[unit + style];
      const key = `relative.${unit}.${style.slice(1) || "long"}`;
      for (const [name, text] of Object.entries(field)) {
        const offset = /^relative-type-(-?\d+)$/.exec(name);
        if (offset) put(`${key}.${offset[1]}`, text);
      }
      for (const direction of ["future", "past"]) {
        for (const [name, text] of Object.entries(field[`relativeTime-type-${direction}`])) {
          put(`${key}.${direction}.${name.replace("relativeTimePattern-count-", "")}`, text);
        }
      }
    }
  }
}

function zones(locale, put) {
  const names = main("cldr-dates-full", locale, "timeZoneNames").dates.timeZoneNames;
  put("zone.hour", names.hourFormat);
  put("zone.gmt", names.gmtFormat);
  put("zone.zero", names.gmtZeroFormat);
  put("zone.region", names.regionFormat);
  put("zone.fallback", names.fallbackFormat);
  const leaves = (path, node) => {
    if (node._type === "zone") {
      if (node.exemplarCity) put(`city.${path}`, node.exemplarCity);
      texts(`zone.${path}`, node);
    } else {
      for (const [key, child] of Object.entries(node)) leaves(path ? `${path}/${key}` : key, child);
    }
  };
  const texts = (key, node) => {
    for (const width of ["long", "short"]) {
      for (const [kind, text] of Object.entries(node[width] ?? {})) put(`${key}.${width}.${kind}`, text);
    }
  };
  leaves("", names.zone);
  for (const [name, node] of Object.entries(names.metazone)) texts(`metazone.${name}`, node);
  const territories = main("cldr-localenames-full", locale, "territories").localeDisplayNames.territories;
  const wanted = new Set(zoneTerritories().map(([, territory]) => territory));
  for (const territory of [...wanted].sort()) put(`territory.${territory}`, territories[territory]);
}

function numbers(locale, put) {
  const data = main("cldr-numbers-full", locale, "numbers").numbers;
  const latin = (name) => data[`${name}-numberSystem-latn`];
  put("number.grouping", data.minimumGroupingDigits);
  const symbols = latin("symbols");
  for (const name of ["decimal", "group", "percentSign", "plusSign", "minusSign", "exponential", "infinity", "nan"]) {
    put(`symbol.${name}`, symbols[name]);
  }
  put("symbol.approximately", symbols.approximatelySign);
  put("number.decimal", latin("decimalFormats").standard);
  put("number.percent", latin("percentFormats").standard);
  put("number.range", latin("miscPatterns").range);
  const currency = latin("currencyFormats");
  put("number.standard", currency.standard);
  put("number.accounting", currency.accounting);
  put("number.space", currency.currencySpacing.beforeCurrency.insertBetween);
  for (const length of ["short", "long"]) {
    compact(`compact.${length}`, latin("decimalFormats")[length].decimalFormat, put);
  }
  compact("compact.currency", currency.short.standard, put);
  for (const [name, text] of Object.entries(currency)) {
    const count = /^unitPattern-count-(\w+)$/.exec(name);
    if (count) put(`currency.pattern.${count[1]}`, text);
  }
  const { currencies } = main("cldr-numbers-full", locale, "currencies").numbers;
  for (const [code, entry] of Object.entries(currencies)) {
    if (entry.symbol && entry.symbol !== code) put(`currency.symbol.${code}`, entry.symbol);
    if (entry["symbol-alt-narrow"]) put(`currency.narrow.${code}`, entry["symbol-alt-narrow"]);
    for (const [name, text] of Object.entries(entry)) {
      const count = /^displayName-count-(\w+)$/.exec(name);
      if (count) put(`currency.name.${code}.${count[1]}`, text);
      if (name === "displayName") put(`currency.title.${code}`, text);
    }
  }
}

function compact(key, patterns, put) {
  for (const [name, pattern] of Object.entries(patterns)) {
    const parts = /^(1(0+))-count-(\w+)$/.exec(name);
    if (parts) put(`${key}.${parts[2].length}.${parts[3]}`, pattern);
  }
}

function units(locale, put) {
  const data = main("cldr-units-full", locale, "units").units;
  for (const width of ["long", "short", "narrow"]) {
    const all = Object.fromEntries(Object.entries(data[width]).map(([name, entry]) => [name.replace(/^[a-z]+-/, ""), entry]));
    put(`unit.${width}.per`, data[width].per.compoundUnitPattern);
    for (const name of [...UNITS, "kilometer-per-hour", "meter-per-second", "mile-per-gallon", "mile-per-hour", "liter-per-kilometer"]) {
      const entry = all[name] ?? {};
      if (entry.perUnitPattern) put(`unit.${width}.${name}.per`, entry.perUnitPattern);
      for (const [key, text] of Object.entries(entry)) {
        const count = /^unitPattern-count-(\w+)$/.exec(key);
        if (count) put(`unit.${width}.${name}.${count[1]}`, text);
      }
    }
  }
}

function plurals(locale, put) {
  const language = locale.split("-")[0];
  for (const [kind, file, key] of [["cardinal", "plurals", "plurals-type-cardinal"], ["ordinal", "ordinals", "plurals-type-ordinal"]]) {
    for (const [name, rule] of Object.entries(supplemental(file)[key][language])) {
      put(`plural.${kind}.${name.replace("pluralRule-count-", "")}`, rule.replace(/\s*@.*/, ""));
    }
  }
}

function lists(locale, put) {
  const { listPatterns } = main("cldr-misc-full", locale, "listPatterns");
  for (const [name, patterns] of Object.entries(listPatterns)) {
    const [, type, width] = /^listPattern-type-(standard|or|unit)(?:-(short|narrow))?$/.exec(name);
    for (const [place, text] of Object.entries(patterns)) put(`list.${type}.${width ?? "long"}.${place}`, text);
  }
}

function table(locale) {
  const lines = new Map();
  const put = (key, value) => {
    if (value === undefined || /\n/.test(value) || /=/.test(key)) throw new Error(`${locale}: ${key} is ${value}`);
    lines.set(key, value);
  };
  for (const part of [dates, zones, numbers, units, plurals, lists]) part(locale, put);
  return lines;
}

function write(name, lines) {
  const sorted = [...lines].map(([key, value]) => `${key}=${value}\n`)
    .sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
  writeFileSync(join(output, `${name}.txt`), sorted.join(""));
}

function writeLocales() {
  const english = table("en");
  write("en", english);
  for (const locale of LOCALES.slice(1)) {
    const lines = table(locale);
    const different = new Map([...lines].filter(([key, value]) => english.get(key) !== value));
    for (const key of english.keys()) if (!lines.has(key)) different.set(key, "");
    write(locale, different);
  }
}

// The canonical names of time zones, each with its territory and its other names.
function zoneTerritories() {
  const zones = [];
  for (const [id, zone] of Object.entries(read("cldr-bcp47/bcp47/timezone.json").keyword.u.tz)) {
    if (!zone._alias || id.startsWith("_") || zone._deprecated) continue;
    const names = zone._alias.split(" ");
    const territory = zone._region ?? (/^[a-z]{5}$/.test(id) ? id.slice(0, 2).toUpperCase() : "001");
    zones.push([names[0], /^Etc\//.test(names[0]) ? "001" : territory, names]);
  }
  return zones;
}

// The languages that node has, by all their codes.
function languages() {
  const letters = [..."abcdefghijklmnopqrstuvwxyz"];
  const two = letters.flatMap((first) => letters.map((second) => first + second));
  const all = [...two, ...two.flatMap((start) => letters.map((third) => start + third))];
  return all.filter((language) => Intl.NumberFormat.supportedLocalesOf(language).length > 0).sort();
}

// What holds for all locales: the digits of currencies, the spans of metazones, the territories and other names of time zones.
function writeCommon() {
  const lines = new Map();
  const digits = supplemental("currencyData").currencyData.fractions;
  for (const [code, { _digits }] of Object.entries(digits)) if (code !== "DEFAULT" && _digits !== "2") lines.set(`digits.${code}`, _digits);
  const spans = (path, node) => {
    if (Array.isArray(node)) {
      lines.set(`metazone.${path}`, node.map(({ usesMetazone: { _mzone, _from = "", _to = "" } }) => `${_mzone},${_from},${_to}`).join("|"));
    } else {
      for (const [key, child] of Object.entries(node)) spans(path ? `${path}/${key}` : key, child);
    }
  };
  spans("", metaZones.metazoneInfo.timezone);
  // Morocco left its own time in 2026, which ICU knows and this version of the packages does not.
  for (const zone of ["Africa/Casablanca", "Africa/El_Aaiun"]) {
    lines.set(`metazone.${zone}`, `${lines.get(`metazone.${zone}`)}|Europe_Western,2026-09-20 01:00,`);
  }
  for (const { mapZone } of metaZones.metazones) {
    if (mapZone._territory === "001") lines.set(`golden.${mapZone._other}`, mapZone._type);
    else lines.set(`golden.${mapZone._other}.${mapZone._territory}`, mapZone._type);
  }
  const count = new Map();
  for (const [, territory] of zoneTerritories()) count.set(territory, (count.get(territory) ?? 0) + 1);
  for (const [zone, territory, names] of zoneTerritories()) {
    for (const name of names) lines.set(`zone.${name.toLowerCase()}`, zone);
    const primary = count.get(territory) === 1 || primaryZones[territory] === zone;
    lines.set(`territory.${zone}`, primary ? territory : `${territory}*`);
  }
  lines.set("currencies", Intl.supportedValuesOf("currency").join("|"));
  lines.set("languages", languages().join("|"));
  lines.set("timezones", Intl.supportedValuesOf("timeZone").join("|"));
  write("common", lines);
}

writeLocales();
writeCommon();
