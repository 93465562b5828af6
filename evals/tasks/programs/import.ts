const { content } = await files.list_directory({ path: "invoices" });
const names = content.split("\n").map((line) => line.replace("[FILE] ", ""));
const rows = await Promise.all(
  names.map(async (name) => {
    const invoice = JSON.parse((await files.read_text_file({ path: `invoices/${name}` })).content);
    return `('${invoice.number}', ${invoice.order}, '${invoice.issued}', ${invoice.amounts.gross_cents})`;
  }),
);
await db.execute_query({ sql: "CREATE TABLE invoices (number TEXT, order_id INTEGER, issued DATE, gross_cents INTEGER)" });
await db.execute_query({ sql: `INSERT INTO invoices VALUES ${rows.join(", ")}` });
return await db.execute_query({ sql: "SELECT count(*), sum(gross_cents) FROM invoices" });
