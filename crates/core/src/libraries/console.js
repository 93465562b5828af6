// The functions of `console` beside `log`, `info`, `warn`, `error` and `debug`, and the lines that need more than the engine's own
// code: placeholders such as `%s`, maps and sets, and groups. As in Node.js where the runner specification ("Logs") leaves it open.
//
// `write(level, line)` logs a line. `stack()` returns the frames of the caller, one on each line.
(write, stack) => {
  "use strict";

  const { apply, getOwnPropertyDescriptor } = Reflect;
  const { forEach, includes } = Array.prototype;
  const { stringify } = JSON;
  const { now } = Date;
  const { is, keys } = Object;
  const toTag = Object.prototype.toString;
  const { replaceAll, repeat, slice, indexOf, codePointAt } = String.prototype;
  const [StringOf, NumberOf, parseInteger, parseNumber] = [String, Number, parseInt, parseFloat];
  const sizeOf = {
    __proto__: null,
    "[object Map]": getOwnPropertyDescriptor(Map.prototype, "size").get,
    "[object Set]": getOwnPropertyDescriptor(Set.prototype, "size").get,
  };
  const eachOf = { __proto__: null, "[object Map]": Map.prototype.forEach, "[object Set]": Set.prototype.forEach };

  // ---- Values ---------------------------------------------------------------------------------------------------------------

  // `[object Map]` or `[object Set]`; undefined for other values.
  const collectionOf = (value) => {
    if (typeof value !== "object" || value === null) return undefined;
    try {
      const tag = apply(toTag, value, []);
      const size = sizeOf[tag];
      if (size === undefined) return undefined;
      apply(size, value, []);
      return tag;
    } catch {
      return undefined;
    }
  };

  // The collections around the value that is being written, so that none is written in itself.
  const around = [];

  // As `Map(1) {"a" => 1}`.
  const collectionText = (collection, tag) => {
    if (apply(includes, around, [collection])) return "[Circular]";
    around[around.length] = collection;
    try {
      const name = apply(slice, tag, [8, -1]);
      let entries = "";
      apply(eachOf[tag], collection, [(value, key) => {
        if (entries !== "") entries += ", ";
        entries += tag === "[object Map]" ? `${quoted(key)} => ${quoted(value)}` : quoted(value);
      }]);
      return `${name}(${apply(sizeOf[tag], collection, [])}) {${entries}}`;
    } finally {
      around.length--;
    }
  };

  const inObjects = (_, value) => {
    const tag = collectionOf(value);
    return tag === undefined ? value : collectionText(value, tag);
  };

  // The text of a value in a collection: strings in quotes.
  const quoted = (value) => typeof value === "string" ? stringify(value) : text(value);

  // The text of a value: strings as they are, `undefined` by name, other values as JSON where possible, and else as a string.
  const text = (value) => {
    if (typeof value === "string") return value;
    if (typeof value === "undefined") return "undefined";
    if (typeof value === "number") return is(value, -0) ? "-0" : `${value}`;
    if (typeof value === "bigint") return `${value}`;
    if (typeof value === "symbol") return StringOf(value);
    const tag = collectionOf(value);
    if (tag !== undefined) return collectionText(value, tag);
    try {
      if (typeof value !== "function" && !isError(value)) {
        const json = stringify(value, inObjects);
        if (json !== undefined) return json;
      }
    } catch {
      // such as an object that contains itself
    }
    try {
      return StringOf(value);
    } catch {
      return "[object]";
    }
  };

  const isError = Error.isError ?? ((value) => value instanceof Error);

  // ---- Lines ----------------------------------------------------------------------------------------------------------------

  const placeholders = {
    __proto__: null,
    s: (value) => text(value),
    d: (value) => typeof value === "symbol" ? "NaN" : text(typeof value === "bigint" ? value : NumberOf(value)),
    i: (value) => typeof value === "symbol" ? "NaN" : text(parseInteger(value)),
    f: (value) => typeof value === "symbol" ? "NaN" : text(parseNumber(value)),
    j: (value) => text(stringify(value)),
    o: (value) => quoted(value),
    O: (value) => quoted(value),
    c: () => "",
  };

  // A text with its placeholders replaced by the arguments after it; the number of arguments that it has taken is in `taken`.
  let taken = 0;
  const formatted = (format, args) => {
    let [result, from, at] = ["", 0, 0];
    taken = 1;
    for (; (at = apply(indexOf, format, ["%", at])) >= 0; at++) {
      const letter = format[at + 1];
      const replace = placeholders[letter];
      if (letter !== "%" && (replace === undefined || taken >= args.length)) continue;
      result += apply(slice, format, [from, at]) + (letter === "%" ? "%" : replace(args[taken++]));
      at++;
      from = at + 1;
    }
    return result + apply(slice, format, [from]);
  };

  let indentation = "";

  // The line of the arguments of a console function.
  const line = (...args) => {
    let result = "";
    let from = 0;
    if (args.length > 1 && typeof args[0] === "string") {
      result = formatted(args[0], args);
      from = taken;
    }
    for (let i = from; i < args.length; i++) {
      if (i > 0) result += " ";
      result += text(args[i]);
    }
    if (indentation === "") return result;
    return indentation + apply(replaceAll, result, ["\n", `\n${indentation}`]);
  };

  const log = (level, ...args) => write(level, line(...args));

  // ---- Tables ---------------------------------------------------------------------------------------------------------------

  // The number of columns that a text takes in a terminal: two for wide characters, such as those of Chinese.
  const isWide = (c) => c >= 0x1100 && (c <= 0x115f || c >= 0x2e80 && c <= 0xa4cf || c >= 0xac00 && c <= 0xd7a3 ||
    c >= 0xf900 && c <= 0xfaff || c >= 0xfe30 && c <= 0xfe6f || c >= 0xff00 && c <= 0xff60 || c >= 0xffe0 && c <= 0xffe6 ||
    c >= 0x1f300 && c <= 0x1faff || c >= 0x20000 && c <= 0x3fffd);
  const widthOf = (cell) => {
    let width = cell.length;
    for (let at = 0; at < cell.length; at++) {
      const c = apply(codePointAt, cell, [at]);
      if (c > 0xffff) at++;
      else if (isWide(c)) width++;
    }
    return width;
  };

  const grid = (head, rows) => {
    const widths = [];
    const cellsOf = (row) => {
      for (let i = 0; i < head.length; i++) {
        const width = widthOf(row[i] ?? "") + 2;
        if (!(widths[i] >= width)) widths[i] = width;
      }
    };
    cellsOf(head);
    apply(forEach, rows, [cellsOf]);
    const joined = (begin, middle, end, cell) => {
      let result = begin;
      for (let i = 0; i < head.length; i++) result += (i > 0 ? middle : "") + cell(i);
      return result + end;
    };
    const border = (begin, middle, end) => joined(begin, middle, end, (i) => apply(repeat, "─", [widths[i]]));
    const rowLine = (row) => joined("│", "│", "│", (i) => {
      const cell = row[i] ?? "";
      return ` ${cell}${apply(repeat, " ", [widths[i] - widthOf(cell) - 1])}`;
    });
    let result = `${border("┌", "┬", "┐")}\n${rowLine(head)}\n${border("├", "┼", "┤")}\n`;
    apply(forEach, rows, [(row) => { result += `${rowLine(row)}\n`; }]);
    return result + border("└", "┴", "┘");
  };

  const cell = (value) => typeof value === "string" ? `'${value}'` : text(value);

  // The index and value of each row of a table.
  const rowsOf = (data, tag) => {
    const rows = [];
    const add = (index, value, key) => { rows[rows.length] = { index, value, key }; };
    if (tag !== undefined) {
      apply(eachOf[tag], data, [(value, key) => add(`${rows.length}`, value, key)]);
    } else {
      apply(forEach, keys(data), [(key) => add(key, data[key])]);
    }
    return rows;
  };

  const tableText = (data, columns) => {
    const tag = collectionOf(data);
    const rows = rowsOf(data, tag);
    const names = columns === undefined ? [] : [...columns];
    const isRow = ({ value }) => typeof value === "object" && value !== null && collectionOf(value) === undefined;
    const isMap = tag === "[object Map]";
    let hasValues = false;
    apply(forEach, rows, [(row) => {
      if (isMap || !isRow(row)) hasValues = true;
      else if (columns === undefined) {
        apply(forEach, keys(row.value), [(key) => { if (!apply(includes, names, [key])) names[names.length] = key; }]);
      }
    }]);
    const head = [tag === undefined ? "(index)" : "(iteration index)"];
    if (isMap) head[1] = "Key";
    else apply(forEach, names, [(name) => { head[head.length] = `${name}`; }]);
    if (hasValues) head[head.length] = "Values";
    const cells = [];
    apply(forEach, rows, [(row) => {
      const line = [row.index];
      if (isMap) line[1] = cell(row.key);
      else apply(forEach, names, [(name, i) => { if (isRow(row) && name in row.value) line[i + 1] = cell(row.value[name]); }]);
      if (hasValues && (isMap || !isRow(row))) line[head.length - 1] = cell(row.value);
      cells[cells.length] = line;
    }]);
    return grid(head, cells);
  };

  // ---- Functions --------------------------------------------------------------------------------------------------------------

  const counts = { __proto__: null };
  const timers = { __proto__: null };
  const elapsed = (label) => {
    const time = now() - timers[label];
    return `${label}: ${time >= 1000 ? `${time / 1000}s` : `${time}ms`}`;
  };
  const known = (name, label) => {
    if (label in timers) return true;
    log("warn", `No such label '${label}' for console.${name}()`);
    return false;
  };
  const group = (...label) => {
    if (label.length > 0) log("log", ...label);
    indentation += "  ";
  };

  return {
    line,
    assert: (isTrue, ...args) => {
      if (isTrue) return;
      const [first, ...rest] = args;
      if (args.length === 0) log("error", "Assertion failed");
      else if (typeof first === "string") log("error", `Assertion failed: ${first}`, ...rest);
      else log("error", "Assertion failed:", ...args);
    },
    count: (label = "default") => {
      counts[label] = (counts[label] ?? 0) + 1;
      log("log", `${label}: ${counts[label]}`);
    },
    countReset: (label = "default") => {
      counts[label] = 0;
    },
    dir: (value) => log("log", value),
    dirxml: (...args) => log("log", ...args),
    group,
    groupCollapsed: group,
    groupEnd: () => {
      indentation = apply(slice, indentation, [2]);
    },
    table: (data, columns) => log("log", typeof data === "object" && data !== null ? tableText(data, columns) : data),
    time: (label = "default") => {
      if (label in timers) log("warn", `Label '${label}' already exists for console.time()`);
      else timers[label] = now();
    },
    timeEnd: (label = "default") => {
      if (!known("timeEnd", label)) return;
      log("log", elapsed(label));
      delete timers[label];
    },
    timeLog: (label = "default", ...args) => {
      if (known("timeLog", label)) log("log", elapsed(label), ...args);
    },
    trace: (...args) => {
      const message = line(...args);
      const frames = stack();
      write("error", `Trace${message === "" ? "" : `: ${message}`}${frames === "" ? "" : `\n${apply(slice, frames, [0, -1])}`}`);
    },
  };
}
