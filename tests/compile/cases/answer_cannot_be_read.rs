//! An answer is of a type that serde writes, and does not read.

use ractor::RpcReplyPort;

#[derive(serde::Serialize)]
struct Price(u64);

#[callsign::message("shop.pricing/1")]
enum Pricing {
    Get(RpcReplyPort<Price>),
}

fn main() {}
