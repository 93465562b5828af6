const sql = `
  SELECT c.name, t.subject FROM customers c JOIN tickets t ON t.customer_id = c.id
  WHERE t.status = 'open' ORDER BY t.id`;
const { rows } = JSON.parse((await db.execute_query({ sql })).result);
const subjects = new Map();
for (const [name, subject] of rows) subjects.set(name, [...(subjects.get(name) ?? []), subject]);
const entities = [...subjects]
  .filter(([, observations]) => observations.length >= 2)
  .map(([name, observations]) => ({ name, entityType: "customer", observations }));
const created = await memory.create_entities({ entities });
return `${created.entities.length} of ${entities.length} entities created`;
