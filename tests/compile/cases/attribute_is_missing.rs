//! The messages of a reference have no attribute.

use callsign::{RactorMessage, Registry};
use ractor::ActorRef;

#[derive(RactorMessage)]
enum Pricing {
    Set(u64),
}

fn find(registry: &Registry) {
    let _: Result<ActorRef<Pricing>, _> = registry.whereis("pricing");
}

fn main() {}
