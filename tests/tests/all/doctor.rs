//! `callsign doctor`: what is wrong with a store, in words.

use std::{
    fs,
    path::Path,
    process::Command,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use callsign_store::{Read, open};
use callsign_tests::{PostgresServer, TestStore, callsign};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose, SanType,
    date_time_ymd,
};
use serde_json::Value;

/// Exit status, and what it says: of each check the verdict, said and advice.
struct Said {
    status: Option<i32>,
    body: Value,
}

impl Said {
    fn of(url: &str) -> Self {
        Self::run(Command::new(callsign()).args(["doctor", "--json", "--store", url]))
    }

    fn run(command: &mut Command) -> Self {
        let output = command.env_remove("PGPASSWORD").output().unwrap();
        let body = serde_json::from_slice(&output.stdout);
        let body = body.unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
        Self { status: output.status.code(), body }
    }

    #[track_caller]
    fn verdict(&self, check: &str) -> &str {
        let checks = self.body["checks"].as_array().unwrap();
        let found = checks.iter().find(|found| found["check"] == check);
        found.unwrap_or_else(|| panic!("no {check}: {}", self.body))["verdict"].as_str().unwrap()
    }

    /// It ends with this status, and with this check, which says what to do.
    #[track_caller]
    fn fails(&self, status: i32, check: &str, says: &str) {
        assert_eq!(self.status, Some(status), "{}", self.body);
        let is_meant = |found: &&Value| found["check"] == check && found["verdict"] != "ok";
        let found = self.body["checks"].as_array().unwrap().iter().find(is_meant);
        let found = found.unwrap_or_else(|| panic!("nothing is wrong with {check}: {}", self.body));
        assert!(found["said"].as_str().unwrap().contains(says), "{found}");
        assert!(status == 2 || found["advice"].is_string(), "{found}");
        assert_eq!(self.body["ok"], false);
    }
}

fn is_well(url: &str) {
    let said = Said::of(url);
    assert_eq!((said.status, &said.body["ok"]), (Some(0), &Value::Bool(true)), "{}", said.body);
    for check in
        ["reach", "version", "durability", "reads", "commits", "fence", "watches", "cleaned", "deaths"]
    {
        assert!(["ok", "warning"].contains(&said.verdict(check)), "{check}: {}", said.body);
    }
    assert!(said.body["commit_p50_us"].as_f64().unwrap() > 0.0);
    let words = Command::new(callsign()).args(["doctor", "--store", url]).output().unwrap();
    let words = String::from_utf8(words.stdout).unwrap();
    assert!(words.contains("ok       fence") && words.contains("fenced commits: median"), "{words}");

    let store = open(url).unwrap();
    let all = store.read(vec![Read::Range { range: vec![]..vec![0xff], limit: 10 }]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let left = runtime.block_on(all).unwrap();
    assert!(left.entries(0).is_empty(), "it has left something");
}

#[test]
fn nothing_is_wrong_with_a_file_and_nothing_is_left_in_it() {
    let files = tempfile::tempdir().unwrap();
    is_well(&TestStore::file(files.path()).url);
}

#[test]
fn nothing_is_wrong_with_a_server_and_nothing_is_left_in_it() {
    let Some(place) = TestStore::postgres() else { return };
    is_well(&place.url);
    let said = Said::of(&place.url);
    assert_eq!(said.verdict("durability"), "warning", "the tests' servers do not sync: {}", said.body);
}

#[test]
fn nothing_is_wrong_with_three_etcd_servers_and_nothing_is_left_in_them() {
    let Some(place) = TestStore::etcd() else { return };
    is_well(&place.url);
    let said = Said::of(&place.url);
    for check in ["version", "quorum", "leader", "space", "compaction", "clocks"] {
        assert_eq!(said.verdict(check), "ok", "{check}: {}", said.body);
    }
}

#[test]
fn a_url_that_makes_no_sense_is_wrong_usage() {
    for (url, says) in [
        ("mysql:there", "is not a store"),
        ("sqlite:", "has no path"),
        ("sqlite:/tmp/x.db?mode=ro", "no option"),
        ("memory:there", "something behind"),
        ("postgres://u:secret@h/d?sslmode=perhaps", "sslmode is"),
        ("etcd://u:secret@h/p?lease=1", "its options are"),
    ] {
        let said = Said::of(url);
        said.fails(2, "url", says);
        assert!(!said.body.to_string().contains("secret"), "{}", said.body);
    }
}

#[test]
fn what_is_wrong_with_a_file_is_said() {
    let files = tempfile::tempdir().unwrap();
    let at = |name: &str| format!("sqlite:{}", files.path().join(name).display());
    Said::of(&at("missing/store.db")).fails(1, "reach", "does not exist");
    std::fs::write(files.path().join("text.db"), "a letter to the editor ".repeat(99)).unwrap();
    Said::of(&at("text.db")).fails(1, "version", "is not a database");
    let theirs = rusqlite::Connection::open(files.path().join("theirs.db")).unwrap();
    theirs.execute_batch("CREATE TABLE t (a)").unwrap();
    Said::of(&at("theirs.db")).fails(1, "version", "of another program");
    drop(open(&at("newer.db")).unwrap());
    let newer = rusqlite::Connection::open(files.path().join("newer.db")).unwrap();
    newer.pragma_update(None, "user_version", 99).unwrap();
    Said::of(&at("newer.db")).fails(1, "version", "layout 99");
    drop(open(&at("locked.db")).unwrap());
    let locks = rusqlite::Connection::open(files.path().join("locked.db")).unwrap();
    locks.execute_batch("BEGIN IMMEDIATE").unwrap();
    Said::of(&at("locked.db")).fails(3, "commits", "was not committed");
    assert_eq!(Said::of(&(at("loose.db") + "?synchronous=normal")).verdict("durability"), "warning");
}

/// As somebody who may not write where the file is.
#[cfg(unix)]
#[test]
fn a_file_that_must_not_be_written_is_said() {
    use std::os::unix::{fs::PermissionsExt, process::CommandExt};
    let files = tempfile::tempdir().unwrap();
    let set = |path: &std::path::Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    let file = files.path().join("store.db");
    let url = format!("sqlite:{}", file.display());
    drop(open(&url).unwrap());
    set(&file, 0o444);
    set(files.path(), 0o555);
    // Who is root may write everywhere; the command may be where nobody else may look.
    let program = std::env::temp_dir().join(format!("callsign-{}", std::process::id()));
    std::fs::copy(callsign(), &program).unwrap();
    set(&program, 0o755);
    let mut command = Command::new(&program);
    command.args(["doctor", "--json", "--store", &url]).current_dir("/");
    if rustix::process::geteuid().is_root() {
        command.uid(65534).gid(65534);
    }
    let said = Said::run(&mut command);
    std::fs::remove_file(&program).unwrap();
    set(files.path(), 0o755);
    said.fails(1, "permissions", "cannot be written");
}

fn sql(server: &PostgresServer, statement: &str) {
    sql_as(server, "postgres", statement);
}

fn sql_as(server: &PostgresServer, user: &str, statement: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let url = server.url_as(user);
        let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        client.batch_execute(statement).await.unwrap();
    });
}

#[test]
fn what_is_wrong_with_a_server_is_said() {
    Said::of("postgres://u:secret@127.0.0.1:1/d").fails(
        3,
        "reach",
        "postgres://u@127.0.0.1:1/d cannot be reached",
    );
    let Some(mut server) = PostgresServer::start() else { return };
    let nowhere = format!("{}missing", server.url().trim_end_matches("postgres"));
    Said::of(&nowhere).fails(1, "reach", "does not exist");

    sql(&server, "CREATE ROLE guest LOGIN PASSWORD 'right'");
    let guest = server.url_as("guest");
    Said::of(&guest).fails(1, "permissions", "may not create one");
    sql(&server, "CREATE SCHEMA callsign");
    Said::of(&guest).fails(1, "permissions", "may not use the schema");
    sql(&server, "GRANT USAGE ON SCHEMA callsign TO guest");
    Said::of(&guest).fails(1, "permissions", "may not create them");
    drop(open(&server.url()).unwrap());
    sql(&server, "GRANT SELECT, UPDATE, DELETE ON ALL TABLES IN SCHEMA callsign TO guest");
    Said::of(&guest).fails(1, "permissions", "lacks INSERT on callsign.clears, INSERT on callsign.kv");
    sql(&server, "GRANT ALL ON ALL TABLES IN SCHEMA callsign TO guest");
    assert_eq!(Said::of(&guest).status, Some(0));

    sql(&server, "ALTER ROLE guest SET default_transaction_read_only = on");
    Said::of(&guest).fails(1, "writes", "read-only");
    sql(&server, "ALTER ROLE guest RESET default_transaction_read_only");
    let encrypted = |url: &str| format!("{url}{}sslmode=require", if url.contains('?') { '&' } else { '?' });
    Said::of(&encrypted(&guest)).fails(1, "encryption", "offers no TLS");
    server.demand_passwords();
    Said::of(&server.url_as("guest")).fails(1, "permissions", "none was given");
    Said::of(&server.url_as("guest:wrong")).fails(1, "permissions", "password authentication failed");
    assert_eq!(Said::of(&server.url_as("guest:right")).status, Some(0));
    sql_as(&server, "guest:right", "UPDATE callsign.store SET layout = 99");
    Said::of(&server.url_as("guest:right")).fails(1, "version", "layout 99");
    server.stop();
    Said::of(&server.url()).fails(3, "reach", "cannot be reached");
}

#[test]
fn a_standby_is_told_from_a_server_that_is_gone() {
    let Some(mut server) = PostgresServer::start() else { return };
    server.stand_by();
    Said::of(&server.url()).fails(1, "writes", "standby");
}

#[test]
fn a_server_that_cannot_be_reached_is_said_once_and_nothing_more_is_tried() {
    let said = Said::of("postgres://u@127.0.0.1:1/d");
    assert_eq!(said.verdict("reach"), "unknown", "{}", said.body);
    assert_eq!(said.body["checks"].as_array().unwrap().len(), 1, "{}", said.body);
}

/// Puts a certificate, its key and its authority into a directory. It is good for so long from now on.
fn certify(uri: &str, left: Duration, directory: &Path) {
    let mut issuing = CertificateParams::default();
    issuing.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    issuing.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    issuing.distinguished_name.push(DnType::CommonName, "ours");
    let key = KeyPair::generate().unwrap();
    fs::write(directory.join("ca.pem"), issuing.self_signed(&key).unwrap().pem()).unwrap();
    let issuer = Issuer::new(issuing, key);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let mut params = CertificateParams::default();
    params.subject_alt_names = vec![SanType::URI(uri.try_into().unwrap())];
    params.not_after = date_time_ymd(1970, 1, 1) + (now + left);
    let key = KeyPair::generate().unwrap();
    fs::write(directory.join("cert.pem"), params.signed_by(&key, &issuer).unwrap().pem()).unwrap();
    fs::write(directory.join("key.pem"), key.serialize_pem()).unwrap();
}

#[test]
fn a_certificate_is_judged_once_by_whom_it_is_for_and_by_the_days_that_it_has_left() {
    let files = tempfile::tempdir().unwrap();
    let said = |uri: &str, left: Duration, name: &[&str]| {
        certify(uri, left, files.path());
        let mut command = Command::new(callsign());
        command.args(["doctor", "--json", "--store", "memory:"]);
        for (option, file) in [("--tls-cert", "cert.pem"), ("--tls-key", "key.pem"), ("--tls-ca", "ca.pem")] {
            command.arg(option).arg(files.path().join(file));
        }
        let said = Said::run(command.args(name));
        let checks = said.body["checks"].as_array().unwrap();
        assert_eq!(checks.iter().filter(|check| check["check"] == "certificate").count(), 1, "{checks:?}");
        said
    };
    let (hour, day) = (Duration::from_secs(3600), Duration::from_secs(86_400));
    let uri = "callsign://default/a";
    let good = said(uri, day * 7 + hour, &["--name", "a"]);
    assert_eq!((good.status, good.verdict("certificate")), (Some(0), "ok"), "{}", good.body);
    let soon = said(uri, hour * (24 * 7 - 1), &[]);
    assert_eq!((soon.status, soon.verdict("certificate")), (Some(0), "warning"), "{}", soon.body);
    assert!(soon.body.to_string().contains("good for 6 days more"), "{}", soon.body);
    assert!(soon.body.to_string().contains("renew it"), "{}", soon.body);
    said(uri, day * 30, &["--name", "b"]).fails(1, "certificate", "not for callsign://default/b");
    said("https://example.org/a", day * 30, &[]).fails(1, "certificate", "for no node");
}
