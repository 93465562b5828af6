// Programs made by grammars, the same ones in every run: each kind is a function from a source of random numbers to the
// text of a module.
import * as data from './kinds/data.mjs';
import * as engine from './kinds/engine.mjs';
import * as language from './kinds/language.mjs';
import * as library from './kinds/library.mjs';

const EACH = 28;

// A random number generator (mulberry32) with helpers.
export class Random {
  constructor(seed) {
    this.state = seed >>> 0;
  }

  next() {
    this.state = (this.state + 0x6d2b79f5) >>> 0;
    let t = this.state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  }

  // A whole number from `low` to `high`, both included.
  int(low, high) {
    return low + Math.floor(this.next() * (high - low + 1));
  }

  chance(probability) {
    return this.next() < probability;
  }

  pick(list) {
    return list[this.int(0, list.length - 1)];
  }

  // Some of the list, in its order.
  some(list, count) {
    const left = [...list];
    while (left.length > count) left.splice(this.int(0, left.length - 1), 1);
    return left;
  }

  shuffle(list) {
    const out = [...list];
    for (let i = out.length - 1; i > 0; i--) {
      const j = this.int(0, i);
      [out[i], out[j]] = [out[j], out[i]];
    }
    return out;
  }

  list(low, high, make) {
    return Array.from({ length: this.int(low, high) }, (_, index) => make(index));
  }

  word() {
    return this.pick(['alpha', 'beta', 'gamma', 'delta', 'kiwi', 'lemon', 'mango', 'north', 'omega', 'paper', 'quartz', 'river', 'stone', 'tiger', 'umbra', 'velvet']);
  }
}

// The seed of a program: FNV-1a of its name.
function seedOf(name) {
  let hash = 0x811c9dc5;
  for (const each of name) hash = Math.imul(hash ^ each.codePointAt(0), 0x01000193);
  return hash >>> 0;
}

export function generate() {
  const cases = [];
  for (const [kind, make] of Object.entries({ ...engine, ...language, ...library, ...data })) {
    for (let index = 0; index < EACH; index++) {
      const name = `generated/${kind} ${index}`;
      cases.push({ name, language: 'javascript', source: make(new Random(seedOf(name)), index) });
    }
  }
  return cases;
}
