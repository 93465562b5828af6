{ hits: await search.find({ q: 1 }) }
