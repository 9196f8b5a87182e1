//! The attribute has no tag.

#[callsign::message]
enum Pricing {
    Set(u64),
}

fn main() {}
