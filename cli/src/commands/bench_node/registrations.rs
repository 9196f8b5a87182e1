//! Registers many names at once.

use std::{collections::BTreeMap, sync::Arc};

use anyhow::{Context, Result, bail};
use callsign::{Meta, RegisterError, RegisterOptions, Registration};

use super::{LOOK_EVERY, Node, actors::each};
use crate::{
    commands::bench::orders::{Contested, Names, Registered},
    measure::now_ns,
};

type RegisterOutcome = (u32, Result<Registration, RegisterError>);

/// Registers by so many tasks, each of which takes the next name when it has the verdict on the last.
async fn all(
    node: &Node,
    names: Names,
    meta: Option<Meta>,
    spared: u32,
    in_flight: u32,
    start_ns: u64,
) -> Vec<RegisterOutcome> {
    let (node, all) = (Arc::new(node.clone()), names.from..names.to);
    let mut options = RegisterOptions::default();
    options.meta = meta;
    let register = move |number| {
        let (node, name, options) = (node.clone(), names.name(number), options.clone());
        async move { (number, node.of(number, spared).register_with(&name, &node.actor, options).await) }
    };
    each(all, in_flight, start_ns, register).await
}

fn count(failed: &mut BTreeMap<String, u32>, error: &RegisterError) {
    // The variant, without the facts that differ from name to name.
    let text = format!("{error:?}");
    let variant = text.split([' ', '(', '{']).next().unwrap_or(&text);
    *failed.entry(variant.to_owned()).or_default() += 1;
}

/// Registers all the names, each with so many bytes of metadata, in all registries but the first `spared`.
pub(super) async fn register(
    node: &Node,
    names: Names,
    meta: usize,
    spared: u32,
    in_flight: u32,
    start_ns: u64,
) -> Result<Registered> {
    // A text has one or two bytes more, encoded.
    let text = |bytes: usize| "m".repeat(bytes.saturating_sub(2));
    let meta = (meta > 0).then(|| Meta::new(&text(meta))).transpose()?;
    let outcomes = all(node, names, meta, spared, in_flight, start_ns).await;
    let mut registered = Registered { acknowledged: 0, done_ns: now_ns(), failed: BTreeMap::new() };
    for (_, outcome) in outcomes {
        match outcome {
            Ok(_) => registered.acknowledged += 1,
            Err(error) => count(&mut registered.failed, &error),
        }
    }
    Ok(registered)
}

/// Claims all the names, and says which were granted.
pub(super) async fn contest(node: &Node, names: Names, in_flight: u32, start_ns: u64) -> Result<Contested> {
    let mut contested = Contested { granted: Vec::new(), taken: 0, failed: BTreeMap::new() };
    for (number, outcome) in all(node, names, None, 0, in_flight, start_ns).await {
        match outcome {
            Ok(_) => contested.granted.push(number),
            Err(RegisterError::Taken { .. }) => contested.taken += 1,
            Err(error) => count(&mut contested.failed, &error),
        }
    }
    Ok(contested)
}

/// Registers a name, again a millisecond after each refusal to say. Returns the moment at which it was granted.
pub(super) async fn register_at_last(node: &Node, name: &str) -> Result<u64> {
    let trying = async {
        loop {
            match node.registry.register(name, &node.actor).await {
                Ok(_) => return Ok(now_ns()),
                Err(RegisterError::Taken { holder, .. }) => bail!("{name} is held by {holder:?}"),
                Err(_) => tokio::time::sleep(LOOK_EVERY).await,
            }
        }
    };
    tokio::time::timeout(node.patience, trying).await.context("no registration is acknowledged any more")?
}
