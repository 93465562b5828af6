const { key, update } = Object(input);
if (typeof key !== "string" || typeof update !== "function") {
  throw new TypeError("store.update takes one object: store.update({ key, update: (value) => newValue })");
}
// More calls at once would hinder one another.
const calls = (store.update.calls ??= { running: 0, waiting: [] });
if (calls.running < 16) {
  calls.running++;
} else {
  await new Promise((resolve) => calls.waiting.push(resolve));
}
try {
  for (let attempt = 0; attempt < 100; attempt++) {
    const { value, revision } = await store.entry({ key });
    const changed = await update(value);
    if (changed === undefined) {
      throw new TypeError("store.update: the function returned undefined; return the new value");
    }
    if (await store.replace({ key, value: changed, revision })) {
      return changed;
    }
  }
  throw new Error(
    "store.update: the value was changed during each of 100 attempts; let the function be short, and not change the key itself",
  );
} finally {
  const next = calls.waiting.shift();
  if (next) {
    next();
  } else {
    calls.running--;
  }
}
