// Which customers have a late order with a product that is out of stock, and what did they pay for shipping?

const all = async (list, filter) => {
  const items = [];
  for (let cursor; cursor !== null; ) {
    const page = await list({ ...filter, cursor, limit: 50 });
    items.push(...page.items);
    cursor = page.next_cursor;
  }
  return items;
};

const { today } = await shop.shop_info({});
const late = async (status) => all(shop.list_orders, { status, promised_before: today });
const [stock, ...lists] = await Promise.all([all(shop.stock_levels, {}), ...["pending", "packed", "shipped"].map(late)]);

const available = {};
for (const level of stock) available[level.product_id] = (available[level.product_id] ?? 0) + level.available;

const orders = await Promise.all(lists.flat().map(({ id }) => shop.get_order({ order_id: id })));
const waiting = new Map();
for (const order of orders.sort((a, b) => a.id - b.id)) {
  const missing = order.lines.filter((line) => available[line.product_id] === 0);
  if (missing.length === 0) continue;
  const row = waiting.get(order.customer_id) ?? { orders: [], out_of_stock: [], shipping_cents: 0 };
  row.orders.push(order.id);
  row.out_of_stock.push(...missing.map((line) => line.product_name));
  row.shipping_cents += order.shipping_fee_cents;
  waiting.set(order.customer_id, row);
}

const customers = await Promise.all(
  [...waiting].map(async ([customer_id, row]) => {
    const { name, email } = await shop.get_customer({ customer_id });
    return { name, email, ...row };
  }),
);
return { customers, shipping_cents: customers.reduce((sum, row) => sum + row.shipping_cents, 0) };
