const all = [];
for (;;) all.push({ number: all.length });
