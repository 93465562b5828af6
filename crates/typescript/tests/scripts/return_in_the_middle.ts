const a = await f();
if (!a) return null;
a.value
