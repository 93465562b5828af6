// `setTimeout` and the like (HTML standard, "Timers"), with the objects that Node.js returns.
//
// `arm(delay)` asks the host to wake the program after so many milliseconds, in place of what was asked before; undefined takes it
// back. When the host does, the engine calls `fire` and runs the microtasks, again while `fire` returns true.
(arm) => {
  "use strict";

  const { apply } = Reflect;
  const { now } = Date;
  const { max, trunc } = Math;
  const TypeErrorOf = TypeError;

  // A heap of the timers: the first is due first, or was set first of those that are due then. Stopped ones stay until they come first.
  const queue = [];
  let lastTurn = 0;
  const byId = { __proto__: null };
  let lastId = 0;
  // The time until which timers are due.
  let until = -Infinity;
  // The time for which the host was asked.
  let armedFor;

  const isBefore = (one, other) => one.due < other.due || (one.due === other.due && one.turn < other.turn);

  const insert = (timer) => {
    timer.turn = ++lastTurn;
    let at = queue.length;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (!isBefore(timer, queue[parent])) break;
      queue[at] = queue[parent];
      at = parent;
    }
    queue[at] = timer;
  };

  const takeFirst = () => {
    const first = queue[0];
    const last = queue[queue.length - 1];
    queue.length -= 1;
    const { length } = queue;
    let at = 0;
    for (let child = 1; child < length; child = 2 * at + 1) {
      if (child + 1 < length && isBefore(queue[child + 1], queue[child])) child += 1;
      if (!isBefore(queue[child], last)) break;
      queue[at] = queue[child];
      at = child;
    }
    if (length > 0) queue[at] = last;
    return first;
  };

  const dropStopped = () => {
    while (queue.length > 0 && queue[0].isStopped) takeFirst();
  };

  const ask = () => {
    dropStopped();
    const due = queue.length > 0 ? queue[0].due : undefined;
    if (due === armedFor) return;
    armedFor = due;
    arm(due === undefined ? undefined : max(due - now(), 0));
  };

  const stop = (timer) => {
    timer.isStopped = true;
    delete byId[timer.id];
  };

  const add = (timer) => {
    timer.due = now() + timer.delay;
    timer.isStopped = false;
    byId[timer.id] = timer;
    insert(timer);
    ask();
  };

  // What `setTimeout` returns, as in Node.js. A timer never keeps a program from its end.
  class Timeout {
    #timer;

    constructor(timer) {
      this.#timer = timer;
    }

    static timerOf(value) {
      return typeof value === "object" && value !== null && #timer in value ? value.#timer : byId[value];
    }

    ref() {
      return this;
    }

    unref() {
      return this;
    }

    hasRef() {
      return false;
    }

    refresh() {
      const { id, callback, args, delay, repeats } = this.#timer;
      stop(this.#timer);
      this.#timer = { id, callback, args, delay, repeats };
      add(this.#timer);
      return this;
    }

    close() {
      stop(this.#timer);
      return this;
    }

    [Symbol.toPrimitive]() {
      return this.#timer.id;
    }
  }
  const { timerOf } = Timeout;
  delete Timeout.timerOf;

  const MAX_DELAY = 2147483647;
  const set = (callback, delay, args, repeats) => {
    if (typeof callback !== "function") {
      throw new TypeErrorOf(`The "callback" argument must be of type function, not ${callback === null ? "null" : typeof callback}`);
    }
    const number = +delay;
    const timer = { id: ++lastId, callback, args, delay: number >= 1 && number <= MAX_DELAY ? trunc(number) : 1, repeats };
    const timeout = new Timeout(timer);
    add(timer);
    return timeout;
  };

  const clear = (timeout) => {
    if (typeof timeout === "symbol" || timeout === undefined || timeout === null) return;
    const timer = timerOf(timeout);
    if (timer !== undefined) {
      stop(timer);
      ask();
    }
  };

  const functions = {
    setTimeout: (callback, delay, ...args) => set(callback, delay, args, false),
    setInterval: (callback, delay, ...args) => set(callback, delay, args, true),
    setImmediate: (callback, ...args) => set(callback, 0, args, false),
    clearTimeout: (timeout) => clear(timeout),
    clearInterval: (timeout) => clear(timeout),
    clearImmediate: (timeout) => clear(timeout),
  };

  // Calls the first timer that is due. Returns false if none is. `isWoken`: the host has woken the program, so that the first timer
  // is due, whatever the clock says.
  const fire = (isWoken) => {
    if (isWoken) armedFor = undefined;
    dropStopped();
    if (isWoken && queue.length > 0) until = max(now(), queue[0].due);
    if (queue.length === 0 || queue[0].due > until) {
      ask();
      return false;
    }
    const timer = takeFirst();
    if (timer.repeats) {
      timer.due = until + timer.delay;
      insert(timer);
    } else {
      stop(timer);
    }
    apply(timer.callback, undefined, timer.args);
    return true;
  };

  return { ...functions, fire };
}
