return await consume(Array.from({ length: 15000 }, (_, i) => ({ id: i, name: "item " + i, values: [i, i * 2, i * 3], even: i % 2 === 0 })));
