const { content } = await files.list_directory({ path: "invoices" });
const names = content.split("\n");
const first = names[0].replace("[FILE] ", "");
return {
  count: names.length,
  names: names.slice(0, 3),
  first: (await files.read_text_file({ path: `invoices/${first}` })).content,
  orders: await db.execute_query({ sql: "SELECT * FROM orders LIMIT 2" }),
};
