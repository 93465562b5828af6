// The objects of ECMA-402. `compareKnown(left, right)` compares texts by the default options of a collator, or returns undefined if that
// needs more knowledge. `locale` is the native function that reaches `call`: strings, numbers, arrays and objects go in,
// a value comes back, and what fails is a RangeError. Nothing here reads what a program may have changed.
(locale, compareKnown) => {
  "use strict";

  const {
    Array, BigInt, Boolean, Date, Function, Map, Math, Number, Object, RangeError, Reflect, RegExp, String, Symbol, TypeError, WeakMap,
  } = globalThis;
  const { apply, construct, ownKeys } = Reflect;
  const { create, defineProperty, freeze, getOwnPropertyDescriptor, is } = Object;
  const uncurry = (method) => (receiver, ...values) => apply(method, receiver, values);
  const { floor, min, max, trunc } = Math;
  const { isFinite, isNaN } = Number;
  const { iterator, toPrimitive: toPrimitiveKey, toStringTag } = Symbol;
  const push = uncurry(Array.prototype.push);
  const join = uncurry(Array.prototype.join);
  const indexOf = uncurry(Array.prototype.indexOf);
  const slice = uncurry(String.prototype.slice);
  const split = uncurry(String.prototype.split);
  const trim = uncurry(String.prototype.trim);
  const upper = uncurry(String.prototype.toUpperCase);
  const lower = uncurry(String.prototype.toLowerCase);
  const includes = uncurry(String.prototype.includes);
  const test = uncurry(RegExp.prototype.exec);
  const getTime = uncurry(Date.prototype.getTime);
  const numberValue = uncurry(Number.prototype.valueOf);
  const bigintValue = uncurry(BigInt.prototype.valueOf);
  const bigintText = uncurry(BigInt.prototype.toString);
  const mapGet = uncurry(Map.prototype.get);
  const mapSet = uncurry(Map.prototype.set);
  const mapClear = uncurry(Map.prototype.clear);
  const mapSize = uncurry(getOwnPropertyDescriptor(Map.prototype, "size").get);
  const weakGet = uncurry(WeakMap.prototype.get);
  const weakSet = uncurry(WeakMap.prototype.set);
  const now = Date.now;

  // Calls a function for each element of an array of ours, without the iterator that a program can change.
  const each = (list, visit) => {
    for (let index = 0; index < list.length; index += 1) visit(list[index]);
  };

  const some = (list, holds) => {
    for (let index = 0; index < list.length; index += 1) if (holds(list[index])) return true;
    return false;
  };

  const record = (properties) => {
    const result = create(null);
    each(ownKeys(properties), (key) => (result[key] = properties[key]));
    return result;
  };

  const unavailable = (what, instead) => {
    throw new RangeError(`${what} is not available in this engine; ${instead}, or use the engine V8 (--engine v8)`);
  };

  // Results that depend on texts alone, by these texts.
  const cached = (compute) => {
    const known = new Map();
    return (key, one, two, three) => {
      let result = mapGet(known, key);
      if (result === undefined) {
        result = compute(key, one, two, three);
        if (mapSize(known) >= 100) mapClear(known);
        mapSet(known, key, result);
      }
      return result;
    };
  };

  // ---- Locales ----

  const parseTag = cached((tag) => locale("tag", tag));

  const toTag = (value) => {
    if (typeof value !== "string" && (typeof value !== "object" || value === null)) {
      throw new TypeError("Language ID should be string or object.");
    }
    const slots = typeof value === "object" ? weakGet(localeSlots, value) : undefined;
    return slots ? slots.tag : parseTag(`${value}`).tag;
  };

  const canonicalTags = (locales) => {
    const tags = [];
    if (locales === undefined) return tags;
    if (typeof locales === "string" || (typeof locales === "object" && locales !== null && weakGet(localeSlots, locales))) {
      push(tags, toTag(locales));
      return tags;
    }
    if (locales === null) throw new TypeError("Cannot convert undefined or null to object");
    const list = Object(locales);
    const length = min(max(trunc(Number(list.length)) || 0, 0), 1000);
    for (let index = 0; index < length; index += 1) {
      if (!(index in list)) continue;
      const tag = toTag(list[index]);
      if (indexOf(tags, tag) < 0) push(tags, tag);
    }
    return tags;
  };

  // The first locale of the list that there is, with its keywords, or else the default locale. One that other hosts have is not
  // passed over.
  const resolveLocale = (tags) => {
    for (let index = 0; index < tags.length; index += 1) {
      const parsed = parseTag(tags[index]);
      if (parsed.found) return parsed;
      if (parsed.isElsewhere) unavailable(`locale ${parsed.name}`, `write one of ${join(locale("locales"), ", ")}`);
    }
    return parseTag("en-US");
  };

  const keyword = (parsed, key, values) => {
    const value = parsed.keywords[key];
    return value !== undefined && indexOf(values, value) >= 0 ? value : undefined;
  };

  const checkNumbering = (parsed, numbering) => {
    const value = numbering ?? parsed.keywords.nu;
    if (value !== undefined && value !== "latn") unavailable(`numbering system ${value}`, "write latn");
  };

  const supportedLocalesOf = (locales, options) => {
    const tags = canonicalTags(locales);
    getOption(coerce(options, "Intl"), "localeMatcher", "string", ["lookup", "best fit"], "best fit", "Intl");
    const supported = [];
    each(tags, (tag) => parseTag(tag).found && push(supported, tag));
    return supported;
  };

  // ---- Options ----

  const coerce = (options, service) => {
    if (options === undefined) return create(null);
    if (options === null) throw new TypeError(`${service} called on null or undefined`);
    return Object(options);
  };

  const getOption = (options, property, type, values, fallback, service) => {
    let value = options[property];
    if (value === undefined) return fallback;
    if (type === "boolean") return Boolean(value);
    value = `${value}`;
    if (values !== undefined && indexOf(values, value) < 0) {
      throw new RangeError(`Value ${value} out of range for ${service} options property ${property}`);
    }
    return value;
  };

  const checkNumber = (value, least, most, fallback, property) => {
    if (value === undefined) return fallback;
    const number = Number(value);
    if (isNaN(number) || number < least || number > most) throw new RangeError(`${property} value is out of range.`);
    return floor(number);
  };

  const getNumber = (options, property, least, most, fallback) => checkNumber(options[property], least, most, fallback, property);

  const MATCHERS = ["lookup", "best fit"];

  const typeOption = (options, property, service) => {
    const value = getOption(options, property, "string", undefined, undefined, service);
    if (value !== undefined && test(/^[a-z0-9]{3,8}(-[a-z0-9]{3,8})*$/i, value) === null) {
      throw new RangeError(`Invalid ${property} : ${value}`);
    }
    return value;
  };

  // ---- Objects ----

  // A constructor with slots for its objects. `start` returns the slots; `methods` are those of the prototype.
  const service = (name, length, start, methods, callable = false) => {
    const slots = new WeakMap();
    const title = `Intl.${name}`;
    const constructor = {
      [name]: function (...values) {
        if (new.target === undefined && !callable) throw new TypeError(`Constructor ${title} requires 'new'`);
        const target = new.target ?? constructor;
        const object = construct(Object, [], target);
        weakSet(slots, object, start(values[0], values[1]));
        return object;
      },
    }[name];
    const read = (object, method) => {
      const found = typeof object === "object" && object !== null ? weakGet(slots, object) : undefined;
      if (found === undefined) throw new TypeError(`Method ${title}.prototype.${method} called on incompatible receiver ${describe(object)}`);
      return found;
    };
    defineProperty(constructor, "length", { value: length, configurable: true });
    defineProperty(constructor, "prototype", { writable: false });
    const { prototype } = constructor;
    hide(prototype, methods(read));
    hide(constructor, { supportedLocalesOf(locales, ...rest) { return supportedLocalesOf(locales, rest[0]); } });
    defineProperty(prototype, toStringTag, { value: title, configurable: true });
    return constructor;
  };

  // Defines methods and getters that are not enumerable.
  const hide = (target, methods) => {
    each(ownKeys(methods), (key) => defineProperty(target, key, { ...getOwnPropertyDescriptor(methods, key), enumerable: false }));
  };

  const describe = (value) => {
    if (typeof value === "object" && value !== null) return "#<Object>";
    return typeof value === "function" ? "a function" : String(value);
  };

  const plain = (entries) => {
    const result = {};
    for (let index = 0; index < entries.length; index += 2) {
      if (entries[index + 1] !== undefined) {
        defineProperty(result, entries[index], { value: entries[index + 1], writable: true, enumerable: true, configurable: true });
      }
    }
    return result;
  };

  const toParts = (flat) => {
    const parts = [];
    for (let index = 0; index < flat.length; index += 2) push(parts, plain(["type", flat[index], "value", flat[index + 1]]));
    return parts;
  };

  // ---- Numbers ----

  const NUMBER = "Intl.NumberFormat";
  const UNITS = freeze(split("acre bit byte celsius centimeter day degree fahrenheit fluid-ounce foot gallon gigabit gigabyte gram hectare hour inch kilobit kilobyte kilogram kilometer liter megabit megabyte meter microsecond mile mile-scandinavian milliliter millimeter millisecond minute month nanosecond ounce percent petabyte pound second stone terabit terabyte week yard year", " "));
  const INCREMENTS = [1, 2, 5, 10, 20, 25, 50, 100, 200, 250, 500, 1000, 2000, 2500, 5000];
  const MODES = ["ceil", "floor", "expand", "trunc", "halfCeil", "halfFloor", "halfExpand", "halfTrunc", "halfEven"];

  // Reads the options of digits into `digits`, as SetNumberFormatDigitOptions.
  const readDigits = (digits, options, leastFraction, mostFraction, notation, service) => {
    digits.minimumIntegerDigits = getNumber(options, "minimumIntegerDigits", 1, 21, 1);
    let leastF = options.minimumFractionDigits;
    let mostF = options.maximumFractionDigits;
    let leastS = options.minimumSignificantDigits;
    let mostS = options.maximumSignificantDigits;
    const increment = getNumber(options, "roundingIncrement", 1, 5000, 1);
    if (indexOf(INCREMENTS, increment) < 0) throw new RangeError("roundingIncrement value is out of range.");
    digits.roundingMode = getOption(options, "roundingMode", "string", MODES, "halfExpand", service);
    const priority = getOption(options, "roundingPriority", "string", ["auto", "morePrecision", "lessPrecision"], "auto", service);
    digits.trailingZeroDisplay = getOption(options, "trailingZeroDisplay", "string", ["auto", "stripIfInteger"], "auto", service);
    if (increment !== 1) mostFraction = leastFraction;
    const hasS = leastS !== undefined || mostS !== undefined;
    const hasF = leastF !== undefined || mostF !== undefined;
    const needS = priority !== "auto" || hasS;
    const needF = priority !== "auto" || (!needS && (hasF || notation !== "compact"));
    if (needS) {
      leastS = checkNumber(leastS, 1, 21, 1, "minimumSignificantDigits");
      mostS = checkNumber(mostS, leastS, 21, 21, "maximumSignificantDigits");
    }
    if (needF) {
      leastF = checkNumber(leastF, 0, 100, undefined, "minimumFractionDigits");
      mostF = checkNumber(mostF, 0, 100, undefined, "maximumFractionDigits");
      if (leastF === undefined) leastF = mostF === undefined ? leastFraction : min(leastFraction, mostF);
      if (mostF === undefined) mostF = max(mostFraction, leastF);
      if (leastF > mostF) throw new RangeError("maximumFractionDigits value is out of range.");
    }
    digits.roundingPriority = priority;
    if (!needS && !needF) {
      leastF = mostF = 0;
      leastS = 1;
      mostS = 2;
      digits.roundingType = digits.roundingPriority = "morePrecision";
    } else if (priority !== "auto") {
      digits.roundingType = priority;
    } else {
      digits.roundingType = hasS ? "significantDigits" : "fractionDigits";
    }
    if (digits.roundingType !== "fractionDigits") {
      digits.minimumSignificantDigits = leastS;
      digits.maximumSignificantDigits = mostS;
    }
    if (digits.roundingType !== "significantDigits") {
      digits.minimumFractionDigits = leastF;
      digits.maximumFractionDigits = mostF;
    }
    if (increment !== 1) {
      if (digits.roundingType !== "fractionDigits") throw new TypeError("RoundingType is not fractionDigits");
      if (leastF !== mostF) throw new RangeError("maximumFractionDigits value is out of range.");
    }
    digits.roundingIncrement = increment;
  };

  const isUnit = (unit) => {
    const parts = split(unit, "-per-");
    return parts.length <= 2 && !some(parts, (part) => indexOf(UNITS, part) < 0);
  };

  const readGrouping = (options, fallback) => {
    const value = options.useGrouping;
    if (value === undefined) return fallback;
    if (value === true) return "always";
    if (!value) return "never";
    const text = `${value}`;
    if (text === "true" || text === "false") return fallback;
    if (indexOf(["min2", "auto", "always"], text) >= 0) return text;
    throw new RangeError(`Value ${text} out of range for ${NUMBER} options property useGrouping`);
  };

  const readUnits = (digits, options) => {
    digits.style = getOption(options, "style", "string", ["decimal", "percent", "currency", "unit"], "decimal", NUMBER);
    const currency = getOption(options, "currency", "string", undefined, undefined, NUMBER);
    if (currency === undefined) {
      if (digits.style === "currency") throw new TypeError("Currency code is required with currency style.");
    } else if (test(/^[a-z]{3}$/i, currency) === null) {
      throw new RangeError(`Invalid currency code : ${currency}`);
    }
    const display = getOption(options, "currencyDisplay", "string", ["code", "symbol", "narrowSymbol", "name"], "symbol", NUMBER);
    const sign = getOption(options, "currencySign", "string", ["standard", "accounting"], "standard", NUMBER);
    const unit = getOption(options, "unit", "string", undefined, undefined, NUMBER);
    if (unit === undefined) {
      if (digits.style === "unit") throw new TypeError("Invalid unit argument for Intl.NumberFormat() ''");
    } else if (!isUnit(unit)) {
      throw new RangeError(`Invalid unit argument for Intl.NumberFormat() '${unit}'`);
    }
    const unitDisplay = getOption(options, "unitDisplay", "string", ["short", "narrow", "long"], "short", NUMBER);
    if (digits.style === "currency") {
      digits.currency = upper(currency);
      digits.currencyDisplay = display;
      digits.currencySign = sign;
    } else if (digits.style === "unit") {
      digits.unit = unit;
      digits.unitDisplay = unitDisplay;
    }
  };

  const readNumber = (locales, givenOptions) => {
    const tags = canonicalTags(locales);
    const options = coerce(givenOptions, NUMBER);
    getOption(options, "localeMatcher", "string", MATCHERS, "best fit", NUMBER);
    const numbering = typeOption(options, "numberingSystem", NUMBER);
    const parsed = resolveLocale(tags);
    checkNumbering(parsed, numbering);
    const digits = create(null);
    readUnits(digits, options);
    digits.notation = getOption(options, "notation", "string", ["standard", "scientific", "engineering", "compact"], "standard", NUMBER);
    let least = 0;
    let most = digits.style === "percent" ? 0 : 3;
    if (digits.style === "currency" && digits.notation === "standard") least = most = currencyDigits(digits.currency);
    readDigits(digits, options, least, most, digits.notation, NUMBER);
    const compactDisplay = getOption(options, "compactDisplay", "string", ["short", "long"], "short", NUMBER);
    if (digits.notation === "compact") digits.compactDisplay = compactDisplay;
    digits.useGrouping = readGrouping(options, digits.notation === "compact" ? "min2" : "auto");
    digits.signDisplay = getOption(options, "signDisplay", "string", ["auto", "never", "always", "exceptZero", "negative"], "auto", NUMBER);
    return { tag: parsed.found, digits };
  };

  const currencyDigits = cached((code) => locale("currencyDigits", code));
  const defaultNumber = cached((tag) => readNumber(tag, undefined));

  const numberSlots = (locales, options) => {
    if (options === undefined && (locales === undefined || typeof locales === "string")) return defaultNumber(locales ?? "en-US");
    return readNumber(locales, options);
  };

  // The mathematical value of an argument, as text.
  const numeric = (value) => {
    if (typeof value === "number") return is(value, -0) ? "-0" : `${value}`;
    if (typeof value === "object" && value !== null || typeof value === "function") value = toPrimitive(value);
    if (typeof value === "bigint") return bigintText(value);
    if (typeof value === "string") {
      const text = trim(value);
      if (test(/^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i, text) !== null) return text;
    }
    const number = Number(value);
    return is(number, -0) ? "-0" : `${number}`;
  };

  const toPrimitive = (value) => {
    const convert = value[toPrimitiveKey];
    if (convert !== undefined && convert !== null) return apply(convert, value, ["number"]);
    const primitive = value.valueOf();
    return typeof primitive === "object" && primitive !== null || typeof primitive === "function" ? value.toString() : primitive;
  };

  const formatNumber = (slots, value) => locale("number", slots.tag, slots.digits, numeric(value));

  const DIGITS = ["minimumIntegerDigits", "minimumFractionDigits", "maximumFractionDigits", "minimumSignificantDigits", "maximumSignificantDigits"];
  const ROUNDING = ["roundingIncrement", "roundingMode", "roundingPriority", "trailingZeroDisplay"];

  const listed = (source, keys, entries) => {
    each(keys, (key) => push(entries, key, source[key]));
    return entries;
  };

  const NumberFormat = service("NumberFormat", 0, numberSlots, (read) => ({
    resolvedOptions() {
      const { tag, digits } = read(this, "resolvedOptions");
      const entries = ["locale", tag, "numberingSystem", "latn"];
      listed(digits, ["style", "currency", "currencyDisplay"], entries);
      // As in V8: numbers without signs have no parentheses.
      push(entries, "currencySign", digits.currencySign && digits.signDisplay === "never" ? "standard" : digits.currencySign);
      listed(digits, ["unit", "unitDisplay"], entries);
      listed(digits, DIGITS, entries);
      push(entries, "useGrouping", digits.useGrouping === "never" ? false : digits.useGrouping);
      listed(digits, ["notation", "compactDisplay", "signDisplay"], entries);
      listed(digits, ["roundingIncrement", "roundingMode"], entries);
      // As in V8, which reads both from one word of a skeleton of ICU.
      const stripped = digits.trailingZeroDisplay === "stripIfInteger";
      push(entries, "roundingPriority", stripped ? "auto" : digits.roundingPriority);
      return plain(listed(digits, ["trailingZeroDisplay"], entries));
    },
    formatToParts(value) {
      const slots = read(this, "formatToParts");
      return toParts(locale("numberParts", slots.tag, slots.digits, numeric(value)));
    },
    get format() {
      const slots = read(this, "format");
      slots.bound ??= nameless((value) => formatNumber(slots, value));
      return slots.bound;
    },
    formatRange(start, end) {
      read(this, "formatRange");
      return unavailable("Intl.NumberFormat.prototype.formatRange", "format both numbers");
    },
    formatRangeToParts(start, end) {
      read(this, "formatRangeToParts");
      return unavailable("Intl.NumberFormat.prototype.formatRangeToParts", "format both numbers");
    },
  }), true);

  const nameless = (callback) => {
    defineProperty(callback, "name", { value: "", configurable: true });
    return callback;
  };

  // ---- Dates ----

  const DATE = "Intl.DateTimeFormat";
  const WIDTHS = ["narrow", "short", "long"];
  const DIGIT_WIDTHS = ["2-digit", "numeric"];
  const STYLES = ["full", "long", "medium", "short"];
  const CYCLES = ["h11", "h12", "h23", "h24"];
  const ZONE_NAMES = ["short", "long", "shortOffset", "longOffset", "shortGeneric", "longGeneric"];
  const FIELDS = [
    ["weekday", WIDTHS], ["era", WIDTHS], ["year", DIGIT_WIDTHS], ["month", ["2-digit", "numeric", "narrow", "short", "long"]],
    ["day", DIGIT_WIDTHS], ["dayPeriod", WIDTHS], ["hour", DIGIT_WIDTHS], ["minute", DIGIT_WIDTHS], ["second", DIGIT_WIDTHS],
  ];

  const findZone = cached((name) => locale("zone", name));
  const datePattern = cached((key, tag, fields) => locale("datePattern", tag, fields));

  // Reads the options of a format. `required` and `defaults` are `date`, `time`, `any` or `all`, as in ECMA-402.
  const readDate = (locales, givenOptions, required, defaults) => {
    const tags = canonicalTags(locales);
    const options = coerce(givenOptions, DATE);
    getOption(options, "localeMatcher", "string", MATCHERS, "best fit", DATE);
    const calendar = typeOption(options, "calendar", DATE);
    const numbering = typeOption(options, "numberingSystem", DATE);
    const hour12 = getOption(options, "hour12", "boolean", undefined, undefined, DATE);
    let hourCycle = getOption(options, "hourCycle", "string", CYCLES, undefined, DATE);
    const parsed = resolveLocale(tags);
    checkNumbering(parsed, numbering);
    const usedCalendar = calendar ?? parsed.keywords.ca;
    if (usedCalendar !== undefined && usedCalendar !== "gregory") unavailable(`calendar ${usedCalendar}`, "write gregory");
    if (hour12 !== undefined) hourCycle = undefined;
    else hourCycle ??= keyword(parsed, "hc", CYCLES);
    const zone = options.timeZone;
    const timeZone = zone === undefined ? "UTC" : findZone(`${zone}`);
    const fields = create(null);
    readFields(fields, options);
    addDefaults(fields, required, defaults);
    if (hour12 !== undefined) fields.hour12 = hour12;
    if (hourCycle !== undefined) fields.hourCycle = hourCycle;
    let key = parsed.found;
    each(ownKeys(fields), (name) => (key += `;${name}=${fields[name]}`));
    return { tag: parsed.found, timeZone, fields, pattern: datePattern(key, parsed.found, fields) };
  };

  const readFields = (fields, options) => {
    each(FIELDS, (field) => {
      const value = getOption(options, field[0], "string", field[1], undefined, DATE);
      if (value !== undefined) fields[field[0]] = value;
    });
    const digits = getNumber(options, "fractionalSecondDigits", 1, 3, undefined);
    if (digits !== undefined) fields.fractionalSecondDigits = digits;
    const zoneName = getOption(options, "timeZoneName", "string", ZONE_NAMES, undefined, DATE);
    if (zoneName !== undefined) fields.timeZoneName = zoneName;
    getOption(options, "formatMatcher", "string", ["basic", "best fit"], "best fit", DATE);
    const explicit = ownKeys(fields).length > 0;
    each(["dateStyle", "timeStyle"], (name) => {
      const value = getOption(options, name, "string", STYLES, undefined, DATE);
      if (value !== undefined) fields[name] = value;
    });
    if (explicit && (fields.dateStyle !== undefined || fields.timeStyle !== undefined)) {
      throw new TypeError("Invalid option : option");
    }
  };

  const DATE_FIELDS = ["weekday", "year", "month", "day"];
  const TIME_FIELDS = ["dayPeriod", "hour", "minute", "second", "fractionalSecondDigits"];

  const addDefaults = (fields, required, defaults) => {
    const has = (names) => some(names, (name) => fields[name] !== undefined);
    if (fields.dateStyle !== undefined || fields.timeStyle !== undefined) {
      if (required === "date" && fields.timeStyle !== undefined) throw new TypeError("Invalid option : timeStyle");
      if (required === "time" && fields.dateStyle !== undefined) throw new TypeError("Invalid option : dateStyle");
      return;
    }
    if (required !== "time" && has(DATE_FIELDS) || required !== "date" && has(TIME_FIELDS)) return;
    if (defaults !== "time") fields.year = fields.month = fields.day = "numeric";
    if (defaults !== "date") fields.hour = fields.minute = fields.second = "numeric";
  };

  const defaultDate = cached((key, tag, required, defaults) => readDate(tag, undefined, required, defaults));

  const dateSlots = (locales, options, required, defaults) => {
    if (options === undefined && (locales === undefined || typeof locales === "string")) {
      const tag = locales ?? "en-US";
      return defaultDate(`${required} ${defaults} ${tag}`, tag, required, defaults);
    }
    return readDate(locales, options, required, defaults);
  };

  const toTime = (date) => {
    if (date === undefined) return now();
    const time = timeOf(date) ?? trunc(Number(date));
    if (!(time >= -8.64e15 && time <= 8.64e15)) throw new RangeError("Invalid time value");
    return time + 0;
  };

  const timeOf = (value) => {
    try {
      return typeof value === "object" && value !== null ? getTime(value) : undefined;
    } catch {
      return undefined;
    }
  };

  const formatDate = (slots, time) => locale("date", slots.tag, slots.pattern, slots.timeZone, time);

  // The options that a pattern stands for. As in V8, letters in literals count.
  const named = (letter) => {
    const short = letter + letter + letter;
    return [[short + letter + letter, "narrow"], [short + letter, "long"], [short, "short"]];
  };
  const digited = (letter) => [[letter + letter, "2-digit"], [letter, "numeric"]];
  const both = (first, second) => {
    each(second, (value) => push(first, value));
    return first;
  };
  const FIELD_OPTIONS = [
    ["weekday", both(named("E"), named("c"))], ["era", named("G")], ["year", digited("y")],
    ["month", both(both(named("M"), digited("M")), both(named("L"), digited("L")))],
    ["day", digited("d")],
    ["dayPeriod", [["BBBBB", "narrow"], ["bbbbb", "narrow"], ["BBBB", "long"], ["bbbb", "long"], ["B", "short"], ["b", "short"]]],
    ["hour", both(both(digited("H"), digited("h")), both(digited("k"), digited("K")))],
    ["minute", digited("m")], ["second", digited("s")], ["fractionalSecondDigits", []],
    ["timeZoneName", [["zzzz", "long"], ["z", "short"], ["OOOO", "longOffset"], ["O", "shortOffset"], ["vvvv", "longGeneric"], ["v", "shortGeneric"]]],
  ];
  const CYCLE_OF = record({ h: "h12", K: "h11", H: "h23", k: "h24" });

  const dateOptions = ({ tag, timeZone, fields, pattern }) => {
    const letters = join(split(pattern, /'[^']*'/), " ");
    const entries = ["locale", tag, "calendar", "gregory", "numberingSystem", "latn", "timeZone", timeZone];
    const hour = test(/[hHkK]/, letters);
    if (hour !== null) {
      const cycle = CYCLE_OF[hour[0]];
      push(entries, "hourCycle", cycle, "hour12", cycle === "h12" || cycle === "h11");
    }
    if (fields.dateStyle === undefined && fields.timeStyle === undefined) {
      each(FIELD_OPTIONS, (field) => {
        if (field[0] === "fractionalSecondDigits") return push(entries, field[0], split(pattern, "S").length - 1 || undefined);
        return some(field[1], (option) => includes(pattern, option[0]) && push(entries, field[0], option[1]));
      });
    }
    return listed(fields, ["dateStyle", "timeStyle"], entries);
  };

  const DateTimeFormat = service("DateTimeFormat", 0, (locales, options) => dateSlots(locales, options, "any", "date"), (read) => ({
    resolvedOptions() {
      return plain(dateOptions(read(this, "resolvedOptions")));
    },
    formatToParts(date) {
      const slots = read(this, "formatToParts");
      return toParts(locale("dateParts", slots.tag, slots.pattern, slots.timeZone, toTime(date)));
    },
    get format() {
      const slots = read(this, "format");
      slots.bound ??= nameless((date) => formatDate(slots, toTime(date)));
      return slots.bound;
    },
    formatRange(start, end) {
      read(this, "formatRange");
      return unavailable("Intl.DateTimeFormat.prototype.formatRange", "format both dates");
    },
    formatRangeToParts(start, end) {
      read(this, "formatRangeToParts");
      return unavailable("Intl.DateTimeFormat.prototype.formatRangeToParts", "format both dates");
    },
  }), true);

  // ---- Order of text ----

  const COLLATOR = "Intl.Collator";

  const readCollator = (locales, givenOptions) => {
    const tags = canonicalTags(locales);
    const options = coerce(givenOptions, COLLATOR);
    const usage = getOption(options, "usage", "string", ["sort", "search"], "sort", COLLATOR);
    if (usage === "search") unavailable("usage search", "write usage sort, or sensitivity base");
    getOption(options, "localeMatcher", "string", MATCHERS, "best fit", COLLATOR);
    const collation = typeOption(options, "collation", COLLATOR);
    const numeric = getOption(options, "numeric", "boolean", undefined, undefined, COLLATOR);
    const caseFirst = getOption(options, "caseFirst", "string", ["upper", "lower", "false"], undefined, COLLATOR);
    const parsed = resolveLocale(tags);
    const used = collation ?? parsed.keywords.co;
    if (used !== undefined && used !== "default" && used !== "standard") unavailable(`collation ${used}`, "leave it out");
    const sensitivity = getOption(options, "sensitivity", "string", ["base", "accent", "case", "variant"], "variant", COLLATOR);
    const ignorePunctuation = getOption(options, "ignorePunctuation", "boolean", undefined, false, COLLATOR);
    const order = record({
      sensitivity,
      numeric: numeric ?? (parsed.keywords.kn === "" || parsed.keywords.kn === "true"),
      caseFirst: caseFirst ?? keyword(parsed, "kf", ["upper", "lower", "false"]) ?? "false",
      ignorePunctuation,
    });
    return { tag: parsed.found, order };
  };

  const defaultCollator = cached((tag) => readCollator(tag, undefined));

  const collatorSlots = (locales, options) => {
    if (options === undefined && (locales === undefined || typeof locales === "string")) return defaultCollator(locales ?? "en-US");
    return readCollator(locales, options);
  };

  const isDefault = ({ sensitivity, ignorePunctuation, numeric, caseFirst }) =>
    sensitivity === "variant" && !ignorePunctuation && !numeric && caseFirst === "false";

  const compareTexts = (slots, left, right) => {
    if (left === right) return 0;
    slots.isDefault ??= isDefault(slots.order);
    const result = slots.isDefault ? compareKnown(left, right) : undefined;
    return result ?? locale("compare", slots.tag, slots.order, left, right);
  };

  const Collator = service("Collator", 0, collatorSlots, (read) => ({
    resolvedOptions() {
      const { tag, order } = read(this, "resolvedOptions");
      const entries = ["locale", tag, "usage", "sort", "sensitivity", order.sensitivity, "ignorePunctuation", order.ignorePunctuation];
      push(entries, "collation", "default", "numeric", order.numeric, "caseFirst", order.caseFirst);
      return plain(entries);
    },
    get compare() {
      const slots = read(this, "compare");
      slots.bound ??= nameless((left, right) => compareTexts(slots, `${left}`, `${right}`));
      return slots.bound;
    },
  }), true);

  // ---- Plurals ----

  const PLURAL = "Intl.PluralRules";

  const readPlural = (locales, givenOptions) => {
    const tags = canonicalTags(locales);
    const options = coerce(givenOptions, PLURAL);
    getOption(options, "localeMatcher", "string", MATCHERS, "best fit", PLURAL);
    const type = getOption(options, "type", "string", ["cardinal", "ordinal"], "cardinal", PLURAL);
    const digits = create(null);
    digits.notation = getOption(options, "notation", "string", ["standard", "compact", "scientific", "engineering"], "standard", PLURAL);
    const compactDisplay = getOption(options, "compactDisplay", "string", ["short", "long"], "short", PLURAL);
    if (digits.notation === "compact") digits.compactDisplay = compactDisplay;
    readDigits(digits, options, 0, 3, digits.notation, PLURAL);
    return { tag: resolveLocale(tags).found, type, digits };
  };

  const PluralRules = service("PluralRules", 0, readPlural, (read) => ({
    resolvedOptions() {
      const { tag, type, digits } = read(this, "resolvedOptions");
      const entries = listed(digits, both(["notation", "compactDisplay"], DIGITS), ["locale", tag, "type", type]);
      push(entries, "pluralCategories", locale("pluralCategories", tag, type));
      return plain(listed(digits, ROUNDING, entries));
    },
    select(value) {
      const { tag, type, digits } = read(this, "select");
      return locale("plural", tag, type, digits, numeric(Number(value)));
    },
    selectRange(start, end) {
      read(this, "selectRange");
      return unavailable("Intl.PluralRules.prototype.selectRange", "select for the end of the range");
    },
  }));

  // ---- Lists ----

  const LIST = "Intl.ListFormat";
  const LIST_KINDS = record({ conjunction: "standard", disjunction: "or", unit: "unit" });
  const listPattern = cached((key, tag) => locale("text", tag, key.slice(tag.length + 1)));

  const requireOptions = (options, service) => {
    if (options === undefined) return create(null);
    if (typeof options !== "object" && typeof options !== "function" || options === null) throw new TypeError(`Incorrect ${service} options: ${describe(options)}`);
    return options;
  };

  const strings = (list) => {
    const found = [];
    if (list === undefined) return found;
    for (const value of { [iterator]: () => list[iterator]() }) {
      if (typeof value !== "string") throw new TypeError(`Iterable yielded ${String(value)} which is not a string`);
      push(found, value);
    }
    return found;
  };

  // A pattern with two places as literals and elements, in the order of its places.
  const fill = (pattern, first, second) => {
    const parts = [];
    let rest = pattern;
    for (let place = 0; place < 2; place += 1) {
      const at = test(/^([^]*?)\{([01])\}([^]*)$/, rest);
      if (at[1] !== "") push(parts, "literal", at[1]);
      both(parts, at[2] === "0" ? first : second);
      rest = at[3];
    }
    if (rest !== "") push(parts, "literal", rest);
    return parts;
  };

  // Spanish writes e for y before the sound i, and u for o before the sound o.
  const spanish = (pattern, next) => {
    if (includes(pattern, " y ") && test(/^(?:i|hi(?![ae]))/i, next) !== null) return `${split(pattern, " y ")[0]} e {1}`;
    if (includes(pattern, " o ") && test(/^(?:h?o|8|11(?: |$))/i, next) !== null) return `${split(pattern, " o ")[0]} u {1}`;
    return pattern;
  };

  const listParts = ({ tag, kind, style }, values) => {
    const pattern = (place) => locale("text", tag, `list.${kind}.${style}.${place}`);
    const { length } = values;
    const joint = (text) => (slice(tag, 0, 2) === "es" ? spanish(text, values[length - 1]) : text);
    const element = (index) => ["element", values[index]];
    if (length === 0) return [];
    if (length === 1) return element(0);
    if (length === 2) return fill(joint(pattern("2")), element(0), element(1));
    let parts = element(0);
    const start = pattern("start");
    const middle = pattern("middle");
    const end = joint(pattern("end"));
    for (let index = 1; index < length; index += 1) {
      const used = index === 1 ? start : index === length - 1 ? end : middle;
      // Every pattern has its first place before the second one, with nothing around them.
      const between = test(/^\{0\}([^]*)\{1\}$/, used)[1];
      push(parts, "literal", between, "element", values[index]);
    }
    return parts;
  };

  const textOf = (parts) => {
    let text = "";
    for (let index = 1; index < parts.length; index += 2) text += parts[index];
    return text;
  };

  const ListFormat = service("ListFormat", 0, (locales, givenOptions) => {
    const tags = canonicalTags(locales);
    const options = requireOptions(givenOptions, LIST);
    getOption(options, "localeMatcher", "string", MATCHERS, "best fit", LIST);
    const type = getOption(options, "type", "string", ["conjunction", "disjunction", "unit"], "conjunction", LIST);
    const style = getOption(options, "style", "string", ["long", "short", "narrow"], "long", LIST);
    return { tag: resolveLocale(tags).found, type, style, kind: LIST_KINDS[type] };
  }, (read) => ({
    resolvedOptions() {
      const { tag, type, style } = read(this, "resolvedOptions");
      return plain(["locale", tag, "type", type, "style", style]);
    },
    format(list) {
      const slots = read(this, "format");
      return textOf(listParts(slots, strings(list)));
    },
    formatToParts(list) {
      const slots = read(this, "formatToParts");
      return toParts(listParts(slots, strings(list)));
    },
  }));

  // ---- Relative times ----

  const RELATIVE = "Intl.RelativeTimeFormat";
  const TIME_UNITS = ["second", "minute", "hour", "day", "week", "month", "quarter", "year"];
  const relativeDigits = record({ minimumIntegerDigits: 1, maximumFractionDigits: 3 });

  const timeUnit = (unit, method) => {
    const text = `${unit}`;
    const singular = text[text.length - 1] === "s" ? slice(text, 0, -1) : text;
    if (indexOf(TIME_UNITS, singular) < 0) {
      throw new RangeError(`Invalid unit argument for ${RELATIVE}.prototype.${method}() '${text}'`);
    }
    return singular;
  };

  const relativeParts = ({ tag, style, numeric: kind }, given, unit) => {
    const value = Number(given);
    if (!isFinite(value)) throw new RangeError(`Invalid time value`);
    const key = `relative.${unit}.${style}`;
    if (kind === "auto") {
      const text = locale("text", tag, `${key}.${value}`);
      if (text !== null) return ["literal", text];
    }
    const past = value < 0 || is(value, -0);
    const digits = numeric(past ? -value : value);
    const plural = locale("plural", tag, "cardinal", relativeDigits, digits);
    const direction = `${key}.${past ? "past" : "future"}`;
    const pattern = locale("text", tag, `${direction}.${plural}`) ?? locale("text", tag, `${direction}.other`);
    const around = split(pattern, "{0}");
    const parts = around[0] === "" ? [] : ["literal", around[0]];
    both(parts, locale("numberParts", tag, relativeDigits, digits));
    if (around[1] !== "") push(parts, "literal", around[1]);
    return parts;
  };

  const RelativeTimeFormat = service("RelativeTimeFormat", 0, (locales, givenOptions) => {
    const tags = canonicalTags(locales);
    const options = coerce(givenOptions, RELATIVE);
    getOption(options, "localeMatcher", "string", MATCHERS, "best fit", RELATIVE);
    const numbering = typeOption(options, "numberingSystem", RELATIVE);
    const parsed = resolveLocale(tags);
    checkNumbering(parsed, numbering);
    const style = getOption(options, "style", "string", ["long", "short", "narrow"], "long", RELATIVE);
    return { tag: parsed.found, style, numeric: getOption(options, "numeric", "string", ["always", "auto"], "always", RELATIVE) };
  }, (read) => ({
    resolvedOptions() {
      const { tag, style, numeric } = read(this, "resolvedOptions");
      return plain(["locale", tag, "style", style, "numeric", numeric, "numberingSystem", "latn"]);
    },
    format(value, unit) {
      const slots = read(this, "format");
      return textOf(relativeParts(slots, Number(value), timeUnit(unit, "format")));
    },
    formatToParts(value, unit) {
      const slots = read(this, "formatToParts");
      const singular = timeUnit(unit, "formatToParts");
      const parts = toParts(relativeParts(slots, Number(value), singular));
      each(parts, (part) => part.type !== "literal" && (part.unit = singular));
      return parts;
    },
  }));

  // ---- Others ----

  const localeSlots = new WeakMap();

  const missing = (name, length, instead) => service(name, length, () => unavailable(`Intl.${name}`, instead), () => ({}));

  const supportedValuesOf = (key) => {
    const text = `${key}`;
    switch (text) {
      case "calendar": return ["gregory"];
      case "collation": return ["default"];
      case "numberingSystem": return ["latn"];
      case "timeZone": return locale("names", "timezones");
      case "currency": return locale("names", "currencies");
      case "unit": return both([], UNITS);
      default: throw new RangeError(`Invalid key : ${text}`);
    }
  };

  const Intl = {};
  hide(Intl, {
    getCanonicalLocales(locales) { return canonicalTags(locales); },
    supportedValuesOf(key) { return supportedValuesOf(key); },
  });
  const services = {
    DateTimeFormat, NumberFormat, Collator, PluralRules, RelativeTimeFormat, ListFormat,
    Locale: missing("Locale", 1, "split the tag at -"),
    DisplayNames: missing("DisplayNames", 2, "write the names"),
    Segmenter: missing("Segmenter", 0, "iterate over the string or split it"),
    DurationFormat: missing("DurationFormat", 0, "write the units with Intl.NumberFormat"),
  };
  hide(Intl, services);
  defineProperty(Intl, toStringTag, { value: "Intl", configurable: true });

  const dateText = (date, locales, options, required, defaults) => {
    const time = getTime(date);
    return isNaN(time) ? "Invalid Date" : formatDate(dateSlots(locales, options, required, defaults), time);
  };

  // The case of letters depends on the locale in Turkish, Azerbaijani and Lithuanian alone.
  const changeCase = (receiver, locales, change, name) => {
    if (receiver === undefined || receiver === null) throw new TypeError(`String.prototype.${name} called on null or undefined`);
    const text = `${receiver}`;
    const tags = canonicalTags(locales);
    const language = tags.length === 0 ? "en" : slice(tags[0], 0, 2);
    if ((language === "tr" || language === "az" || language === "lt") && (tags[0].length === 2 || tags[0][2] === "-")) {
      unavailable(`${name}("${tags[0]}")`, "write the rules of that language yourself");
    }
    return change(text);
  };

  return {
    Intl,
    dateToLocaleString(locales, options) { return dateText(this, locales, options, "any", "all"); },
    dateToLocaleDateString(locales, options) { return dateText(this, locales, options, "date", "date"); },
    dateToLocaleTimeString(locales, options) { return dateText(this, locales, options, "time", "time"); },
    numberToLocaleString(locales, options) { return formatNumber(numberSlots(locales, options), numberValue(this)); },
    bigintToLocaleString(locales, options) { return formatNumber(numberSlots(locales, options), bigintValue(this)); },
    localeCompare(that, locales, options) {
      if (this === undefined || this === null) throw new TypeError("String.prototype.localeCompare called on null or undefined");
      const left = `${this}`;
      const right = `${that}`;
      return compareTexts(collatorSlots(locales, options), left, right);
    },
    toLocaleUpperCase(locales) { return changeCase(this, locales, upper, "toLocaleUpperCase"); },
    toLocaleLowerCase(locales) { return changeCase(this, locales, lower, "toLocaleLowerCase"); },
  };
}
