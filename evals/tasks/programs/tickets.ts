const { result } = await db.execute_query({ sql: "SELECT count(*)::INTEGER FROM tickets WHERE status = 'open'" });
return JSON.parse(result).rows[0][0];
