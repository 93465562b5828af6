//! A shop.
fn main() {}
