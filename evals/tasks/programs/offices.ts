const { rows } = JSON.parse((await db.execute_query({ sql: "SELECT city, time_zone, opens, closes FROM offices" })).result);
const open = [];
for (const [city, zone, opens, closes] of rows) {
  const { target } = await time.convert_time({ source_timezone: "UTC", time: "12:00", target_timezone: zone });
  const local = target.datetime.slice(11, 16);
  if (opens <= local && local < closes) open.push(city);
}
return open.sort();
