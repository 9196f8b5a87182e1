//! What a user has who sets nothing. Another default is another behaviour: a line of CHANGELOG, and of `docs/configuration.md`.

use std::{fmt::Debug, path::PathBuf, time::Duration};

use callsign_store::Entropy;

use crate::{
    Config, ElectorTiming, LinkLimits, LinkTiming, NameRefOptions, OnOutage, RegisterOptions, Secret,
    SessionTiming, core::tuning::Tuning,
};

fn said(defaults: &[&dyn Debug]) -> Vec<String> {
    defaults.iter().map(|default| format!("{default:?}")).collect()
}

#[test]
fn the_defaults_of_a_node_are_these() {
    let config = Config::new("a", "memory:");
    let names = (&config.cluster, &config.registry, &config.listen, &config.advertise, &config.admin);
    let calls = (config.request_timeout, config.join_timeout, config.drain_timeout, &config.on_outage);
    let options = RegisterOptions::default();
    let said = said(&[
        &(names, config.priority, config.ordered),
        &calls,
        &config.session,
        &config.elector,
        &config.link,
        &LinkLimits::default(),
        &Tuning::default(),
        &(
            config.snapshot_chunk,
            config.observers,
            config.watch_room,
            config.watch_memory,
            options.wait,
            options.on_outage,
        ),
        &NameRefOptions::default(),
    ]);
    assert_eq!(
        said,
        [
            "((\"default\", \"default\", 127.0.0.1:0, None, None), 1, false)",
            "(5s, None, 5s, Wait)",
            "SessionTiming { lease: 10s, margin: 500ms, drift_ppm: 1000, beat_every: 2s, observe_every: 1s, \
             sweep_after: 3600s, sweep_page: 100 }",
            "ElectorTiming { poll: 1s, silence: 2s, lock: 3s, handoff: 2s, turn: 20ms, closed: 50ms, \
             sweep_after: 3600s }",
            "LinkTiming { handshake: 3s, ping: 1.5s, silence: 5s, redial_min: 50ms, redial_max: 2s, leave: 2s \
             }",
            "LinkLimits { frame: 4194304, control_queue: 16777216, bulk_queue: 8388608, bulk_window: 524288, \
             inbox: 8388608, unauthenticated: 128, unauthenticated_per_address: 32, reserved: 64, \
             handshakes_per_second: 100, received_per_second: 268435456, links: 1024, open_calls: 67108864, \
             references: 262144 }",
            "Tuning { cut_worth: 256, chunk_names: 1024, snapshot_window: 8, memory_bytes: 16777216, \
             max_lag: 67108864, slice_names: 1024, own_names: 256, batch_bytes: 90000, watch_bytes: 4194304, missed_bytes: 262144, \
             observers: 3, watch_looks: 8192, counts_checks: false }",
            "(1024, 3, 1024, 4194304, None, None)",
            "NameRefOptions { buffer: 1024, deadline: 10s }",
        ]
    );
}

#[test]
fn what_is_set_is_what_a_node_has() {
    let second = Duration::from_secs;
    let session = SessionTiming::default().with(|timing| timing.lease = second(20));
    let elector = ElectorTiming::default().with(|timing| timing.poll = second(4));
    let link = LinkTiming::default().with(|timing| timing.ping = second(2));
    let limits = LinkLimits::default().with(|limits| limits.links = 7);
    let config = Config::new("a", "memory:")
        .cluster("c")
        .registry("r")
        .listen(([127, 0, 0, 2], 7).into())
        .advertise("x:7")
        .admin_address("y:8")
        .ordered(true)
        .priority(2)
        .request_timeout(second(1))
        .join_timeout(second(2))
        .drain_timeout(second(3))
        .on_outage(OnOutage::Fail)
        .session_timing(session)
        .elector_timing(elector)
        .link_timing(link)
        .link_limits(limits)
        .secret(Secret::new("0123456789abcdef0123456789abcdef").unwrap())
        .entropy(Entropy::seeded(7))
        .record("/tmp/x");
    assert_eq!((config.keys.secrets.len(), config.keys.tls.is_some()), (1, false));
    assert_eq!(config.entropy.draw(), Entropy::seeded(7).draw());
    let names = [&config.node, &config.cluster, &config.registry].map(String::as_str);
    assert_eq!((names, config.priority, config.ordered), (["a", "c", "r"], 2, true));
    assert_eq!(
        (config.listen.to_string().as_str(), config.advertise.as_deref(), config.admin.as_deref()),
        ("127.0.0.2:7", Some("x:7"), Some("y:8"))
    );
    assert_eq!(
        (config.request_timeout, config.join_timeout, config.drain_timeout, config.on_outage),
        (second(1), Some(second(2)), second(3), OnOutage::Fail)
    );
    assert_eq!((config.session, config.elector, config.link), (session, elector, link));
    assert_eq!((config.limits, &config.record), (limits, &Some(PathBuf::from("/tmp/x"))));
    // A chunk without a name would never get to the end of the table.
    let chunks = [0, 1, 9].map(|names| config.clone().snapshot_chunk(names).snapshot_chunk);
    assert_eq!(chunks, [1, 1, 9]);
    assert_eq!(config.clone().observers(1).observers, 1);
    // Without room nothing would ever be given, and nobody would say that there is room again.
    let rooms = [0, 2, 9].map(|events| config.clone().watch_room(events).watch_room);
    assert_eq!((rooms, config.watch_memory(7).watch_memory), ([2, 2, 9], 7));
}

#[cfg(feature = "election")]
#[test]
fn the_defaults_of_elections_and_singletons_are_these() {
    use callsign_election::{CampaignSettings, ElectionConfig, LeaseOptions, Timing};
    use callsign_store::ids::{ElectionName, MemberId};

    use crate::{MonitorSettings, core::singleton::Restarts};

    let campaign = CampaignSettings::new(ElectionName::new("e").unwrap(), MemberId::new("a").unwrap());
    let attempts = campaign.activate_attempts;
    let LeaseOptions { config, priority, tags, register, watch, .. } = LeaseOptions::default();
    let said = said(&[
        &ElectionConfig::default(),
        &Timing::default(),
        &(
            attempts,
            campaign.activate_timeout,
            campaign.abdicate_tries,
            campaign.claim_delay,
            campaign.cool_down,
        ),
        &(config == Some(ElectionConfig::default()), priority, tags, register, watch),
        &MonitorSettings::default(),
        &Restarts::default(),
    ]);
    assert_eq!(
        said,
        [
            "ElectionConfig { policy: Policy { order: [Proposer, Id], preempt: Never, replace: Immediately, \
             min_tenure: 0ns, zero_is_ineligible: true, requires: None }, lease: 10s, lock_delay: 0ns, \
             candidate_timeout: 15s }",
            "Timing { lease: 10s, refresh: 3s, op_timeout: 2s, margin: 500ms, stop_budget: 2s, drift_ppm: \
             1000, poll: 2s, jitter: 1s, spread: 50ms, backoff: 200ms, backoff_max: 10s }",
            "(3, 30s, [1s, 2s, 3s], 0ns, 10s)",
            "(true, 1, {}, true, true)",
            "MonitorSettings { delay: 5s, timeout: 30s }",
            "Restarts { at_most: 3, within: 30s }",
        ]
    );
}
