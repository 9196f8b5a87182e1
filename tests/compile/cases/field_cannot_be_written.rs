//! A field is of a type that serde neither writes nor reads.

struct Price(u64);

#[callsign::message("shop.pricing/1")]
enum Pricing {
    Set(Price),
}

fn main() {}
