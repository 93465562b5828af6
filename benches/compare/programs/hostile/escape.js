// Returns the process id of the host if the constructor of something leads to the host's `Function`.
const call = echo(1);
const things = [this, globalThis, echo, call, await call, new Error("x"), async () => {}, typeof console === "object" ? console : {}];
for (const thing of things) {
  try {
    const { pid } = thing.constructor.constructor("return process")();
    if (typeof pid === "number") return pid;
  } catch {}
}
return "contained";
