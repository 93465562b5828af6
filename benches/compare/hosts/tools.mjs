// The host functions that programs call, the same for all peers. hosts/host.py has them in Python.
export const tools = {
  echo: async (input) => input,
  produce: async (count) =>
    Array.from({ length: count }, (_, i) => ({ id: i, name: `item ${i}`, values: [i, i * 2, i * 3], even: i % 2 === 0 })),
  consume: async (rows) => rows.length + rows.at(-1).id,
};
