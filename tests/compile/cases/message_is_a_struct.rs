//! A message is an enum.

#[callsign::message("shop.pricing/1")]
struct Set(u64);

fn main() {}
