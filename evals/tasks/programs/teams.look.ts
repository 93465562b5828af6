const { entities, relations } = await memory.read_graph();
return [entities.length, entities.slice(0, 2), entities.at(-1), relations.length, relations.slice(0, 3)];
