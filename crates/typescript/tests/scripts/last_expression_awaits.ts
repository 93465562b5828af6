const response = await codemode.search({ query: 'x' });
await codemode.open(response[0])
