rows = await produce(15000)
len(rows) + rows[14999]['id']
