const file = { fileAbsolutePath: "DATA/prices.xlsx" };
const sheets = await excel.excel_describe_sheets(file);
const { name } = (typeof sheets === "string" ? JSON.parse(sheets) : sheets).sheets[0];
return [
  sheets,
  await excel.excel_read_sheet({ ...file, sheetName: name, range: "A1:D3" }),
  await db.execute_query({ sql: "SELECT * FROM products LIMIT 2" }),
];
