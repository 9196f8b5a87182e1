//! What opens, what is waited for, and what is refused.

use super::*;

#[tokio::test]
async fn ten_may_create_the_tables_at_once() {
    let server = server!();
    for round in 0..3 {
        let database = format!("fresh{round}");
        sql(&server, &format!("CREATE DATABASE {database}")).await;
        let barrier = std::sync::Barrier::new(10);
        let url = server.url(&database);
        let stores: Vec<_> = std::thread::scope(|scope| {
            let open = || {
                barrier.wait();
                PostgresStore::open(&url)
            };
            let all: Vec<_> = (0..10).map(|_| scope.spawn(open)).collect();
            all.into_iter().map(|one| one.join().unwrap().unwrap()).collect()
        });
        for (store, version) in stores.iter().zip(1..) {
            assert_eq!(store.commit(put("1")).await, CommitOutcome::Committed(Version(version)));
        }
    }
}

#[tokio::test]
async fn what_cannot_be_opened_is_refused_in_words() {
    let server = server!();
    let refused = |url: &str| PostgresStore::open(url).map(drop).unwrap_err();
    let nowhere = refused("postgres://u:secret@127.0.0.1:1/d");
    assert!(
        matches!(&nowhere, OpenError::Unreachable { url, .. } if url == "postgres://u@127.0.0.1:1/d"),
        "{nowhere}"
    );
    let missing = refused(&server.url("missing"));
    assert!(missing.to_string().contains("\"missing\" does not exist (3D000)"), "{missing}");

    sql(&server, "CREATE ROLE guest LOGIN").await;
    let guest = server.url_as("guest", "postgres");
    let denied = refused(&guest);
    assert!(matches!(&denied, OpenError::Server { cause, .. } if cause.contains("42501")), "{denied}");
    drop(open(&server));
    sql(
        &server,
        "GRANT USAGE ON SCHEMA callsign TO guest; GRANT ALL ON ALL TABLES IN SCHEMA callsign TO guest",
    )
    .await;
    let store = PostgresStore::open(&guest).unwrap();
    assert_eq!(store.commit(put("1")).await, CommitOutcome::Committed(Version(1)), "the tables are there");

    sql(&server, "UPDATE callsign.store SET layout = 99").await;
    let newer = refused(&server.url("postgres"));
    assert!(matches!(newer, OpenError::WrongSchema { found: 99, expected: 1, .. }), "{newer}");
    sql(
        &server,
        "DROP SCHEMA callsign CASCADE; CREATE SCHEMA callsign; CREATE TABLE callsign.kv (theirs int)",
    )
    .await;
    let theirs = refused(&server.url("postgres"));
    assert!(matches!(&theirs, OpenError::Server { cause, .. } if cause.contains("42P07")), "{theirs}");
}

#[tokio::test]
async fn a_server_that_does_not_say_its_timeline_is_not_used() {
    let server = server!();
    drop(open(&server));
    sql(&server, "REVOKE EXECUTE ON FUNCTION pg_walfile_name FROM PUBLIC; CREATE ROLE guest LOGIN").await;
    let guest = PostgresStore::open(&server.url_as("guest", "postgres")).map(drop).unwrap_err();
    assert!(guest.to_string().contains("pg_walfile_name (42501)"), "{guest}");
}

#[tokio::test]
async fn a_server_that_is_starting_up_is_waited_for() {
    let server = server!();
    let proxy = Proxy::start(server.socket());
    proxy.start_up_for(2);
    let store = PostgresStore::open(&proxy.url("postgres")).unwrap();
    at_last(&store, put("1")).await;
}

#[tokio::test]
async fn a_server_that_is_started_later_is_waited_for() {
    let mut server = server!();
    server.stop();
    let (url, clock) = (server.url("postgres"), Clock::boot());
    let at_once = open_patiently(&url, &clock, Some(Duration::ZERO), |_| panic!("nobody waits")).await;
    assert!(matches!(at_once, Err(OpenError::Unreachable { .. })));

    let (says, said) = tokio::sync::oneshot::channel();
    let waits = move |error: &OpenError| says.send(error.to_string()).unwrap();
    let opening = tokio::spawn(async move { open_patiently(&url, &clock, None, waits).await });
    let said = timeout(TEST_DEADLINE, said).await.unwrap().unwrap();
    assert!(said.contains("cannot be reached"), "{said}");
    server.resume();
    let store = timeout(TEST_DEADLINE, opening).await.unwrap().unwrap().unwrap();
    assert_eq!(store.commit(put("1")).await, CommitOutcome::Committed(Version(1)));
}

/// A commit waits for the standby, and no limit of the server ends that.
#[tokio::test]
async fn a_server_whose_standby_is_away_while_the_tables_are_created_is_waited_for() {
    let Some(server) = Server::start_with("synchronous_standby_names = '*'\n") else { return };
    // One process tells the others whether to wait, and it takes its settings before it makes a checkpoint.
    server.ask("CHECKPOINT");
    let (url, clock) = (server.url("postgres"), Clock::boot());
    for what in ["the first waits for the standby", "the second waits for the first"] {
        let opening = open_patiently(&url, &clock, Some(Duration::ZERO), |_| panic!("nobody waits"));
        let refused = timeout(TEST_DEADLINE, opening).await.expect(what).map(drop).unwrap_err();
        assert!(refused.may_pass(), "{what}: {refused}");
    }
    let (says, said) = tokio::sync::oneshot::channel();
    let waits = move |error: &OpenError| says.send(error.to_string()).unwrap();
    let opening = tokio::spawn(async move { open_patiently(&url, &clock, None, waits).await });
    timeout(TEST_DEADLINE, said).await.unwrap().unwrap();
    server.ask("ALTER SYSTEM RESET synchronous_standby_names");
    server.ask("SELECT pg_reload_conf()");
    let store = timeout(TEST_DEADLINE, opening).await.unwrap().unwrap().unwrap();
    assert_eq!(store.commit(put("1")).await, CommitOutcome::Committed(Version(1)));
}

#[tokio::test]
async fn an_opening_that_waits_for_another_one_ends_and_may_be_tried_again() {
    let server = server!();
    let other = other(&server).await;
    other.execute("SELECT pg_advisory_lock($1)", &[&schema::CREATING]).await.unwrap();
    let busy = PostgresStore::open(&server.url("postgres")).map(drop).unwrap_err();
    assert!(busy.may_pass() && busy.to_string().contains("55P03"), "{busy}");
    other.batch_execute("SELECT pg_advisory_unlock_all()").await.unwrap();
    drop(open(&server));
}

#[tokio::test]
async fn a_server_that_shuts_down_while_the_tables_are_created_may_be_tried_again() {
    let mut server = server!();
    let other = other(&server).await;
    other.execute("SELECT pg_advisory_lock($1)", &[&schema::CREATING]).await.unwrap();
    let url = server.url("postgres");
    let opening = tokio::task::spawn_blocking(move || PostgresStore::open(&url).map(drop));
    let waits = "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)";
    let it_waits = async { while !other.query_one(waits, &[]).await.unwrap().get::<_, bool>(0) {} };
    timeout(TEST_DEADLINE, it_waits).await.expect("it waits for the other");
    server.stop();
    let refused = timeout(TEST_DEADLINE, opening).await.expect("it ends").unwrap().unwrap_err();
    assert!(refused.may_pass(), "{refused}");
}

#[tokio::test]
async fn a_standby_is_never_used() {
    let server = server!();
    drop(open(&server));
    // As good as a standby: it takes no writes.
    sql(&server, "ALTER ROLE postgres SET default_transaction_read_only = on").await;
    assert!(matches!(PostgresStore::open(&server.url("postgres")), Err(OpenError::Unreachable { .. })));
}

#[tokio::test]
async fn a_connection_is_encrypted_and_the_server_checked_as_asked_for() {
    let mut server = server!();
    let Some((port, certificate)) = server.encrypt() else { return };
    let sslrootcert = format!("&sslrootcert={}", certificate.display());
    let connect = async |host: &str, options: &str| {
        let address =
            Address::parse(&format!("postgres://postgres@{host}:{port}/postgres?{options}")).unwrap();
        let (client, driven) = hosts::connect(&address).await?;
        tokio::spawn(driven);
        let asked = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
        Ok::<bool, not_connected::NotConnected>(client.query_one(asked, &[]).await?.get(0))
    };
    assert!(!connect("localhost", "sslmode=disable").await.unwrap());
    assert!(connect("localhost", "sslmode=prefer").await.unwrap());
    assert!(connect("127.0.0.1", "sslmode=require").await.unwrap());
    let verified = "sslmode=verify-full".to_owned() + &sslrootcert;
    assert!(connect("localhost", &verified).await.unwrap());
    let wrong_name = connect("127.0.0.1", &verified).await.unwrap_err().to_string();
    assert!(wrong_name.contains("not valid for name"), "{wrong_name}");
    let unknown = connect("localhost", "sslmode=verify-full").await;
    assert!(unknown.is_err_and(|error| error.to_string().contains("TLS")));
}
