//! Another secret, on nodes that live.

use crate::support::*;
use callsign_transport::{
    Carrier, Endpoint, Keys, KeysRefused, LinkEvent, LinkId, MAX_SECRETS, Refused, Secret,
};

fn keys(secrets: &[&str]) -> Keys {
    Keys { secrets: secrets.iter().map(|secret| Secret::new(secret).unwrap()).collect(), tls: None }
}

const OLD: &str = "the secret that leaves";
const NEW: &str = "the secret that comes, another";

/// The documented order: accept both, show the new one, accept only that.
const STEPS: [&[&str]; 4] = [&[OLD], &[OLD, NEW], &[NEW, OLD], &[NEW]];

async fn node(name: &str, incarnation: u64, over: &Over, secrets: &[&str]) -> Endpoint {
    let mut settings = config(name, incarnation, over);
    settings.keys = keys(secrets);
    start(settings).await
}

fn all_links(nodes: &[Endpoint]) -> Vec<(LinkId, String)> {
    nodes.iter().flat_map(Endpoint::links).map(|status| (status.link, status.peer.to_string())).collect()
}

async fn a_secret_changes_on_three_living_nodes_and_no_link_is_lost(carrier: Carrier) {
    let (_, network) = memory(carrier);
    let mut nodes = Vec::new();
    for (incarnation, name) in (1..).zip(["b", "c", "d"]) {
        nodes.push(node(name, incarnation, &network, STEPS[0]).await);
    }
    for n in 1..nodes.len() {
        dial(&nodes[n], &nodes[..n].iter().collect::<Vec<_>>());
    }
    let mut events: Vec<_> = nodes.iter().map(|node| node.subscribe(CHANNEL)).collect();
    for from in &nodes {
        for to in nodes.iter().filter(|to| to.peer_id() != from.peer_id()) {
            link(from, to).await;
        }
    }
    let links = all_links(&nodes);
    let mut incarnation = 10;
    for step in STEPS.windows(2) {
        for n in 0..nodes.len() {
            assert!(nodes[n].set_keys(keys(step[1])).unwrap());
            // Nodes that are started in the middle of a step, with what is before it or behind it, get in everywhere:
            // whom they dial, and who dials them.
            for secrets in step {
                incarnation += 1;
                let (lesser, greater) = (
                    node("a", incarnation, &network, secrets).await,
                    node("e", incarnation, &network, secrets).await,
                );
                dial(&greater, &nodes.iter().collect::<Vec<_>>());
                for (n, node) in nodes.iter().enumerate() {
                    dial(node, &[&[&lesser], &nodes[..n].iter().collect::<Vec<_>>()[..]].concat());
                    link(node, &lesser).await;
                    link(node, &greater).await;
                }
                lesser.leave().await;
                greater.leave().await;
            }
        }
    }
    for (n, node) in nodes.iter().enumerate() {
        dial(node, &nodes[..n].iter().collect::<Vec<_>>());
    }
    until("only the three are left", || (all_links(&nodes) == links).then_some(())).await;
    for (node, events) in nodes.iter().zip(&mut events) {
        node.leave().await;
        // Up to its own leaving, nobody among the three was down.
        let mut ended = 0;
        while let Some(event) = events.recv().await {
            match event {
                LinkEvent::Down { peer, reason, .. } if ["b", "c", "d"].contains(&&*peer.node) => {
                    use callsign_transport::DownReason::{Goodbye, Left};
                    assert!(matches!(reason, Goodbye | Left), "{peer}: {reason}");
                    ended += 1;
                }
                LinkEvent::Up { peer, .. } if ["b", "c", "d"].contains(&&*peer.node) => {
                    assert_eq!(ended, 0, "{peer} came back");
                }
                _ => {}
            }
        }
    }
}

async fn a_secret_that_is_not_accepted_any_more_is_a_wrong_one(carrier: Carrier) {
    let (_, network) = memory(carrier);
    let a = node("a", 1, &network, STEPS[3]).await;
    let b = node("b", 2, &network, STEPS[1]).await;
    dial(&b, &[&a]);
    assert_eq!(refused(&b, |why| *why == Refused::Secret).await, Refused::Secret);
    // The one that is shown first is what counts: now it is the new one.
    b.set_keys(keys(STEPS[2])).unwrap();
    link(&b, &a).await;
}

async fn a_running_node_gets_no_keys_that_would_cut_it_off(carrier: Carrier) {
    let (_, network) = memory(carrier);
    let a = node("a", 1, &network, STEPS[0]).await;
    assert!(matches!(a.set_keys(keys(&[])), Err(KeysRefused::OtherSecurity { .. })));
    let many = [OLD; MAX_SECRETS + 1];
    assert_eq!(a.set_keys(keys(&many)), Err(KeysRefused::TooManySecrets { count: many.len() }));
    assert_eq!(a.set_keys(keys(STEPS[0])), Ok(false), "nothing has changed");
    let b = node("b", 2, &network, STEPS[0]).await;
    dial(&b, &[&a]);
    link(&b, &a).await;
}

suite! {
    paused: [
        a_secret_changes_on_three_living_nodes_and_no_link_is_lost,
        a_secret_that_is_not_accepted_any_more_is_a_wrong_one,
        a_running_node_gets_no_keys_that_would_cut_it_off,
    ];
}
