//! A question has one answer.

use ractor::RpcReplyPort;

#[callsign::message("shop.pricing/1")]
enum Pricing {
    Get(RpcReplyPort<u64>, RpcReplyPort<String>),
}

fn main() {}
