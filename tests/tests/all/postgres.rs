//! The demo over a private Postgres server, and a join that waits for one. The promises over one: `CALLSIGN_TEST_STORE=postgres`.

use std::{process::Command, time::Duration};

use callsign::{Config, JoinError, Registry};
use callsign_store::testing::log::Listening;
use callsign_tests::{TEST_DEADLINE, TestStore, callsign};

#[test]
fn the_demo_is_ok_on_postgres() {
    let Some(place) = TestStore::postgres() else { return };
    let output = Command::new(callsign())
        .args(["demo", "--json", "--names", "100", "--store", &place.url])
        .output()
        .unwrap();
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && report["ok"] == true, "{report}\n{said}");
}

#[tokio::test]
async fn a_join_waits_for_a_store_that_cannot_be_reached_as_long_as_it_was_told() {
    let Some(mut place) = TestStore::postgres() else { return };
    let config = |patience| Config::new("a", place.url.as_str()).join_timeout(patience);
    let (short, long) = (config(Duration::from_millis(50)), config(TEST_DEADLINE));
    place.server().unwrap().stop();
    let refused = Registry::join(short).await.map(drop);
    assert!(matches!(refused, Err(JoinError::Store(_))), "{refused:?}");
    let log = Listening::to("callsign");
    let mut joining = Box::pin(Registry::join(long));
    let waits = async {
        while !log.all().iter().any(|line| line["message"].contains("it is tried again")) {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        biased;
        joined = &mut joining => panic!("nobody is there: {:?}", joined.map(drop)),
        waits = tokio::time::timeout(TEST_DEADLINE, waits) => waits.unwrap(),
    }
    place.server().unwrap().resume();
    let registry = tokio::time::timeout(TEST_DEADLINE, joining).await.unwrap().unwrap();
    registry.leave().await.unwrap();
}
