//! Strangers who connect to a cluster of processes, and keys that change while it runs.

use std::{
    ffi::OsString,
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::Ordering::Relaxed,
    time::Duration,
};

use callsign_tests::{
    Cluster, NodeProcess, Siege, StartOptions, Strangers, TEST_DEADLINE, callsign, eventually,
};
use rcgen::KeyPair;

use authority::{Authority, Wish};

#[path = "../../../transport/tests/all/support/authority.rs"]
#[allow(unreachable_pub)] // as it is there
pub(crate) mod authority;

pub(crate) const LEASE: Duration = Duration::from_secs(10);
/// How long the strangers are there at least: for longer than any handshake may take, and than a link may be silent.
const SIEGE: Duration = Duration::from_secs(8);

/// How much more memory a node may use under siege than before. What strangers can make it keep is some megabytes; the
/// rest is what a node under load gathers in that time anyhow.
const MEMORY: u64 = 64 << 20;

const NAMES: [&str; 3] = ["a", "b", "c"];

fn with_secret(secret: &str) -> StartOptions {
    StartOptions { secret: Some(secret.to_owned()), ..StartOptions::lease(LEASE) }
}

fn no_link_was_lost(cluster: &Cluster) {
    for name in cluster.names() {
        let log = cluster.node(&name).log();
        // Silence is a machine that is busy with other tests.
        let lost =
            log.lines().filter(|line| line.contains("down: ") && !line.contains("silent for too long"));
        assert_eq!(lost.count(), 0, "a link of {name} was lost: {log}");
    }
}

fn refused(node: &NodeProcess, word: &str) -> u64 {
    node.client.status().ok()["admission"]["refused"][word].as_u64().unwrap_or_default()
}

#[test]
fn a_cluster_under_siege_goes_on_serving_keeps_its_links_and_its_memory() {
    let mut cluster = Cluster::start(with_secret("correct horse battery staple"), &NAMES);
    let epoch = cluster.store.term().epoch;
    let (load, _sampler) = cluster.load();
    cluster.wait_for_registrations(100);
    let memory = NAMES.map(|name| cluster.node(name).memory());
    let listen = NAMES.map(|name| cluster.node(name).ready.listen.parse::<SocketAddr>().unwrap());

    let siege = Siege::start(&listen, Strangers::default());
    let stranger = cluster.launch_aside("z", &with_secret("incorrect horse battery"));
    let began = std::time::Instant::now();
    while began.elapsed() < SIEGE {
        cluster.wait_for_registrations(20);
    }
    eventually("every stranger has been there", TEST_DEADLINE, || {
        let (opened, scans) = (siege.done.opened.load(Relaxed), siege.done.scans.load(Relaxed));
        if opened > 500 && scans > 500 { Ok(()) } else { Err(format!("{opened} opened, {scans} scans")) }
    });
    for name in NAMES {
        let node = cluster.node(name);
        assert!(refused(node, "crowded") + refused(node, "too-fast") > 0, "{}", node.log());
        let waiting = node.client.status().ok()["admission"]["unauthenticated"].as_u64().unwrap();
        assert!(waiting <= 128, "{waiting} strangers are inside");
    }
    let secrets: u64 = NAMES.iter().map(|name| refused(cluster.node(name), "secret")).sum();
    assert!(secrets > 0, "{}", stranger.log());
    for (name, before) in NAMES.iter().zip(memory) {
        let after = cluster.node(name).memory();
        println!("{name}: {} KiB before, {} KiB under siege", before >> 10, after >> 10);
        assert!(after < before + MEMORY, "{name} used {before} bytes, and {after} under siege");
    }
    no_link_was_lost(&cluster);
    assert_eq!(cluster.store.term().epoch, epoch, "nobody was thought dead");
    drop(stranger);

    // A node that is started in the middle of it gets in, though half of the strangers come from its own address.
    let back = cluster.others(&[&cluster.leader()])[0].clone();
    cluster.launch(&back);
    cluster.wait_until_ready();
    cluster.wait_for_registrations(20);
    println!("strangers: {:?}", siege.done);
    drop(siege);
    load.finish();
    cluster.check_but(&cluster.with_lost_sessions());
}

// ---- keys that change

/// Starts nodes that each have a directory of their own for their keys, and arguments that name what is in it.
fn with_files(files: &Path, arguments: &[&str], fill: impl Fn(&str, &Path)) -> Cluster {
    let mut cluster = Cluster::start(StartOptions::lease(LEASE), &[]);
    for name in NAMES {
        let directory = files.join(name);
        fs::create_dir(&directory).unwrap();
        fill(name, &directory);
        cluster.launch_with(name, &started_with(arguments, &directory));
    }
    cluster.wait_until_ready();
    cluster
}

pub(crate) fn started_with(arguments: &[&str], directory: &Path) -> StartOptions {
    let argument = |text: &&str| match text.strip_prefix("--") {
        Some(_) => OsString::from(text),
        None => directory.join(text).into(),
    };
    StartOptions { arguments: arguments.iter().map(argument).collect(), ..StartOptions::lease(LEASE) }
}

/// How often a node has said that it read its keys again, whatever came of it.
fn readings(node: &NodeProcess) -> usize {
    let log = node.log();
    ["the keys have", "the keys stay"].iter().map(|said| log.matches(said).count()).sum()
}

/// Has a node read its keys again, and waits until it has.
fn read_again(node: &NodeProcess) {
    let before = readings(node);
    node.hang_up();
    eventually("the keys are read", TEST_DEADLINE, || {
        if readings(node) > before { Ok(()) } else { Err(node.log()) }
    });
}

fn write(path: PathBuf, text: impl AsRef<[u8]>) {
    // Readers see one or the other.
    let aside = path.with_extension("new");
    fs::write(&aside, text).unwrap();
    fs::rename(aside, path).unwrap();
}

#[test]
fn a_secret_changes_on_three_living_nodes_and_no_link_is_lost() {
    const OLD: &str = "the secret that leaves";
    const NEW: &str = "the secret that comes, another";
    let files = tempfile::tempdir().unwrap();
    let arguments = ["--secret-file", "secret"];
    let mut cluster = with_files(files.path(), &arguments, |_, directory| {
        fs::write(directory.join("secret"), format!("{OLD}\n")).unwrap();
    });
    let (load, _sampler) = cluster.load();
    cluster.wait_for_registrations(30);
    for step in [format!("{OLD}\n{NEW}\n"), format!("{NEW}\n{OLD}\n"), format!("{NEW}\n")] {
        for name in NAMES {
            write(files.path().join(name).join("secret"), &step);
            read_again(cluster.node(name));
        }
        cluster.wait_for_registrations(20);
    }
    // What cannot be used changes nothing.
    write(files.path().join("a/secret"), "short");
    read_again(cluster.node("a"));
    assert!(cluster.node("a").log().contains("a secret has 16 to 1024 bytes, not 5"));
    write(files.path().join("a/secret"), "");
    read_again(cluster.node("a"));
    assert!(cluster.node("a").log().contains("has no secret in it"));
    no_link_was_lost(&cluster);

    // The old one opens nothing any more, the new one does.
    let late = cluster.launch_aside("z", &with_secret(OLD));
    eventually("the old secret is refused", TEST_DEADLINE, || {
        let log = late.log();
        if log.contains("the cluster secrets differ") { Ok(()) } else { Err(log) }
    });
    drop(late);
    cluster.launch_with("d", &with_secret(NEW));
    cluster.wait_until_ready();
    load.finish();
    cluster.no_session_was_lost();
    cluster.check();
}

/// Puts a certificate for a node, its key, and the authorities that it believes into its directory.
pub(crate) fn equip(authority: &Authority, uri: &str, believed: &[&Authority], directory: &Path) {
    certify(authority, uri, directory);
    believe(believed, directory);
}

pub(crate) fn certify(authority: &Authority, uri: &str, directory: &Path) {
    let (certificate, key) = authority.issue(&Wish::of(&[uri]));
    write(directory.join("cert.pem"), certificate);
    write(directory.join("key.pem"), key);
}

fn believe(authorities: &[&Authority], directory: &Path) {
    write(directory.join("ca.pem"), Authority::believed(authorities));
}

const TLS: [&str; 6] = ["--tls-cert", "cert.pem", "--tls-key", "key.pem", "--tls-ca", "ca.pem"];
/// The same, and looks at them all the time.
pub(crate) const LOOKING: [&str; 7] =
    ["--tls-cert", "cert.pem", "--tls-key", "key.pem", "--tls-ca", "ca.pem", "--tls-look=100ms"];

#[test]
fn certificates_and_their_authority_change_on_three_living_nodes_and_no_link_is_lost() {
    let files = tempfile::tempdir().unwrap();
    let (old, new) = (Authority::new("old"), Authority::new("new"));
    let mut cluster = Cluster::start(StartOptions::lease(LEASE), &[]);
    let name_of = cluster.place.cluster.clone();
    let uri = |node: &str| format!("callsign://{name_of}/{node}");
    for name in NAMES {
        let directory = files.path().join(name);
        fs::create_dir(&directory).unwrap();
        equip(&old, &uri(name), &[&old], &directory);
        // One is never told.
        let arguments = if name == "c" { &LOOKING[..] } else { &TLS };
        cluster.launch_with(name, &started_with(arguments, &directory));
    }
    cluster.wait_until_ready();
    let (load, _sampler) = cluster.load();
    cluster.wait_for_registrations(30);
    for step in 0..3 {
        for name in NAMES {
            let directory = files.path().join(name);
            match step {
                0 => believe(&[&old, &new], &directory),
                1 => certify(&new, &uri(name), &directory),
                _ => believe(&[&new], &directory),
            }
            let node = cluster.node(name);
            if name != "c" {
                read_again(node);
                continue;
            }
            eventually("it has looked by itself", TEST_DEADLINE, || {
                let log = node.log();
                if log.matches("the keys have changed").count() > step { Ok(()) } else { Err(log) }
            });
        }
        cluster.wait_for_registrations(20);
    }
    // A key that is not the certificate's, as in the middle of a renewal: the former stay in force.
    let directory = files.path().join("a");
    write(directory.join("key.pem"), KeyPair::generate().unwrap().serialize_pem());
    read_again(cluster.node("a"));
    let log = cluster.node("a").log();
    let error = log.lines().find(|line| line.contains("ERROR")).unwrap_or_default();
    assert!(error.contains("the key does not belong to the certificate"), "{log}");
    no_link_was_lost(&cluster);

    // Another name's certificate, and that of an authority that is not believed any more.
    let late = files.path().join("late");
    fs::create_dir(&late).unwrap();
    equip(&new, &uri("e"), &[&new], &late);
    let stopped = cluster.refused("d", &started_with(&TLS, &late));
    assert!(stopped.log.contains(&format!("the certificate is for {}, not for {}", uri("e"), uri("d"))));
    equip(&old, &uri("d"), &[&old, &new], &late);
    let outsider = cluster.launch_aside("d", &started_with(&TLS, &late));
    eventually("both sides say why", TEST_DEADLINE, || {
        let (here, there) = (outsider.log(), cluster.node("b").log());
        let is_said = here.contains("this node's certificate is of an authority that is not believed")
            && there.contains("the other side's certificate is of an authority that is not believed");
        if is_said { Ok(()) } else { Err(format!("{here}\n{there}")) }
    });
    drop(outsider);
    equip(&new, &uri("d"), &[&new], &late);
    cluster.launch_with("d", &started_with(&TLS, &late));
    cluster.wait_until_ready();
    let left = cluster.node("d").client.status().ok()["admission"]["certificate_expires_in_s"].as_u64();
    assert!(left.is_some_and(|left| left > 0));
    load.finish();
    cluster.no_session_was_lost();
    cluster.check();
}

#[test]
fn doctor_looks_at_the_keys_that_a_node_would_be_started_with() {
    let files = tempfile::tempdir().unwrap();
    let authority = Authority::new("ours");
    equip(&authority, "callsign://default/a", &[&authority], files.path());
    fs::write(files.path().join("secret"), "a secret of sixteen bytes\nand another one, too\n").unwrap();
    let doctor = |more: &[&str]| {
        let of = |file: &str| files.path().join(file);
        let output = Command::new(callsign())
            .args(["doctor", "--store", "memory:"])
            .arg("--secret-file")
            .arg(of("secret"))
            .arg("--tls-cert")
            .arg(of("cert.pem"))
            .arg("--tls-key")
            .arg(of("key.pem"))
            .arg("--tls-ca")
            .arg(of("ca.pem"))
            .args(more)
            .output()
            .unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    let (code, said) = doctor(&["--name", "a"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("2 secrets") && said.contains("for callsign://default/a, good for"), "{said}");
    equip(&authority, "callsign://default/a?names=shop/&lead=no", &[&authority], files.path());
    let (code, said) = doctor(&["--name", "a"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("it may hold names that begin with \"shop/\", and never leads"), "{said}");
    let (code, said) = doctor(&["--name", "b"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("the certificate is for callsign://default/a, not for callsign://default/b"));
    fs::write(files.path().join("key.pem"), KeyPair::generate().unwrap().serialize_pem()).unwrap();
    fs::write(files.path().join("secret"), "short").unwrap();
    let (code, said) = doctor(&[]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("the key does not belong to the certificate"), "{said}");
    assert!(said.contains("a secret has 16 to 1024 bytes, not 5"), "{said}");
}
