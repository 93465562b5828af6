(async function* () { yield 1; })
