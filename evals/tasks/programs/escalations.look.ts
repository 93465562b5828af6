return [
  await db.execute_query({ sql: "SELECT * FROM customers LIMIT 2" }),
  await db.execute_query({ sql: "SELECT * FROM tickets LIMIT 2" }),
];
