-- Dates are text, as YYYY-MM-DD. Money is in cents of a euro.
CREATE TABLE products (
    id TEXT PRIMARY KEY, name TEXT NOT NULL, category TEXT NOT NULL,
    price_cents INTEGER NOT NULL, weight_grams INTEGER NOT NULL, description TEXT NOT NULL
);
CREATE TABLE stock (
    product_id TEXT NOT NULL REFERENCES products, warehouse TEXT NOT NULL,
    on_hand INTEGER NOT NULL, reserved INTEGER NOT NULL, next_delivery_on TEXT,
    PRIMARY KEY (product_id, warehouse), CHECK (0 <= reserved AND reserved <= on_hand)
);
CREATE TABLE customers (
    id TEXT PRIMARY KEY, name TEXT NOT NULL, email TEXT NOT NULL, tier TEXT NOT NULL, customer_since TEXT NOT NULL,
    street TEXT NOT NULL, postcode TEXT NOT NULL, city TEXT NOT NULL, country TEXT NOT NULL
);
CREATE TABLE orders (
    id INTEGER PRIMARY KEY, customer_id TEXT NOT NULL REFERENCES customers, status TEXT NOT NULL,
    placed_on TEXT NOT NULL, promised_by TEXT NOT NULL, shipping_fee_cents INTEGER NOT NULL
);
CREATE TABLE order_lines (
    order_id INTEGER NOT NULL REFERENCES orders, product_id TEXT NOT NULL REFERENCES products,
    quantity INTEGER NOT NULL, unit_price_cents INTEGER NOT NULL, PRIMARY KEY (order_id, product_id)
);
CREATE TABLE shipments (
    id INTEGER PRIMARY KEY, order_id INTEGER NOT NULL REFERENCES orders, carrier TEXT NOT NULL,
    tracking_code TEXT NOT NULL, shipped_on TEXT NOT NULL, delivered_on TEXT
);
CREATE TABLE refunds (
    id INTEGER PRIMARY KEY, order_id INTEGER NOT NULL REFERENCES orders,
    amount_cents INTEGER NOT NULL, reason TEXT NOT NULL, refunded_on TEXT NOT NULL
);
CREATE TABLE returns (
    id INTEGER PRIMARY KEY, order_id INTEGER NOT NULL REFERENCES orders, product_id TEXT NOT NULL REFERENCES products,
    quantity INTEGER NOT NULL, reason TEXT NOT NULL, status TEXT NOT NULL, requested_on TEXT NOT NULL
);
CREATE TABLE reviews (
    id INTEGER PRIMARY KEY, product_id TEXT NOT NULL REFERENCES products, customer_id TEXT NOT NULL REFERENCES customers,
    rating INTEGER NOT NULL, title TEXT NOT NULL, text TEXT NOT NULL, written_on TEXT NOT NULL
);

-- An order with what it cost.
CREATE VIEW order_totals AS
SELECT orders.*, shipping_fee_cents + sum(quantity * unit_price_cents) AS total_cents
FROM orders JOIN order_lines ON order_id = orders.id GROUP BY orders.id;
