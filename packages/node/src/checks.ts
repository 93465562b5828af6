/** Checks of what the application passes, and what their messages say. */

/** Fails with a `TypeError` if the object has a member that is not known. */
export function checkMembers(object: object, known: string[], of: string, kind = "member"): void {
  const unknown = Object.keys(object).find((name) => !known.includes(name) && (object as any)[name] !== undefined);
  if (unknown === undefined) return;
  const near = nearest(unknown, known);
  const hint = near ? `did you mean ${near}?` : `expected one of ${known.join(", ")}`;
  throw new TypeError(`${of} has no ${kind} ${unknown}; ${hint}`);
}

/** The name that was probably meant: at most two letters differ. */
export function nearest(unknown: string, known: string[]): string | undefined {
  const far = (name: string) => distance(name.toLowerCase(), unknown.toLowerCase());
  const near = known.filter(({ length }) => length < 100 && Math.abs(length - unknown.length) <= 2);
  const [best] = near.map((name) => [name, far(name)] as const).sort(([, a], [, b]) => a - b);
  return best && best[1] <= 2 ? best[0] : undefined;
}

/** How many letters must be inserted, removed, replaced or exchanged with the next to make one word of the other. */
function distance(a: string, b: string): number {
  const rows = Array.from({ length: a.length + 1 }, (_, i) => Array.from({ length: b.length + 1 }, (_, j) => i + j));
  for (let i = 1; i <= a.length; i++) {
    for (let j = 1; j <= b.length; j++) {
      const cost = a[i - 1] === b[j - 1] ? 0 : 1;
      let least = Math.min(rows[i - 1]![j]! + 1, rows[i]![j - 1]! + 1, rows[i - 1]![j - 1]! + cost);
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1])
        least = Math.min(least, rows[i - 2]![j - 2]! + 1);
      rows[i]![j] = least;
    }
  }
  return rows[a.length]![b.length]!;
}

/** Whether it is an object with members. */
export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** What a value is, for a message. */
export function nameOfType(value: unknown): string {
  if (value === null || value === undefined) return String(value);
  if (typeof value !== "object") return `a ${typeof value}`;
  return Object.prototype.toString.call(value).slice(8, -1);
}
