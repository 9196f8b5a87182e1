//! `callsign registries`: the registries of a cluster, as its store has them. Asks no node.

use std::process::ExitCode;

use anyhow::{Context, Result};
use callsign_elector::record::{LogEnd, MemberRow, Term};
use callsign_store::{
    ReadResult,
    ids::{ClusterName, RegistryName},
    keys::{ClusterKeys, read_key, read_range},
    record::Record,
};
use serde_json::{Value, json};

use super::demo::shared_store;
use crate::{
    directory::{Looks, MOST_ROWS},
    output::{Work, answer, printable, table, tell},
    reply::Verdict,
    usage::Usage,
};

/// Arguments of `callsign registries`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The store of the cluster: `sqlite:PATH`, `postgres://USER@HOST/DATABASE`, `etcd://HOST/PREFIX` or `fdb:CLUSTER_FILE`.
    #[arg(long, env = "CALLSIGN_STORE", hide_env_values = true, value_parser = shared_store)]
    store: String,
    /// The cluster.
    #[arg(long, default_value = "default")]
    cluster: String,
    /// Print what was found as JSON.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> ExitCode {
    match listed(args) {
        Ok(text) => answer(&text, Work::Asks, 0),
        Err(error) => {
            // What the store does not say is not known.
            let is_usage = error.is::<Usage>();
            let (code, verdict) =
                if is_usage { ("usage", Verdict::Usage) } else { ("no_answer", Verdict::Unknown) };
            if args.json {
                let body = json!({"error": code, "verdict": verdict, "message": format!("{error:#}")});
                return answer(&format!("{body}\n"), Work::Asks, verdict.exit_status());
            }
            tell(format_args!("callsign: {}", printable(&format!("{error:#}"))));
            verdict.exit_status().into()
        }
    }
}

fn listed(args: &Args) -> Result<String> {
    let cluster = ClusterKeys::new(&ClusterName::new(&args.cluster).map_err(Usage::because)?);
    let looks = Looks::at(&args.store)?;
    let mut found = Vec::new();
    let mut rest = cluster.registries();
    // From each registry to the first key behind it, so that no log is read.
    while let Some((key, _)) = looks.read(&[read_range(rest.clone(), 1)])?.entries(0).first() {
        let name = cluster.registry_name(key).context("a key of the store names no registry")?;
        let keys = cluster.registry(&name);
        let reads = [read_key(keys.term()), read_key(keys.commit()), read_range(keys.members(), MOST_ROWS)];
        found.push(described(&name, &looks.read(&reads)?)?);
        rest.start = keys.all().end;
    }
    Ok(if args.json { format!("{}\n", json!({"registries": found})) } else { as_table(&found) })
}

fn described(name: &RegistryName, read: &ReadResult) -> Result<Value> {
    let term = read.value(0).map_or_else(|| Ok(Term::vacant()), |value| Term::from_value(value))?;
    let end = read.value(1).map_or_else(|| Ok(LogEnd::default()), |value| LogEnd::from_value(value))?;
    let members = read.entries(2).iter().map(|(_, value)| MemberRow::from_value(value));
    let members = members.collect::<Result<Vec<_>, _>>()?;
    Ok(json!({
        "registry": name,
        "members": members.iter().map(|row| &row.session.node).collect::<Vec<_>>(),
        "leader": term.leader.map(|leader| leader.node),
        "epoch": term.epoch,
        "position": end.position,
    }))
}

fn as_table(found: &[Value]) -> String {
    let text = |value: &Value| printable(value.as_str().unwrap_or("nobody"));
    let row = |registry: &Value| {
        let members = registry["members"].as_array().map_or(0, Vec::len);
        let numbers =
            [json!(members).to_string(), registry["epoch"].to_string(), registry["position"].to_string()];
        let [members, epoch, position] = numbers;
        vec![text(&registry["registry"]), members, text(&registry["leader"]), epoch, position]
    };
    table(&["REGISTRY", "MEMBERS", "LEADER", "EPOCH", "POSITION"], &found.iter().map(row).collect::<Vec<_>>())
}
