const rows = await produce(15000);
return rows.length + rows[14999].id;
