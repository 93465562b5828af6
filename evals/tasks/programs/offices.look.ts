return [
  await db.execute_query({ sql: "SELECT * FROM offices LIMIT 2" }),
  await time.convert_time({ source_timezone: "UTC", time: "12:00", target_timezone: "Asia/Tokyo" }),
];
