const { content } = await files.list_directory({ path: "invoices" });
const names = content.split("\n").map((line) => line.replace("[FILE] ", ""));
const invoiced = new Map();
await Promise.all(
  names.map(async (name) => {
    const invoice = JSON.parse((await files.read_text_file({ path: `invoices/${name}` })).content);
    invoiced.set(invoice.order, invoice.amounts.gross_cents);
  }),
);
const sql = "SELECT id, total_cents FROM orders WHERE status = 'invoiced' AND ordered_at < '2026-02-20' ORDER BY id";
const { rows } = JSON.parse((await db.execute_query({ sql })).result);
const different = [];
const missing = [];
for (const [order, ordered] of rows) {
  if (!invoiced.has(order)) missing.push(order);
  else if (invoiced.get(order) !== ordered) different.push({ order, ordered, invoiced: invoiced.get(order) });
}
return { different, missing };
