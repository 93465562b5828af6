const rows = Array.from({ length: 15000 }, (_, i) => ({ id: i, name: "item " + i, values: [i, i * 2, i * 3], even: i % 2 === 0 }));
const text = JSON.stringify(rows);
return JSON.stringify(JSON.parse(text)).length;
