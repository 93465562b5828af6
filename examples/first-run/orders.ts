// Who still waits for an order, and how much are they worth?
// Every `shop.…` is a tool of the host. This program can call them, and nothing else.

enum Status {
  Open = "open",
  Shipped = "shipped",
}

interface Order {
  id: number;
  customerId: string;
  status: Status;
  total: number;
}

const orders: Order[] = await shop.list_orders({ status: Status.Open });
const total = orders.reduce((sum, order) => sum + order.total, 0);
console.log(`${orders.length} open orders`);

// The customers are looked up side by side.
const ids = [...new Set(orders.map((order) => order.customerId))];
const customers = await Promise.all(ids.map((id) => shop.get_customer({ id })));
console.log(`from ${customers.map(({ name }) => name).join(" and ")}`);

// The last expression is the result: all that goes back to the model.
({ orders: orders.length, customers: customers.length, total });
