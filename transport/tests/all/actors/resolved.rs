//! What is found of a reference that there is already.

use super::*;

async fn what_was_resolved_is_found_again_while_it_leads_to_its_actor(carrier: Carrier) {
    let (faults, network) = memory(carrier);
    let scene = Scene::over(&network).await; // dropping an endpoint ends it
    let Scene { a, b, counter, address, remote } = &scene;
    let ActorAddress { node, incarnation, pid, .. } = address.clone();
    let found = |node: &str, incarnation| {
        b.resolved::<CounterMessage>(node, incarnation, pid).map(|found| found.get_id())
    };
    assert_eq!(found(&node, incarnation), Some(remote.get_id()));
    assert_eq!([found(&node, incarnation + 1), found("c", incarnation)], [None, None]);
    assert!(b.resolved::<Unrelated>(&node, incarnation, pid).is_none(), "it takes other messages");
    assert!(b.resolved::<CounterMessage>(&node, incarnation, pid + 1).is_none(), "nobody resolved it");
    // On its own node it is the actor.
    let own = a.resolved::<CounterMessage>(&node, incarnation, pid);
    assert_eq!(own.map(|own| own.get_id()), Some(counter.get_id()));
    assert!(a.resolved::<Unrelated>(&node, incarnation, pid).is_none());
    assert!(a.resolved::<CounterMessage>("b", incarnation, pid).is_none());
    assert!(a.resolved::<CounterMessage>(&node, incarnation + 1, pid).is_none());

    remote.stop_and_wait(None, None).await.unwrap();
    assert_eq!(found(&node, incarnation), None, "somebody stopped the reference");
    let again: ActorRef<CounterMessage> = b.resolve(address).unwrap();
    assert_eq!(found(&node, incarnation), Some(again.get_id()));
    // Under two kinds, of which one is a lie, the one that was asked for last is found.
    let lie = altered(address, |it| it.kind = Kind::of("test.Unrelated"));
    let lying: ActorRef<Unrelated> = b.resolve(&lie).unwrap();
    assert_eq!(found(&node, incarnation), None);
    assert!(b.resolved::<Unrelated>(&node, incarnation, pid).is_some());
    lying.wait(CALL_TIMEOUT).await.unwrap(); // the peer refused it
    assert!(b.resolved::<Unrelated>(&node, incarnation, pid).is_none());
    let again: ActorRef<CounterMessage> = b.resolve(address).unwrap();
    assert_eq!(found(&node, incarnation), Some(again.get_id()));

    let mut events = b.subscribe(CHANNEL);
    up(&mut events).await;
    faults.cut(a.local_addr(), b.local_addr());
    down(&mut events).await;
    assert_eq!(found(&node, incarnation), None, "the link is down");
    faults.heal(a.local_addr(), b.local_addr());
    up(&mut events).await;
    assert_eq!(found(&node, incarnation), None, "nobody resolved it over this link");
    tokio::join!(link(a, b), link(b, a));
    let again: ActorRef<CounterMessage> = b.resolve(address).unwrap();
    assert_eq!(found(&node, incarnation), Some(again.get_id()));

    counter.stop(None);
    again.wait(CALL_TIMEOUT).await.unwrap();
    assert_eq!(found(&node, incarnation), None, "the actor has ended");
    assert!(a.resolved::<CounterMessage>(&node, incarnation, pid).is_none());
}

async fn nodes_whose_incarnations_have_one_number_are_told_apart(carrier: Carrier) {
    let (_, network) = memory(carrier);
    let a = start(config("a", 1, &network)).await;
    let mut others = Vec::new();
    for (node, incarnation) in [("d", 9), ("c", 7), ("b", 7), ("e", 3)] {
        let other = start(config(node, incarnation, &network)).await;
        dial(&other, &[&a]);
        link(&a, &other).await;
        let counter = counter().await;
        let address = other.address_of(&counter);
        let reference: ActorRef<CounterMessage> = a.resolve(&address).unwrap();
        others.push((address, reference.get_id(), other));
    }
    for (address, id, _) in &others {
        let found = a.resolved::<CounterMessage>(&address.node, address.incarnation, address.pid);
        assert_eq!(found.map(|found| found.get_id()), Some(*id));
    }
    let mut events = a.subscribe(CHANNEL);
    for _ in &others {
        up(&mut events).await;
    }
    // One of the two goes.
    let (gone, _, node) = others.remove(1);
    drop(node);
    down(&mut events).await;
    assert!(a.resolved::<CounterMessage>(&gone.node, gone.incarnation, gone.pid).is_none());
    for (address, id, _) in &others {
        let found = a.resolved::<CounterMessage>(&address.node, address.incarnation, address.pid);
        assert_eq!(found.map(|found| found.get_id()), Some(*id));
    }
}

suite! {
    paused: [
        what_was_resolved_is_found_again_while_it_leads_to_its_actor,
        nodes_whose_incarnations_have_one_number_are_told_apart,
    ];
}
