//! What is in the shop when it opens. The products are those of `data/products.csv`; customers, orders and all that
//! follows from them are drawn by dice that fall the same way every time.

use rusqlite::{Connection, Result};

use crate::terms::{TODAY, shipping_fee};
use crate::words::{CARRIERS, CITIES, FIRST_NAMES, LAST_NAMES, REMARKS, RETURN_REASONS, STREETS, VERDICTS};

/// Fills an empty database.
pub(crate) fn fill(db: &Connection) -> Result<()> {
    db.execute_batch("BEGIN")?;
    let mut opening = Opening { db, dice: Dice(SEED) };
    let products = opening.products()?;
    opening.customers()?;
    for number in 0..ORDERS {
        opening.order(number, &products)?;
    }
    db.execute_batch("COMMIT")
}

struct Opening<'a> {
    db: &'a Connection,
    dice: Dice,
}

#[derive(Clone, Copy)]
struct Product {
    id: &'static str,
    price_cents: u32,
    weight_grams: u32,
}

struct Line {
    product: Product,
    quantity: u32,
}

impl Opening<'_> {
    fn products(&mut self) -> Result<Vec<Product>> {
        let mut products = Vec::new();
        for line in include_str!("../data/products.csv").lines() {
            let fields: Vec<&'static str> = line.split('|').collect();
            let [id, name, category, price, weight, description] = fields[..] else { panic!("six fields: {line}") };
            let number = |text: &str| text.parse().expect("prices and weights are whole numbers");
            let product = Product { id, price_cents: number(price), weight_grams: number(weight) };
            let row = (id, name, category, product.price_cents, product.weight_grams, description);
            self.db.execute("INSERT INTO products VALUES (?, ?, ?, ?, ?, ?)", row)?;
            let sold_out = self.dice.chance(14);
            for warehouse in ["north", "south"] {
                self.stock(id, warehouse, sold_out)?;
            }
            products.push(product);
        }
        Ok(products)
    }

    fn stock(&mut self, product: &str, warehouse: &str, sold_out: bool) -> Result<()> {
        let reserved = self.dice.below(6);
        let available = if sold_out || self.dice.chance(12) { 0 } else { 1 + self.dice.below(40) };
        let delivery = match available < 5 && self.dice.chance(70) {
            true => Some(date(self.db, 2 + self.dice.days(25))?),
            false => None,
        };
        let row = (product, warehouse, reserved + available, reserved, delivery);
        self.db.execute("INSERT INTO stock VALUES (?, ?, ?, ?, ?)", row)?;
        Ok(())
    }

    fn customers(&mut self) -> Result<()> {
        for number in 1..=CUSTOMERS {
            let (first, last) = (*self.dice.pick(&FIRST_NAMES), *self.dice.pick(&LAST_NAMES));
            let (city, country) = *self.dice.pick(&CITIES);
            let name = format!("{first} {last}");
            let email = format!("{first}.{last}{number}@example.com").to_lowercase();
            let tier = if self.dice.chance(20) { "plus" } else { "standard" };
            let since = date(self.db, -160 - self.dice.days(1_200))?;
            let street = format!("{} {}", self.dice.pick(&STREETS), 1 + self.dice.below(120));
            let postcode = (10_000 + self.dice.below(80_000)).to_string();
            let row = (customer_id(number), name, email, tier, since, street, postcode, city, country);
            self.db.execute("INSERT INTO customers VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)?;
        }
        Ok(())
    }

    /// An order, and what became of it.
    fn order(&mut self, number: u32, products: &[Product]) -> Result<()> {
        let (id, age) = (FIRST_ORDER + number, DAYS - DAYS * number / ORDERS);
        let placed = -i64::from(age);
        let customer = customer_id(1 + self.dice.below(CUSTOMERS));
        // pending, packed, shipped, delivered, cancelled
        let status = match self.dice.weighted(match age {
            0..=1 => [70, 30, 0, 0, 0],
            2..=4 => [25, 35, 40, 0, 0],
            5..=9 => [10, 10, 30, 45, 5],
            10..=30 => [7, 6, 14, 68, 5],
            _ => [0, 0, 1, 95, 4],
        }) {
            0 => "pending",
            1 => "packed",
            2 => "shipped",
            3 => "delivered",
            _ => "cancelled",
        };
        let lines = self.lines(products);
        let value = lines.iter().map(|line| line.quantity * line.product.price_cents).sum();
        let weight = lines.iter().map(|line| line.quantity * line.product.weight_grams).sum();
        let promised = date(self.db, placed + 4 + self.dice.days(3))?;
        let row = (id, &customer, status, date(self.db, placed)?, promised, shipping_fee(value, weight));
        self.db.execute("INSERT INTO orders VALUES (?, ?, ?, ?, ?, ?)", row)?;
        for Line { product, quantity } in &lines {
            let row = (id, product.id, quantity, product.price_cents);
            self.db.execute("INSERT INTO order_lines VALUES (?, ?, ?, ?)", row)?;
        }
        match status {
            "shipped" => self.shipment(id, placed, None),
            "delivered" => {
                let delivered = placed + 3 + self.dice.days(3);
                self.shipment(id, placed, Some(delivered))?;
                self.afterwards(id, &customer, &lines, delivered)
            }
            _ => Ok(()),
        }
    }

    /// One to four products, mostly one of each.
    fn lines(&mut self, products: &[Product]) -> Vec<Line> {
        let mut lines: Vec<Line> = Vec::new();
        for _ in 0..=self.dice.weighted([30, 35, 25, 10, 0]) {
            let product = *self.dice.pick(products);
            let quantity = if self.dice.chance(85) { 1 } else { 2 };
            if lines.iter().all(|line| line.product.id != product.id) {
                lines.push(Line { product, quantity });
            }
        }
        lines
    }

    fn shipment(&mut self, order: u32, placed: i64, delivered: Option<i64>) -> Result<()> {
        let carrier = *self.dice.pick(&CARRIERS);
        let code = format!("{}{:09}", &carrier[..2].to_uppercase(), self.dice.below(1_000_000_000));
        let delivered = delivered.map(|day| date(self.db, day)).transpose()?;
        let row = (order, carrier, code, date(self.db, placed + 1 + self.dice.days(2))?, delivered);
        self.db.execute("INSERT INTO shipments VALUES (NULL, ?, ?, ?, ?, ?)", row)?;
        Ok(())
    }

    /// What customers do with what they got: they send it back, or review it.
    fn afterwards(&mut self, order: u32, customer: &str, lines: &[Line], delivered: i64) -> Result<()> {
        for Line { product, quantity } in lines {
            let later = (delivered + 1 + self.dice.days(12)).min(0);
            if self.dice.chance(6) {
                self.returned(order, product, *quantity, later)?;
            } else if self.dice.chance(45) {
                self.review(product.id, customer, later)?;
            }
        }
        Ok(())
    }

    fn returned(&mut self, order: u32, product: &Product, quantity: u32, day: i64) -> Result<()> {
        let (reason, on) = (*self.dice.pick(&RETURN_REASONS), date(self.db, day)?);
        let status = match day {
            -7.. => "requested",
            _ if self.dice.chance(10) => "rejected",
            _ => "refunded",
        };
        let row = (order, product.id, quantity, reason, status, &on);
        self.db.execute("INSERT INTO returns VALUES (NULL, ?, ?, ?, ?, ?, ?)", row)?;
        if status == "refunded" {
            let row = (order, quantity * product.price_cents, format!("return: {reason}"), date(self.db, day + 6)?);
            self.db.execute("INSERT INTO refunds VALUES (NULL, ?, ?, ?, ?)", row)?;
        }
        Ok(())
    }

    fn review(&mut self, product: &str, customer: &str, day: i64) -> Result<()> {
        let stars = self.dice.weighted([5, 8, 14, 35, 38]);
        let (title, verdicts) = &VERDICTS[stars as usize];
        let text = format!("{} {}", self.dice.pick(verdicts), self.dice.pick(&REMARKS));
        let row = (product, customer, stars + 1, title, text, date(self.db, day)?);
        self.db.execute("INSERT INTO reviews VALUES (NULL, ?, ?, ?, ?, ?, ?)", row)?;
        Ok(())
    }
}

/// The day so many days from today, as YYYY-MM-DD.
fn date(db: &Connection, from_today: i64) -> Result<String> {
    db.query_row("SELECT date(?, ? || ' days')", (TODAY, from_today), |row| row.get(0))
}

fn customer_id(number: u32) -> String {
    format!("C{number:03}")
}

/// Random numbers that are the same every time (`SplitMix64`).
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u32) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        u32::try_from(mixed % u64::from(end)).expect("less than a u32")
    }

    fn chance(&mut self, percent: u32) -> bool {
        self.below(100) < percent
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        let end = u32::try_from(from.len()).expect("a short list");
        &from[self.below(end) as usize]
    }

    fn days(&mut self, end: u32) -> i64 {
        self.below(end).into()
    }

    /// A place in `percents`, which are 100 together.
    fn weighted(&mut self, percents: [u32; 5]) -> u32 {
        let mut draw = self.below(100);
        let mut place = 0;
        for percent in percents {
            if draw < percent {
                break;
            }
            draw -= percent;
            place += 1;
        }
        place
    }
}

const SEED: u64 = 20_260_316;
const CUSTOMERS: u32 = 140;
const ORDERS: u32 = 640;
const FIRST_ORDER: u32 = 1_001;

/// How many days of orders there are.
const DAYS: u32 = 150;
