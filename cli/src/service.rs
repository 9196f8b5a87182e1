//! What the manager of services hears of a command: systemd, by the socket that it names in the environment (`Type=notify`).
//!
//! Without such a socket nothing is said. What cannot be said is logged once, and changes nothing.

use std::{sync::Once, time::Duration};

use callsign::{NotLive, NotReady, Registry, in_full};
use sd_notify::NotifyState;

/// What a program that a command runs must not find: it is about the command's own process.
pub(crate) const OWN_ENVIRONMENT: [&str; 3] = ["NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"];

/// How long one wait for the registry to serve is.
const SERVES: Duration = Duration::from_secs(60);

fn say(states: &[NotifyState<'_>]) {
    static FAILED: Once = Once::new();
    if let Err(error) = sd_notify::notify(states) {
        FAILED.call_once(|| tracing::warn!("the manager of services cannot be told how this is: {error}"));
    }
}

/// It has started, and this is how it is.
pub(crate) fn is_ready(how: &str) {
    say(&[NotifyState::Ready, NotifyState::Status(how)]);
}

/// It ends in good order from here on.
pub(crate) fn is_stopping() {
    say(&[NotifyState::Stopping, NotifyState::Status("stops")]);
}

/// Says that a node has started once it serves in all of its registries, and that it lives as long as its members answer. Ends with the
/// runtime.
pub(crate) async fn of_node(registries: Vec<Registry>) {
    let all = registries.clone();
    let serves = async {
        if all_serve(&all, |why| say(&[NotifyState::Status(why)])).await {
            is_ready("serves");
        }
    };
    tokio::join!(serves, lives(registries));
}

/// Waits until they all serve, and tells why they do not yet. False: one of them never will.
async fn all_serve(registries: &[Registry], tell: impl Fn(&str)) -> bool {
    for registry in registries {
        loop {
            match registry.ready(SERVES).await {
                Ok(()) => break,
                Err(NotReady::Left | NotReady::Failed(_)) => return false,
                Err(why) => tell(&in_full(&why).to_string()),
            }
        }
    }
    true
}

/// Says that the process lives, if somebody wants to know, at least twice in the time after which it is killed otherwise: as long as these
/// members answer, or, without any, as long as it does anything. Ends with the runtime.
pub(crate) async fn lives(registries: Vec<Registry>) {
    let Some(limit) = sd_notify::watchdog_enabled() else { return };
    let pause = limit / 4;
    loop {
        match all_live(&registries, pause).await {
            Ok(()) => say(&[NotifyState::Watchdog]),
            Err(why) => {
                tracing::error!(
                    "the manager of services is not told that this node lives: {}",
                    in_full(&why)
                );
            }
        }
        tokio::time::sleep(pause).await;
    }
}

async fn all_live(registries: &[Registry], within: Duration) -> Result<(), NotLive> {
    for registry in registries {
        registry.live(within).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use callsign::{Clock, Config, MemoryNetwork, MemoryStore, Network, SharedStore};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_node_has_started_when_it_serves_in_all_of_its_registries() {
        let store = MemoryStore::new();
        let config = Config::new("a", std::sync::Arc::new(store.connect("a")) as SharedStore)
            .listen(([127, 0, 0, 1], 7001).into())
            .network(Network::Memory(MemoryNetwork::new()))
            .clock(Clock::runtime());
        let first = Registry::join(config).await.unwrap();
        assert!(first.ready(SERVES).await.is_ok());
        store.outage_for_all();
        let second = first.join_beside("second").await.unwrap();
        let both = [first.clone(), second];
        let told = std::sync::Mutex::new(Vec::new());
        let serve = all_serve(&both, |why| told.lock().unwrap().push(why.to_owned()));
        let in_vain = tokio::time::timeout(3 * SERVES, serve).await;
        assert!(in_vain.is_err() && !told.lock().unwrap().is_empty());
        store.heal_all();
        assert!(all_serve(&both, |_| ()).await);
        first.leave().await.unwrap();
        assert!(!all_serve(&both, |_| ()).await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_process_does_not_live_if_one_of_its_members_hangs() {
        let config = Config::new("a", std::sync::Arc::new(MemoryStore::new()) as SharedStore)
            .listen(([127, 0, 0, 1], 7001).into())
            .network(Network::Memory(MemoryNetwork::new()))
            .clock(Clock::runtime());
        let first = Registry::join(config).await.unwrap();
        let second = first.join_beside("second").await.unwrap();
        let (members, within) = ([first.clone(), second.clone()], Duration::from_secs(1));
        assert_eq!(all_live(&members, within).await, Ok(()));
        for hangs in members.each_ref() {
            hangs.hang_member(Duration::from_secs(10));
            let hung = Err(NotLive::Unanswered { waited: within });
            assert_eq!(all_live(&members, within).await, hung);
            assert!(hangs.ready(SERVES).await.is_ok(), "it comes to itself");
            assert_eq!(all_live(&members, within).await, Ok(()));
        }
    }
}
