// How many parcels has each carrier delivered, and how many of them late?

const orders = [];
for (let cursor; cursor !== null; ) {
  const page = await shop.list_orders({ status: "delivered", limit: 50, cursor });
  orders.push(...(await Promise.all(page.items.map(({ id }) => shop.get_order({ order_id: id })))));
  cursor = page.next_cursor;
}
const carriers = {};
for (const { promised_by, shipments } of orders) {
  for (const { carrier, delivered_on } of shipments) {
    const row = (carriers[carrier] ??= { parcels: 0, late: 0 });
    row.parcels += 1;
    if (delivered_on > promised_by) row.late += 1;
  }
}
return carriers;
