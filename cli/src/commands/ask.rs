//! The commands that ask a running node: `register`, `unregister`, `transfer`, `whereis`, `call`, `ls`, `members`, `status`, `configure`.

use std::{collections::BTreeMap, path::PathBuf, process::ExitCode, time::Duration};

use anyhow::{Context, Result, ensure};
use clap::builder::RangedU64ValueParser;
use serde_json::{Value, json};

use crate::{
    client::{Answer, Client},
    commands::members::{with_addresses, yes_no},
    directory::Which,
    duration,
    node_url::NodeUrl,
    output::{Work, answer, printable, table, tell},
    reply::Verdict,
    token,
    usage::Usage,
};

/// The field of the metadata that says where a program can be reached.
pub(crate) const ADDRESS: &str = "address";

/// Which node to ask, and how to print.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    which: Which,
    /// A file with the token of the node's admin endpoint, if it has one.
    #[arg(long, env = "CALLSIGN_TOKEN_FILE")]
    token_file: Option<PathBuf>,
    /// The registry. Default: the node's first; of a node that --store finds, `default`.
    #[arg(long)]
    registry: Option<String>,
    /// Print the node's answer as JSON.
    #[arg(long)]
    json: bool,
    /// How long the node may take for its answer.
    #[arg(long, default_value = "5s", value_parser = duration::parse)]
    wait: Duration,
}

/// Arguments of `callsign register`.
#[derive(clap::Args)]
pub(crate) struct RegisterArgs {
    /// The name.
    name: String,
    /// What the name says of itself, as FIELD=VALUE. May be given several times.
    #[arg(long, value_name = "FIELD=VALUE", value_parser = field)]
    meta: Vec<(String, String)>,
    /// The name goes to another node when its own drains, where an echo actor takes it.
    #[arg(long)]
    moves: bool,
    #[command(flatten)]
    to: Args,
}

/// Arguments of `callsign update`.
#[derive(clap::Args)]
pub(crate) struct UpdateArgs {
    /// The name.
    name: String,
    /// What the name says of itself from now on, as FIELD=VALUE. May be given several times. Without it: nothing.
    #[arg(long, value_name = "FIELD=VALUE", value_parser = field)]
    meta: Vec<(String, String)>,
    /// Only if the name is at this revision: its token as long as it was not updated, and then what the last `update` printed.
    #[arg(long, value_name = "REVISION")]
    expected: Option<u64>,
    #[command(flatten)]
    to: Args,
}

pub(crate) fn field(text: &str) -> Result<(String, String), String> {
    let (field, value) = text.split_once('=').ok_or("it is not of the form FIELD=VALUE")?;
    if field.is_empty() {
        return Err("the field has no name".to_owned());
    }
    Ok((field.to_owned(), value.to_owned()))
}

/// What is said of a name, with each field once.
pub(crate) fn each_once<'a>(
    fields: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Result<BTreeMap<&'a str, &'a str>, Usage> {
    let mut said = BTreeMap::new();
    for (field, value) in fields {
        if said.insert(field, value).is_some() {
            return Err(Usage(format!("the metadata has the field {field} twice")));
        }
    }
    Ok(said)
}

/// Metadata as the node takes it.
fn said(fields: &[(String, String)]) -> Result<Value, Usage> {
    let said = each_once(fields.iter().map(|(field, value)| (field.as_str(), value.as_str())))?;
    Ok(if said.is_empty() { Value::Null } else { json!(said) })
}

/// Arguments of commands that take a name.
#[derive(clap::Args)]
pub(crate) struct NameArgs {
    /// The name.
    name: String,
    #[command(flatten)]
    to: Args,
}

/// Arguments of `callsign transfer`.
#[derive(clap::Args)]
pub(crate) struct TransferArgs {
    /// The name.
    name: String,
    /// The node that is to hold it.
    #[arg(long = "to", value_name = "NODE")]
    target: String,
    #[command(flatten)]
    to: Args,
}

/// Arguments of `callsign whereis`.
#[derive(clap::Args)]
pub(crate) struct WhereisArgs {
    /// The name.
    name: String,
    /// Ask for the holder at a moment after the question, not for what this node's replica has.
    #[arg(long)]
    consistent: bool,
    #[command(flatten)]
    to: Args,
}

/// Arguments of `callsign call`.
#[derive(clap::Args)]
pub(crate) struct CallArgs {
    /// The name.
    name: String,
    /// What to say.
    text: String,
    #[command(flatten)]
    to: Args,
}

/// Arguments of `callsign ls`.
#[derive(clap::Args)]
pub(crate) struct LsArgs {
    /// What the names begin with: the same as --prefix, and never beside it.
    #[arg(value_name = "PREFIX", conflicts_with = "prefix")]
    beginning: Option<String>,
    /// Only names that begin so.
    #[arg(long)]
    prefix: Option<String>,
    /// Only names whose actors run on this node.
    #[arg(long, value_name = "NODE")]
    held_on: Option<String>,
    /// Only names that say this of themselves, as FIELD=VALUE. May be given several times.
    #[arg(long, value_name = "FIELD=VALUE", value_parser = field)]
    meta: Vec<(String, String)>,
    /// Only names behind this one.
    #[arg(long, value_name = "NAME")]
    after: Option<String>,
    /// So many at the most.
    #[arg(long, value_name = "NAMES", value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    limit: Option<usize>,
    #[command(flatten)]
    to: Args,
}

impl LsArgs {
    /// What the names begin with. A file of options may have one prefix while another is typed: what is typed counts.
    fn begin(&self) -> &str {
        self.beginning.as_deref().or(self.prefix.as_deref()).unwrap_or_default()
    }
}

/// Arguments of `callsign configure`. What is not given stays as it is.
#[derive(clap::Args)]
pub(crate) struct ConfigureArgs {
    #[command(flatten)]
    change: Change,
    #[command(flatten)]
    to: Args,
}

#[derive(clap::Args)]
#[group(required = true, multiple = true)]
struct Change {
    /// How long the lock of a handoff may stay unmoved before another member takes it: 1s to 10m. Shorter: long handoffs run twice;
    /// longer: what the death of its owner costs.
    #[arg(long, value_parser = duration::parse)]
    lock_timeout: Option<Duration>,
    /// How long a leader that was heard may be silent before it is deposed: 1s to 10m. Shorter: pauses depose; longer: a stuck
    /// leader stays.
    #[arg(long, value_parser = duration::parse)]
    silence: Option<Duration>,
    /// Who takes a vacant seat: `sticky`, a member that proves that it lives; `ranked`, the one of the greatest priority.
    #[arg(long)]
    policy: Option<Policy>,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Policy {
    Sticky,
    Ranked,
}

/// Registers a name.
pub(crate) fn register(args: &RegisterArgs) -> ExitCode {
    let mut body = json!({"name": args.name, "wait_ms": args.to.wait_ms()});
    match said(&args.meta) {
        Ok(Value::Null) => {}
        Ok(meta) => body["meta"] = meta,
        Err(wrong) => return args.to.print(Err(wrong.into()), Work::Changes, |_| String::new()),
    }
    if args.moves {
        body["moves"] = true.into();
    }
    args.to.post("/register", Work::Changes, body, |body| {
        if body["already"] == true {
            let name = text(body, "name");
            tell(format_args!(
                "callsign: {name} was registered already, so its metadata and options are as they were \
                 (`callsign update {name}` changes the metadata)"
            ));
        }
        format!("{} is registered on {}, token {}\n", text(body, "name"), text(body, "node"), body["token"])
    })
}

/// Replaces what a name says of itself.
pub(crate) fn update(args: &UpdateArgs) -> ExitCode {
    let meta = match said(&args.meta) {
        Ok(meta) => meta,
        Err(wrong) => return args.to.print(Err(wrong.into()), Work::Changes, |_| String::new()),
    };
    let body = json!({"name": args.name, "meta": meta, "expected": args.expected});
    args.to.post("/update", Work::Changes, body, |body| {
        format!("{} is updated, revision {}\n", text(body, "name"), body["revision"])
    })
}

/// Gives a name up.
pub(crate) fn unregister(args: &NameArgs) -> ExitCode {
    args.to.post("/unregister", Work::Changes, json!({"name": args.name}), |body| {
        format!("{} is free from position {}\n", text(body, "name"), body["position"])
    })
}

/// Has a node take no new names, and hand over what it leads, before it is stopped.
pub(crate) fn drain(args: &Args) -> ExitCode {
    if !args.which.names_a_node() {
        // There is no way back, so none is taken that was not meant.
        let why = "say with --node which node is to drain: it takes no new names from then on";
        return args.print(Err(Usage(why.to_owned()).into()), Work::Changes, |_| String::new());
    }
    args.post("/drain", Work::Changes, json!({}), drained)
}

/// What became of a node that was to drain, and of its names.
fn drained(body: &Value) -> String {
    let seat = match body["drained"].as_str() {
        Some("led") => format!("drained: {} leads", text(body, "by")),
        Some("alone") => "drained: nobody else could lead, so this node does until it leaves".to_owned(),
        Some("left") => return "the node has left\n".to_owned(),
        _ => "drained: nobody was heard to lead in time".to_owned(),
    };
    let [moved, stay] = ["moved", "stay"].map(|count| body[count].as_u64());
    let moved = moved.filter(|moved| *moved > 0).map(|moved| match moved {
        1 => "one name moved to another node".to_owned(),
        moved => format!("{moved} names moved to other nodes"),
    });
    let stay = stay.map(|stay| match stay {
        0 => "no name stays on this node".to_owned(),
        1 => "one name stays on this node, and is free when it stops".to_owned(),
        stay => format!("{stay} names stay on this node, and are free when it stops"),
    });
    [Some(seat), moved, stay].into_iter().flatten().collect::<Vec<_>>().join("; ") + "\n"
}

/// Has a name go to another node: whichever node is asked, the one that holds the name is told.
pub(crate) fn transfer(args: &TransferArgs) -> ExitCode {
    args.to.print(asked_of_the_holder(args), Work::Changes, |body| {
        format!("{} is held on {}, token {}\n", text(body, "name"), text(body, "node"), body["token"])
    })
}

fn asked_of_the_holder(args: &TransferArgs) -> Result<Answer> {
    let client = args.to.client()?;
    let registry = args.to.registry().map(|registry| ("registry", registry));
    let wait = args.to.wait_ms().to_string();
    let mut query = vec![("name", args.name.as_str()), ("consistent", "true"), ("wait_ms", &wait)];
    query.extend(registry);
    let found = client.get("/whereis", &query)?;
    if !found.is_ok() || found.body["node"] == args.target.as_str() {
        return Ok(found);
    }
    let status = client.get("/status", &registry.into_iter().collect::<Vec<_>>())?;
    if !status.is_ok() {
        return Ok(status);
    }
    let holder = found.body["node"].as_str().context("the node does not say who holds the name")?;
    let client = if status.body["node"] == holder {
        client
    } else {
        let admin = list(&status.body, "members").iter().find(|member| member["node"] == holder);
        let admin = admin.and_then(|member| member["admin"].as_str());
        let admin = admin.with_context(|| {
            format!("{holder} holds the name, and does not say where it is administered: give that as --node")
        })?;
        let client = args.to.client_of(&admin.parse().map_err(anyhow::Error::msg)?)?;
        // A loopback address that a node of another machine gave belongs to somebody else here.
        let status = client.get("/status", &registry.into_iter().collect::<Vec<_>>())?;
        if !status.is_ok() {
            return Ok(status);
        }
        ensure!(
            status.body["incarnation"] == found.body["incarnation"],
            "{holder} holds the name, and {admin}, where it says that it is administered, is another node here: give \
             an address that leads to it as --node"
        );
        client
    };
    let mut body = json!({"name": args.name, "to": args.target, "wait_ms": args.to.wait_ms()});
    body["registry"] = args.to.registry().into();
    client.post("/transfer", &body)
}

/// Says who holds a name.
pub(crate) fn whereis(args: &WhereisArgs) -> ExitCode {
    let (wait, consistent) = (args.to.wait_ms().to_string(), args.consistent.to_string());
    let query = [("name", args.name.as_str()), ("consistent", &consistent), ("wait_ms", &wait)];
    args.to.get("/whereis", &query, |body| holders(std::slice::from_ref(body)))
}

/// Calls the echo actor under a name.
pub(crate) fn call(args: &CallArgs) -> ExitCode {
    let body = json!({"name": args.name, "text": args.text, "wait_ms": args.to.wait_ms()});
    args.to.post("/call", Work::Asks, body, |body| text(body, "answer") + "\n")
}

/// Lists names.
pub(crate) fn ls(args: &LsArgs) -> ExitCode {
    let pairs: Vec<_> = args.meta.iter().map(|(field, value)| format!("{field}={value}")).collect();
    if let Some(pair) = pairs.iter().find(|pair| pair.contains(',')) {
        let why =
            format!("--meta {pair}: a node takes commas for what is between fields, so ask for another one");
        return args.to.print(Err(Usage(why).into()), Work::Asks, |_| String::new());
    }
    let pairs = pairs.join(",");
    let mut query = vec![("prefix", args.begin())];
    query.extend(args.held_on.as_deref().map(|node| ("node", node)));
    query.extend(Some(&*pairs).filter(|pairs| !pairs.is_empty()).map(|pairs| ("meta", pairs)));
    query.extend(args.after.as_deref().map(|after| ("after", after)));
    query.extend(args.to.registry().map(|registry| ("registry", registry)));
    let entries = args.to.client().and_then(|client| client.entries(&query, args.limit));
    let next = entries.as_ref().ok().and_then(|answer| answer.body["next"].as_str().map(printable));
    let ended = args.to.print(entries, Work::Asks, |body| holders(list(body, "entries")));
    if let Some(after) = next.filter(|_| !args.to.json) {
        tell(format_args!("more: --after {after}"));
    }
    ended
}

/// Lists members.
pub(crate) fn members(args: &Args) -> ExitCode {
    args.get("/members", &[], |body| with_addresses(list(body, "members")) + "\n" + &settings(body) + "\n")
}

/// Shows a node's status.
pub(crate) fn status(args: &Args) -> ExitCode {
    args.get("/status", &[], |body| {
        let leader = &body["leader"];
        let leader = match leader["node"].as_str() {
            None => "nobody".to_owned(),
            Some(node) if leader["serving"] == true => printable(node),
            Some(node) => format!("{} (not serving yet)", printable(node)),
        };
        let names = body["names"].as_u64().map_or_else(|| "not known".to_owned(), |names| names.to_string());
        let fact = |name: &str, value: String| vec![name.to_owned(), value];
        let facts = [
            fact(
                "node",
                format!("{} (pid {}, linked at {})", text(body, "node"), body["pid"], text(body, "listen")),
            ),
            fact("registry", text(body, "registry")),
            fact("ready", yes_no(&body["ready"])),
            fact("synced", yes_no(&body["synced"])),
            fact("leader", leader),
            fact("elections", settings(body)),
            fact("epoch", body["epoch"].to_string()),
            fact("position", body["position"].to_string()),
            fact("names", format!("{names}, {} of them here", body["claims"])),
        ];
        table(&["", ""], &facts).trim_start().to_owned() + "\n" + &with_addresses(list(body, "members"))
    })
}

/// Sets something for all members.
pub(crate) fn configure(args: &ConfigureArgs) -> ExitCode {
    let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let mut body = json!({"wait_ms": args.to.wait_ms()});
    let given = [
        ("lock_timeout_ms", args.change.lock_timeout.map(|time| json!(millis(time)))),
        ("silence_ms", args.change.silence.map(|time| json!(millis(time)))),
        (
            "policy",
            args.change.policy.map(|policy| match policy {
                Policy::Sticky => json!("sticky"),
                Policy::Ranked => json!("ranked"),
            }),
        ),
    ];
    for (name, value) in given {
        if let Some(value) = value {
            body[name] = value;
        }
    }
    args.to.post("/configure", Work::Changes, body, |body| settings(body) + "\n")
}

/// What holds, and which of it is set for all members.
fn settings(body: &Value) -> String {
    let settings = &body["settings"];
    let is_set = |name: &str| settings["set"].as_array().is_some_and(|set| set.iter().any(|set| set == name));
    let fact = |name: &str, value: String, field: &str| {
        let own = if is_set(field) { "" } else { " (not set)" };
        format!("{name} {value}{own}")
    };
    let time = |field: &str| {
        settings[field].as_u64().map_or("?".to_owned(), |ms| format!("{:?}", Duration::from_millis(ms)))
    };
    [
        fact("policy", text(settings, "policy"), "policy"),
        fact("silence", time("silence_ms"), "silence_ms"),
        fact("lock timeout", time("lock_timeout_ms"), "lock_timeout_ms"),
    ]
    .join(", ")
}

fn list<'a>(body: &'a Value, field: &str) -> &'a [Value] {
    body[field].as_array().map_or(&[], Vec::as_slice)
}

fn text(body: &Value, field: &str) -> String {
    printable(body[field].as_str().unwrap_or("?"))
}

/// The last holder that a node knew which cannot say who holds a name now.
fn last_known(body: &Value) -> Option<String> {
    let entry = &body["last_known"];
    entry.is_object().then(|| format!("last known: on {}, token {}", text(entry, "node"), entry["token"]))
}

/// Entries as a table. Addresses and metadata have a column if any name has them.
fn holders(entries: &[Value]) -> String {
    let addresses: Vec<_> = entries.iter().map(|entry| entry["meta"][ADDRESS].as_str()).collect();
    let rest: Vec<_> = entries.iter().map(|entry| meta(&entry["meta"])).collect();
    let has_address = addresses.iter().any(Option::is_some);
    let has_meta = rest.iter().any(|rest| !rest.is_empty());
    let mut heads = vec!["NAME", "NODE", "TOKEN"];
    heads.extend(has_address.then_some("ADDRESS"));
    heads.extend(has_meta.then_some("METADATA"));
    let row = |((entry, address), rest): ((&Value, Option<&str>), &String)| {
        let mut cells = vec![text(entry, "name"), text(entry, "node"), entry["token"].to_string()];
        cells.extend(has_address.then(|| printable(address.unwrap_or_default())));
        cells.extend(has_meta.then(|| rest.clone()));
        cells
    };
    table(&heads, &entries.iter().zip(addresses).zip(&rest).map(row).collect::<Vec<_>>())
}

/// Metadata in one line, without the address: fields with texts as they were given, whatever else as JSON.
fn meta(value: &Value) -> String {
    let field = |(field, value): (&String, &Value)| match value {
        Value::String(text) => format!("{field}={text}"),
        other => format!("{field}={other}"),
    };
    let line = match value {
        Value::Null => String::new(),
        Value::Object(fields) => {
            let is_address = |(field, value): &(&String, &Value)| *field == ADDRESS && value.is_string();
            fields.iter().filter(|field| !is_address(field)).map(field).collect::<Vec<_>>().join(" ")
        }
        other => other.to_string(),
    };
    printable(&line)
}

impl Args {
    pub(super) fn wait_ms(&self) -> u64 {
        u64::try_from(self.wait.as_millis()).unwrap_or(u64::MAX)
    }

    fn get(&self, path: &str, query: &[(&str, &str)], print: impl FnOnce(&Value) -> String) -> ExitCode {
        let mut query = query.to_vec();
        query.extend(self.registry().map(|registry| ("registry", registry)));
        self.print(self.client().and_then(|client| client.get(path, &query)), Work::Asks, print)
    }

    fn post(
        &self,
        path: &str,
        work: Work,
        mut body: Value,
        print: impl FnOnce(&Value) -> String,
    ) -> ExitCode {
        if let Some(registry) = self.registry() {
            body["registry"] = registry.into();
        }
        self.print(self.client().and_then(|client| client.post(path, &body)), work, print)
    }

    /// The registry that is asked. `None`: the node's first.
    fn registry(&self) -> Option<&str> {
        self.which.registry(self.registry.as_deref())
    }

    /// Says which registry is asked, if it is not the node's first.
    pub(super) fn registry_query(&self) -> Vec<(&str, &str)> {
        self.registry().map(|registry| ("registry", registry)).into_iter().collect()
    }

    pub(super) fn is_json(&self) -> bool {
        self.json
    }

    pub(super) fn client(&self) -> Result<Client> {
        self.which.find(self.registry.as_deref(), |node| self.client_of(node))
    }

    /// Another node, which takes the same token.
    pub(super) fn client_of(&self, node: &NodeUrl) -> Result<Client> {
        let token = self.token_file.as_deref().map(token::read).transpose();
        let token = token.map_err(|error| Usage(format!("{error:#}")))?;
        Ok(Client::new(node, self.wait).with_token(token.as_ref()))
    }

    pub(super) fn print(
        &self,
        answered: Result<Answer>,
        work: Work,
        print: impl FnOnce(&Value) -> String,
    ) -> ExitCode {
        let answered = match answered {
            Ok(answered) => answered,
            Err(error) => {
                let is_usage = error.is::<Usage>();
                let (code, verdict) =
                    if is_usage { ("usage", Verdict::Usage) } else { ("no_answer", Verdict::Unknown) };
                let message = format!("{error:#}");
                if self.json {
                    let body = json!({"error": code, "verdict": verdict, "message": message});
                    return answer(&format!("{body}\n"), work, verdict.exit_status());
                }
                tell(format_args!("callsign: {}", printable(&message)));
                return verdict.exit_status().into();
            }
        };
        let status = answered.exit_status();
        if self.json {
            answer(&format!("{}\n", answered.body), work, status)
        } else if answered.is_ok() {
            answer(&print(&answered.body), work, status)
        } else {
            let known = last_known(&answered.body);
            let message = answered.ok().err().map(|error| error.to_string()).unwrap_or_default();
            tell(format_args!("callsign: {}", printable(&message)));
            if let Some(known) = known {
                tell(known);
            }
            status.into()
        }
    }
}

#[cfg(test)]
mod tests;
