//! What is wrong with a database: what it says of itself, and what that means.

use std::time::Duration;

use futures::future::join_all;
use tokio::time::timeout;
use tokio_postgres::{Client, Error, config::TargetSessionAttrs, error::SqlState};

use super::{
    ANSWER_TIMEOUT,
    address::Address,
    host::Host,
    tls::Tls,
    trouble::{Unfit, in_words, unfit},
};
use crate::driver::finding::{Finding, Verdict, found};

/// The oldest server that has what is used, as `server_version_num`, and as people say it.
const OLDEST: (i32, &str) = (120_000, "12");

/// Connections that one process takes.
const CONNECTIONS: i64 = 3;

/// One statement, which every role may run, on a standby too.
const FACTS: &str = "
    SELECT current_setting('server_version_num')::int4, current_setting('server_version'), current_user::text,
        current_database()::text, pg_is_in_recovery(), current_setting('transaction_read_only') = 'on',
        current_setting('fsync') = 'on' AND current_setting('full_page_writes') = 'on',
        current_setting('synchronous_commit'), current_setting('synchronous_standby_names'),
        current_setting('max_connections')::int8,
        (SELECT coalesce(sum(numbackends), 0)::int8 FROM pg_stat_database),
        (SELECT count(*) FROM pg_stat_replication),
        coalesce((SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()), false),
        has_database_privilege(current_database(), 'CREATE'),
        (SELECT has_schema_privilege(oid, 'USAGE') FROM pg_namespace WHERE nspname = 'callsign'),
        (SELECT has_schema_privilege(oid, 'CREATE') FROM pg_namespace WHERE nspname = 'callsign'),
        EXISTS (SELECT FROM pg_tables WHERE schemaname = 'callsign' AND tablename = 'store')";

/// What the role may not do and has to: privilege and table.
const MISSING: &str = "
    SELECT needs.privilege || ' on callsign.' || needs.relation
    FROM (VALUES ('store', 'SELECT'), ('store', 'UPDATE'), ('kv', 'SELECT'), ('kv', 'INSERT'), ('kv', 'UPDATE'),
        ('kv', 'DELETE'), ('clears', 'SELECT'), ('clears', 'INSERT'), ('clears', 'DELETE'), ('turn', 'UPDATE')
    ) AS needs (relation, privilege)
    JOIN pg_class ON relname = needs.relation JOIN pg_namespace ON pg_namespace.oid = relnamespace
    WHERE nspname = 'callsign' AND NOT has_table_privilege(pg_class.oid, needs.privilege) ORDER BY 1";

/// What a server says of itself and of the role.
#[derive(Clone, Debug)]
#[allow(clippy::struct_excessive_bools)] // answers to yes-or-no questions, no states
struct Facts {
    version: i32,
    version_said: String,
    user: String,
    database: String,
    is_standby: bool,
    is_read_only: bool,
    is_synced: bool,
    synchronous_commit: String,
    synchronous_standbys: String,
    max_connections: i64,
    connections: i64,
    standbys: i64,
    is_encrypted: bool,
    may_create_schemas: bool,
    /// `None`: there is no schema.
    may_use_schema: Option<bool>,
    may_create_tables: Option<bool>,
    has_tables: bool,
    missing: Vec<String>,
}

impl Facts {
    fn takes_writes(&self) -> bool {
        !self.is_standby && !self.is_read_only
    }
}

/// Looks at the database that a URL names.
pub(crate) fn examine(url: &str) -> Vec<Finding> {
    let mut address = match Address::parse(url) {
        Ok(address) => address,
        Err(error) => return vec![(&error).into()],
    };
    for host in &mut address.hosts {
        // To tell a standby from what cannot be reached.
        host.config.target_session_attrs(TargetSessionAttrs::Any);
    }
    found(look(&address))
}

async fn look(address: &Address) -> Vec<Finding> {
    let described = address.describe();
    let all = join_all(address.hosts.iter().map(|host| look_at(host, &address.tls, &described))).await;
    let mut findings = match (all.iter().flatten().find(|facts| facts.takes_writes()), all.first()) {
        (Some(facts), _) | (None, Some(Ok(facts))) => judge(&described, facts),
        (None, Some(Err(why))) => vec![why.clone()],
        (None, None) => Vec::new(),
    };
    if let [_, _, ..] = all.as_slice() {
        let names = address.hosts.iter().map(|host| host.name.as_str());
        let states = all.iter().map(|facts| facts.as_ref().ok().map(Facts::takes_writes));
        findings.push(hosts(&names.zip(states).collect::<Vec<_>>()));
    }
    findings
}

/// What one host says of itself.
async fn look_at(host: &Host, tls: &Tls, described: &str) -> Result<Facts, Finding> {
    let unknown = |why: String| {
        Finding::new("reach", Verdict::Unknown, format!("{described} cannot be reached: {why}"))
            .advise("see that the server runs, and that host, port and sslmode are right")
    };
    let connected = timeout(ANSWER_TIMEOUT, host.config.connect(tls.clone())).await;
    let (client, connection) = match connected {
        Ok(Ok(connected)) => connected,
        Ok(Err(error)) => {
            return Err(turned_away(described, &error).unwrap_or_else(|| unknown(in_words(&error))));
        }
        Err(_) => return Err(unknown("the server does not answer".to_owned())),
    };
    let driven = tokio::spawn(connection);
    let facts = timeout(ANSWER_TIMEOUT, ask(&client)).await;
    drop(client);
    // What it has to say was said to the client.
    let _ = timeout(Duration::from_secs(1), driven).await;
    match facts {
        Ok(Ok(facts)) => Ok(facts),
        Ok(Err(error)) => Err(unknown(in_words(&error))),
        Err(_) => Err(unknown("the server does not answer".to_owned())),
    }
}

/// Which of several hosts take writes; `None` for one that does not answer.
fn hosts(hosts: &[(&str, Option<bool>)]) -> Finding {
    let of = |state: Option<bool>| {
        let names: Vec<_> = hosts.iter().filter(|(_, is)| *is == state).map(|(name, _)| *name).collect();
        names.join(", ")
    };
    let (primaries, silent) = (of(Some(true)), of(None));
    if hosts.iter().filter(|(_, is)| *is == Some(true)).count() > 1 {
        let said = format!("several hosts take writes: {primaries}. All but one are old primaries");
        return Finding::new("hosts", Verdict::Warning, said)
            .advise("stop the old primary, and start it as a standby (pg_rewind)");
    }
    if !silent.is_empty() {
        return Finding::new("hosts", Verdict::Warning, format!("no answer from {silent}"))
            .advise("see that the server runs: until then there may be nobody to fail over to");
    }
    Finding::new("hosts", Verdict::Ok, format!("takes writes: {primaries}. Standbys: {}", of(Some(false))))
}

/// What a server means that answers, and lets nobody in.
fn turned_away(described: &str, error: &Error) -> Option<Finding> {
    if let Some(unfit) = unfit(error) {
        return Some(cannot_be_used(described, unfit, error));
    }
    let code = error.code()?;
    let (check, verdict, advice) =
        if [SqlState::INVALID_PASSWORD, SqlState::INVALID_AUTHORIZATION_SPECIFICATION].contains(code) {
            (
                "permissions",
                Verdict::No,
                "see user and password (the environment's PGPASSWORD), and the server's pg_hba.conf",
            )
        } else if *code == SqlState::UNDEFINED_DATABASE {
            ("reach", Verdict::No, "make the database: createdb --owner=ROLE DATABASE")
        } else if *code == SqlState::INSUFFICIENT_PRIVILEGE {
            ("permissions", Verdict::No, "let the role connect: GRANT CONNECT ON DATABASE")
        } else if *code == SqlState::TOO_MANY_CONNECTIONS {
            ("connections", Verdict::No, "raise max_connections: each process of Callsign takes three")
        } else if *code == SqlState::CANNOT_CONNECT_NOW {
            ("reach", Verdict::Unknown, "the server starts or stops: ask again")
        } else {
            return None;
        };
    let said = format!("{described} answers, and refuses: {}", in_words(error));
    Some(Finding::new(check, verdict, said).advise(advice))
}

/// What a server means that answers, and with which the client itself does not go on.
fn cannot_be_used(described: &str, unfit: Unfit, error: &Error) -> Finding {
    let (check, said, advice) = match unfit {
        Unfit::NoPassword => (
            "permissions",
            "asks for a password, and none was given".to_owned(),
            "give it in the environment's PGPASSWORD or in the URL, or change the server's pg_hba.conf",
        ),
        Unfit::NoTls => (
            "encryption",
            "offers no TLS, and sslmode asks for it".to_owned(),
            "turn it on at the server (ssl = on), or say sslmode=disable where the network is trusted",
        ),
        Unfit::BadCertificate => (
            "encryption",
            format!("shows a certificate that is not believed: {}", in_words(error)),
            "see which authority issued it, and for which name: sslrootcert and the host of the URL",
        ),
    };
    Finding::new(check, Verdict::No, format!("{described} answers, and {said}")).advise(advice)
}

async fn ask(client: &Client) -> Result<Facts, Error> {
    let row = client.query_one(FACTS, &[]).await?;
    let missing = client.query(MISSING, &[]).await?;
    Ok(Facts {
        version: row.try_get(0)?,
        version_said: row.try_get(1)?,
        user: row.try_get(2)?,
        database: row.try_get(3)?,
        is_standby: row.try_get(4)?,
        is_read_only: row.try_get(5)?,
        is_synced: row.try_get(6)?,
        synchronous_commit: row.try_get(7)?,
        synchronous_standbys: row.try_get(8)?,
        max_connections: row.try_get(9)?,
        connections: row.try_get(10)?,
        standbys: row.try_get(11)?,
        is_encrypted: row.try_get(12)?,
        may_create_schemas: row.try_get(13)?,
        may_use_schema: row.try_get(14)?,
        may_create_tables: row.try_get(15)?,
        has_tables: row.try_get(16)?,
        missing: missing.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?,
    })
}

fn judge(described: &str, facts: &Facts) -> Vec<Finding> {
    let encrypted = if facts.is_encrypted { "encrypted" } else { "not encrypted" };
    vec![
        Finding::new("reach", Verdict::Ok, format!("{described} answers, {encrypted}")),
        version(facts),
        role(facts),
        permissions(facts),
        durability(facts),
        failover(facts),
        room(facts),
    ]
}

fn version(facts: &Facts) -> Finding {
    let said = format!("Postgres {}", facts.version_said);
    if facts.version >= OLDEST.0 {
        return Finding::new("version", Verdict::Ok, said);
    }
    let said = format!("{said} is too old");
    Finding::new("version", Verdict::No, said).advise(format!("use Postgres {} or newer", OLDEST.1))
}

fn role(facts: &Facts) -> Finding {
    if facts.is_standby {
        return Finding::new(
            "writes",
            Verdict::No,
            "this server is a standby: it takes no writes, and its reads lag",
        )
        .advise("name the primary in the URL, or all of them: postgres://USER@A,B/DATABASE");
    }
    if facts.is_read_only {
        let said = format!("transactions of {} are read-only here", facts.user);
        return Finding::new("writes", Verdict::No, said)
            .advise("set default_transaction_read_only to off for server, database and role");
    }
    Finding::new("writes", Verdict::Ok, "this server takes writes")
}

fn permissions(facts: &Facts) -> Finding {
    let Facts { user, database, .. } = facts;
    let no = |said: String, advice: String| Finding::new("permissions", Verdict::No, said).advise(advice);
    match facts.may_use_schema {
        None if facts.may_create_schemas => {
            Finding::new("permissions", Verdict::Ok, format!("{user} may create the schema \"callsign\""))
        }
        None => no(
            format!("there is no schema \"callsign\" in {database}, and {user} may not create one"),
            format!("as the owner: CREATE SCHEMA callsign AUTHORIZATION {user}"),
        ),
        Some(false) => no(
            format!("{user} may not use the schema \"callsign\""),
            format!("as its owner: GRANT USAGE ON SCHEMA callsign TO {user}"),
        ),
        Some(true) if !facts.has_tables && facts.may_create_tables != Some(true) => no(
            format!("the schema \"callsign\" has no tables, and {user} may not create them"),
            format!("as its owner: GRANT CREATE ON SCHEMA callsign TO {user}"),
        ),
        Some(true) if !facts.missing.is_empty() => no(
            format!("{user} lacks {}", facts.missing.join(", ")),
            format!("as the owner: GRANT ALL ON ALL TABLES IN SCHEMA callsign TO {user}"),
        ),
        Some(true) => Finding::new("permissions", Verdict::Ok, format!("{user} may do what is needed")),
    }
}

fn durability(facts: &Facts) -> Finding {
    if !facts.is_synced {
        return Finding::new(
            "durability",
            Verdict::Warning,
            "fsync or full_page_writes is off: a crash of the machine may take anything, fencing tokens go back",
        )
        .advise("turn both on, but in tests");
    }
    let said = match facts.synchronous_commit.as_str() {
        "off" | "local" => {
            "commits are on the server's disk: synchronous_commit is raised to on for each connection"
        }
        _ => "commits are on the server's disk before they are answered",
    };
    Finding::new("durability", Verdict::Ok, said)
}

fn failover(facts: &Facts) -> Finding {
    let loses = "failover to it loses the last commits: fencing tokens go back, a name may be promised twice";
    match (facts.standbys, facts.synchronous_standbys.is_empty()) {
        (_, false) => {
            let said = format!(
                "commits wait for standbys: synchronous_standby_names = {}",
                facts.synchronous_standbys
            );
            Finding::new("failover", Verdict::Ok, said)
        }
        (0, true) => {
            Finding::new("failover", Verdict::Ok, "no standby is connected, so there is none to lose commits")
        }
        (standbys, true) => {
            let said = format!("{standbys} standbys, none of them waited for: {loses}");
            Finding::new("failover", Verdict::Warning, said).advise("set synchronous_standby_names")
        }
    }
}

fn room(facts: &Facts) -> Finding {
    let free = facts.max_connections - facts.connections;
    let said = format!("{} of {} connections are in use", facts.connections, facts.max_connections);
    if free >= 10 * CONNECTIONS {
        return Finding::new("connections", Verdict::Ok, said);
    }
    Finding::new(
        "connections",
        Verdict::Warning,
        format!("{said}; each process of Callsign takes {CONNECTIONS}"),
    )
    .advise("raise max_connections")
}

#[cfg(test)]
mod tests;
