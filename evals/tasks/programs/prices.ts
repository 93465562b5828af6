const file = { fileAbsolutePath: "DATA/prices.xlsx" };
const { sheets } = await excel.excel_describe_sheets(file);
const { rows } = JSON.parse((await db.execute_query({ sql: "SELECT sku, price_cents FROM products" })).result);
const database = new Map(rows);
const different = [];
const unknown = [];
for (const { name, pagingRanges } of sheets) {
  for (const range of pagingRanges) {
    const html = await excel.excel_read_sheet({ ...file, sheetName: name, range });
    for (const [, row] of html.matchAll(/<tr>(.*?)<\/tr>/g)) {
      const [sku, , price] = [...row.matchAll(/<td>(.*?)<\/td>/g)].map((cell) => cell[1]);
      if (sku === undefined || sku === "SKU") continue;
      const workbook = Math.round(Number(price) * 100);
      if (!database.has(sku)) unknown.push(sku);
      else if (database.get(sku) !== workbook) different.push({ sku, workbook, database: database.get(sku) });
    }
  }
}
different.sort((a, b) => (a.sku < b.sku ? -1 : 1));
return { different, unknown: unknown.sort() };
