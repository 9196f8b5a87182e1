//! Under a manager of services: what the commands tell systemd by its socket, and that the files of `docs/deploy` fit this command.

use std::{
    ffi::OsStr,
    fs,
    os::unix::net::UnixDatagram,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use callsign_store::OpenError;
use callsign_tests::{TEST_DEADLINE, callsign, eventually, signal};
use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

/// A manager of services, which hears what its service says.
struct Manager {
    directory: TempDir,
    socket: UnixDatagram,
    service: Option<Child>,
}

impl Manager {
    /// Starts the command with these arguments, and with a store of its own.
    fn starts(arguments: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let store = directory.path().join("store.db");
        Self::starts_over(&store, directory, arguments)
    }

    fn starts_over(store: &Path, directory: TempDir, arguments: &[&str]) -> Self {
        let at = directory.path().join("notify");
        let socket = UnixDatagram::bind(&at).unwrap();
        socket.set_read_timeout(Some(TEST_DEADLINE)).unwrap();
        let service = Command::new(callsign())
            .args(arguments)
            .env("CALLSIGN_STORE", format!("sqlite:{}", store.display()))
            .env("CALLSIGN_PARENT", std::process::id().to_string())
            .env("NOTIFY_SOCKET", at)
            .env("WATCHDOG_USEC", "400000")
            .current_dir(directory.path())
            .stdout(Stdio::null())
            .stderr(fs::File::create(directory.path().join("log")).unwrap())
            .spawn()
            .unwrap();
        Self { directory, socket, service: Some(service) }
    }

    /// Waits until the service says this, in a line of its own. Returns what it said with it.
    fn hears(&self, line: &str) -> String {
        let mut heard = [0; 4096];
        loop {
            let length = self.socket.recv(&mut heard).unwrap_or_else(|error| {
                let log = fs::read_to_string(self.directory.path().join("log")).unwrap_or_default();
                panic!("nothing is said, {line} neither: {error}\n{log}")
            });
            let said = String::from_utf8_lossy(&heard[..length]).into_owned();
            if said.lines().any(|said| said == line) {
                return said;
            }
        }
    }

    /// Asks it to end. It says so, and ends well.
    fn stops(mut self) {
        let mut service = self.service.take().unwrap();
        signal(service.id(), Signal::TERM);
        self.hears("STOPPING=1");
        let status = service.wait().unwrap();
        assert!(status.success(), "{status}");
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        if let Some(service) = &mut self.service {
            let _ = service.kill();
            let _ = service.wait();
        }
    }
}

#[test]
fn a_node_says_when_it_serves_that_it_lives_and_when_it_stops() {
    let manager = Manager::starts(&["node", "--name", "a", "--admin", "127.0.0.1:0"]);
    assert!(manager.hears("READY=1").contains("STATUS=serves"));
    manager.hears("WATCHDOG=1");
    manager.hears("WATCHDOG=1");
    manager.stops();
}

/// What the program finds of its environment, in a file.
fn environment(manager: &Manager) -> String {
    let file = manager.directory.path().join("environment");
    eventually("the program runs", TEST_DEADLINE, || {
        fs::read_to_string(&file).map_err(|error| error.to_string())
    })
}

/// Says what it has of a manager of services, and goes on.
const PROGRAM: [&str; 4] =
    ["--", "sh", "-c", "env | grep -c -e NOTIFY -e WATCHDOG > part; mv part environment; exec sleep 600"];

#[test]
fn who_takes_part_in_a_run_has_started_and_its_program_finds_nothing_of_that() {
    let arguments = [&["run", "--singleton", "x", "--member", "a", "--lease", "2s"][..], &PROGRAM].concat();
    let manager = Manager::starts(&arguments);
    assert!(manager.hears("READY=1").contains("STATUS=takes part as a"));
    manager.hears("WATCHDOG=1");
    assert_eq!(environment(&manager).trim(), "0");
    manager.stops();
}

#[test]
fn who_holds_a_name_has_started_and_so_has_who_waits_for_it() {
    let hold = |member: &'static str| {
        [&["hold", "x", "--member", member, "--wait", "--lease", "2s"][..], &PROGRAM].concat()
    };
    let manager = Manager::starts(&hold("a"));
    assert!(manager.hears("READY=1").contains("STATUS=holds the name"));
    manager.hears("WATCHDOG=1");
    assert_eq!(environment(&manager).trim(), "0");
    // Another one, with a socket of its own.
    let store = manager.directory.path().join("store.db");
    let other = Manager::starts_over(&store, tempfile::tempdir().unwrap(), &hold("b"));
    assert!(other.hears("READY=1").contains("STATUS=waits for the name"));
    other.stops();
    manager.stops();
}

/// The socket is gone, or was never there: that is no reason not to run.
#[test]
fn a_manager_that_does_not_listen_costs_nothing() {
    let manager = Manager::starts(&["node", "--name", "a", "--admin", "127.0.0.1:0"]);
    fs::remove_file(manager.directory.path().join("notify")).unwrap();
    let log = manager.directory.path().join("log");
    eventually("it says so", TEST_DEADLINE, || {
        let log = fs::read_to_string(&log).unwrap_or_default();
        if log.contains("cannot be told") { Ok(()) } else { Err(log) }
    });
    let mut manager = manager;
    let mut service = manager.service.take().unwrap();
    signal(service.id(), Signal::TERM);
    assert!(service.wait().unwrap().success());
}

fn deploy(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/deploy").join(file)
}

/// Has the command read these arguments, and do nothing.
fn fits<S: AsRef<OsStr>>(arguments: &[S]) {
    let end = arguments.iter().position(|argument| argument.as_ref() == "--").unwrap_or(arguments.len());
    let (own, program) = arguments.split_at(end);
    let words: Vec<_> = arguments.iter().map(|argument| argument.as_ref().to_owned()).collect();
    let read = Command::new(callsign())
        .args(own)
        .arg("--print-config")
        .args(program)
        .env("CALLSIGN_STORE", "sqlite:/nowhere/store.db")
        .env_remove("CALLSIGN_CONFIG")
        .output()
        .unwrap();
    assert!(read.status.success(), "{words:?}: {}", String::from_utf8_lossy(&read.stderr));
}

#[test]
fn units_of_systemd_start_what_there_is() {
    for unit in ["callsign-node.service", "callsign-run@.service"] {
        let text = fs::read_to_string(deploy(unit)).unwrap();
        let value = |key: &str| {
            let found = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
            found.unwrap_or_else(|| panic!("{unit} has no {key}"))
        };
        let line = value("ExecStart").replace("%H", "host").replace("%i", "billing").replace("%d", "/run");
        // A file of options that is there.
        let line = line.replace("/etc/callsign/config.toml", "/dev/null");
        let words: Vec<&str> = line.split_whitespace().collect();
        let (program, arguments) = words.split_first().unwrap();
        assert_eq!(*program, "/usr/local/bin/callsign");
        fits(arguments);
        assert_eq!(value("Type"), "notify");
        // Who is not ready is not ended for that.
        assert_eq!(value("TimeoutStartSec"), "infinity");
        let stop: u64 = value("TimeoutStopSec").trim_end_matches('s').parse().unwrap();
        assert!(stop > 15, "a node that drains needs 15 s");
    }
}

/// The documents of a file of YAML.
fn documents(file: &str) -> Vec<Value> {
    let text = fs::read_to_string(deploy(file)).unwrap();
    serde_saphyr::from_multiple(&text).unwrap_or_else(|error| panic!("{file}: {error}"))
}

fn words(list: &Value) -> Vec<String> {
    let words = list.as_array().unwrap_or_else(|| panic!("{list} is no list"));
    words.iter().map(|word| word.as_str().unwrap().replace("$(POD)", "callsign-0")).collect()
}

#[test]
fn manifests_of_kubernetes_fit_each_other_and_the_command() {
    let all = documents("kubernetes.yaml");
    let of = |kind: &str| -> Vec<&Value> { all.iter().filter(|document| document["kind"] == kind).collect() };
    let [set] = of("StatefulSet")[..] else { panic!("one StatefulSet") };
    let [service] = of("Service")[..] else { panic!("one Service") };
    let [budget] = of("PodDisruptionBudget")[..] else { panic!("one PodDisruptionBudget") };
    let (pod, labels) = (&set["spec"]["template"]["spec"], &set["spec"]["template"]["metadata"]["labels"]);
    let container = &pod["containers"][0];
    fits(&words(&container["args"]));
    let args = words(&container["args"]);

    // Names of pods resolve, also before they are ready.
    assert_eq!(set["spec"]["serviceName"], service["metadata"]["name"]);
    assert_eq!(service["spec"]["clusterIP"], "None");
    assert_eq!(service["spec"]["publishNotReadyAddresses"], true);
    let advertised = format!("--advertise=callsign-0.{}:7000", service["metadata"]["name"].as_str().unwrap());
    assert!(args.contains(&advertised), "{args:?}");
    for selector in [
        &service["spec"]["selector"],
        &budget["spec"]["selector"]["matchLabels"],
        &set["spec"]["selector"]["matchLabels"],
    ] {
        assert_eq!(selector, labels);
    }
    assert_eq!(budget["spec"]["maxUnavailable"], 1);

    // The store is in the secret that the head of the file makes, and so is the token.
    let head = fs::read_to_string(deploy("kubernetes.yaml")).unwrap();
    let made = head.lines().find_map(|line| line.strip_prefix("#   kubectl create secret generic ")).unwrap();
    let (secret, literals) = made.split_once(' ').unwrap();
    let environment = container["env"].as_array().unwrap();
    let store = environment.iter().find(|variable| variable["name"] == "CALLSIGN_STORE").unwrap();
    assert_eq!(store["valueFrom"]["secretKeyRef"], serde_json::json!({"name": secret, "key": "store"}));
    let volumes = pod["volumes"].as_array().unwrap();
    let of_secrets = volumes.iter().find(|volume| volume["name"] == "secrets").unwrap();
    assert_eq!(of_secrets["secret"]["secretName"], secret);
    assert_eq!(of_secrets["secret"]["items"][0]["key"], "token");
    for literal in ["--from-literal=store=postgres://", "--from-literal=token="] {
        assert!(literals.contains(literal), "{literals}");
    }
    // The other store that the file names is one that the command knows.
    let etcd = head.lines().find_map(|line| line.split_once("--from-literal=store=etcd://")).unwrap().1;
    let etcd = format!("etcd://{}", etcd.split_whitespace().next().unwrap());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let opened = runtime.block_on(async { callsign_store::open(&etcd).map(drop) });
    // There is no such host.
    assert!(matches!(opened, Err(OpenError::Unreachable { .. })), "{etcd}: {opened:?}");

    // Probes are asked where the node answers, and no probe restarts a node that has lost its store.
    for (probe, path) in [("readinessProbe", "/ready"), ("livenessProbe", "/live")] {
        let asked = &container[probe]["httpGet"];
        assert_eq!((&asked["path"], &asked["port"]), (&path.into(), &"admin".into()));
    }
    // A member is waited for for 5 s, and a second more.
    assert!(container["livenessProbe"]["timeoutSeconds"].as_u64().unwrap() > 6);
    let port = |name: &str| {
        let ports = container["ports"].as_array().unwrap();
        ports.iter().find(|port| port["name"] == name).unwrap()["containerPort"].clone()
    };
    assert!(args.contains(&format!("--admin=0.0.0.0:{}", port("admin"))));
    assert!(args.contains(&format!("--listen=0.0.0.0:{}", port("links"))));

    // It drains, and then has time to leave.
    let hook = words(&container["lifecycle"]["preStop"]["exec"]["command"]);
    fits(&hook[1..]);
    assert_eq!(hook[1], "drain");
    let token =
        |of: &[String], option: &str| of.iter().find_map(|word| word.strip_prefix(option).map(str::to_owned));
    assert_eq!(token(&hook, "--token-file="), token(&args, "--admin-token-file="));
    assert!(
        pod["terminationGracePeriodSeconds"].as_u64().unwrap() >= 15 + 1 + 15,
        "for the hook, and for the node"
    );

    // A certificate names its node and says both uses; whoever issues it is there.
    let csi = &pod["volumes"][0]["csi"]["volumeAttributes"];
    assert_eq!(csi["csi.cert-manager.io/uri-sans"], "callsign://default/${POD_NAME}");
    for usage in ["client auth", "server auth"] {
        assert!(csi["csi.cert-manager.io/key-usages"].as_str().unwrap().contains(usage));
    }
    let issuers: Vec<_> = of("Issuer").iter().map(|issuer| issuer["metadata"]["name"].clone()).collect();
    assert!(issuers.contains(&csi["csi.cert-manager.io/issuer-name"]));
    for (option, file) in [("--tls-cert=", "tls.crt"), ("--tls-key=", "tls.key"), ("--tls-ca=", "ca.crt")] {
        assert_eq!(token(&args, option).as_deref(), Some(&*format!("/certificates/{file}")));
    }
}

#[test]
fn nodes_of_a_composition_are_started_as_the_command_wants() {
    let all = documents("compose.yaml");
    let services = all[0]["services"].as_object().unwrap();
    let nodes: Vec<_> = services.iter().filter(|(name, _)| *name != "postgres").collect();
    assert_eq!(nodes.len(), 3);
    for (name, node) in nodes {
        let command = words(&node["command"]);
        fits(&command);
        assert!(command.contains(name) && command.contains(&format!("{name}:7000")), "{command:?}");
        assert!(node["environment"]["CALLSIGN_SECRET"].as_str().unwrap().len() >= 16);
    }
}

/// What the image is made of, by the steps of its file, where no container can be run.
#[test]
fn the_container_is_built_by_steps_that_work_without_one() {
    let text = fs::read_to_string(deploy("Containerfile")).unwrap();
    let steps: Vec<&str> = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
    let toolchain = fs::read_to_string(deploy("../../Cargo.toml")).unwrap();
    let version = toolchain.lines().find_map(|line| line.strip_prefix("rust-version = ")).unwrap();
    assert!(steps[0].contains(&format!("rust:{}-", version.trim_matches('"'))), "{}", steps[0]);
    // `.ci/run` runs what stands behind each `RUN`, and looks at what comes of it.
    let runs: Vec<_> = steps.iter().filter_map(|step| step.strip_prefix("RUN ")).collect();
    assert_eq!(runs, ["cargo build --locked --release --bin callsign"]);
    let ci = |file: &str| fs::read_to_string(deploy("../../.ci").join(file)).unwrap();
    assert!(ci("run").contains("step \"build of the command, as in the image\" image_steps\n"));
    assert!(ci("steps").contains("sed -n 's/^RUN //p' docs/deploy/Containerfile"));
    // What `COPY . .` copies is neither what was built here nor the history.
    assert!(steps.contains(&"COPY . ."));
    let ignored = fs::read_to_string(deploy("../../.dockerignore")).unwrap();
    let ignored: Vec<_> = ignored.lines().filter(|line| !line.starts_with('#')).collect();
    for path in [".git", "**/target"] {
        assert!(ignored.contains(&path), "{path} is copied into the image");
    }
    let copied = steps.iter().find_map(|step| step.strip_prefix("COPY --from=build /callsign/")).unwrap();
    assert_eq!(copied, "target/release/callsign /usr/local/bin/callsign");
}
