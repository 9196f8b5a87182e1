//! A message has no generic parameters.

#[callsign::message("shop.pricing/1")]
enum Pricing<T> {
    Set(T),
}

fn main() {}
