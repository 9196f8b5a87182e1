//! What is wrong with a cluster: what each member says of itself, and what that means.

use std::collections::BTreeMap;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};
use tonic::Status;

use super::{
    READ_TIMEOUT,
    address::EtcdAddress,
    layout::is_refused,
    member::{EtcdNotConnected, MemberClient as Connection},
    trouble::{in_words, is_compacted},
    wire::{
        AlarmMember, AlarmRequest, Member, MemberListRequest, RangeRequest, StatusRequest, StatusResponse,
    },
};
use crate::driver::finding::{Finding, Verdict, found};

/// The oldest server that has what is used: a client chooses the numbers of its watches.
const OLDEST: (u32, u32) = (3, 4);
/// What etcd keeps where nobody has said how much (`--quota-backend-bytes`).
const DEFAULT_QUOTA: i64 = 2 << 30;
/// So many revisions without any compaction are a sign that nobody compacts.
const NEVER_COMPACTED: i64 = 100_000;
const NO_SPACE: i32 = 1;

/// What the members say.
#[derive(Clone, Debug)]
struct ClusterFacts {
    is_encrypted: bool,
    /// Of each member of the URL, what it says of itself, or why it says nothing.
    members: Vec<(String, Result<StatusResponse, String>)>,
    /// All members of the cluster, as they know each other.
    list: Vec<Member>,
    alarms: Vec<AlarmMember>,
    /// What may be kept, and whether anybody said so.
    quota: Option<i64>,
    revision: i64,
    /// Whether what was at the first revision is forgotten; `None`: that could not be found out.
    is_compacted: Option<bool>,
}

/// Looks at the cluster that a URL names.
pub(crate) fn examine(url: &str) -> Vec<Finding> {
    let address = match EtcdAddress::parse(url) {
        Ok(address) => address,
        Err(error) => return vec![(&error).into()],
    };
    found(look(&address))
}

async fn look(address: &EtcdAddress) -> Vec<Finding> {
    let described = address.describe();
    let mut members = Vec::new();
    let mut asked = None;
    let mut refused = None;
    for name in &address.members {
        let said = match Connection::connect(address, name).await {
            Ok(connection) => {
                let said = status_of(&connection, address).await;
                if said.is_ok() && asked.is_none() {
                    asked = Some(connection);
                }
                said
            }
            Err(EtcdNotConnected::Said(status)) if is_refused(&status) => {
                refused = Some(in_words(&status));
                Err(in_words(&status))
            }
            Err(error) => Err(error.to_string()),
        };
        members.push((name.clone(), said));
    }
    let Some(connection) = asked else {
        let why: Vec<_> = members
            .iter()
            .filter_map(|(name, said)| Some(format!("{name}: {}", said.as_ref().err()?)))
            .collect();
        if let Some(said) = refused {
            let said = format!("{described} answers, and refuses: {said}");
            return vec![
                Finding::new("permissions", Verdict::No, said).advise(
                    "see user and password (the environment's ETCDCTL_PASSWORD), and the user's roles",
                ),
            ];
        }
        let said = format!("{described} cannot be reached: {}", why.join("; "));
        return vec![
            Finding::new("reach", Verdict::Unknown, said)
                .advise("see that the servers run, and that hosts, ports and certificates are right"),
        ];
    };
    match ask(&connection, address, members).await {
        Ok(facts) => judge(&described, &facts),
        Err(why) => {
            vec![Finding::new("reach", Verdict::Unknown, format!("{described} does not say: {why}"))]
        }
    }
}

async fn status_of(connection: &Connection, address: &EtcdAddress) -> Result<StatusResponse, String> {
    let asked = timeout(READ_TIMEOUT, connection.call(address, StatusRequest {})).await;
    match asked {
        Ok(Ok(status)) => Ok(status),
        // It is there, and has nothing to say of who leads; that is what is wrong with it.
        Ok(Err(status)) if status.message() == "etcdserver: no leader" => Ok(StatusResponse::default()),
        Ok(Err(status)) => Err(in_words(&status)),
        Err(_) => Err(EtcdNotConnected::Silent.to_string()),
    }
}

async fn ask(
    connection: &Connection,
    address: &EtcdAddress,
    members: Vec<(String, Result<StatusResponse, String>)>,
) -> Result<ClusterFacts, String> {
    let said = members.iter().find_map(|(_, said)| said.as_ref().ok()).cloned().unwrap_or_default();
    let revision = said.header.as_ref().map_or(0, |header| header.revision);
    // Who may do nothing but use keys is told nothing by some versions; the rest is found out all the same.
    let list = within(connection.call(address, MemberListRequest {})).await;
    let list = list.map(|said| said.members).unwrap_or_default();
    let alarms = within(connection.call(address, AlarmRequest {})).await;
    let alarms = alarms.map(|said| said.alarms).unwrap_or_default();
    let first = RangeRequest { key: address.space.layout(), revision: 1, ..RangeRequest::default() };
    let is_compacted = match timeout(READ_TIMEOUT, connection.call(address, first)).await {
        Ok(Ok(_)) => Some(false),
        Ok(Err(status)) if is_compacted(&status) => Some(true),
        Ok(Err(status)) if is_refused(&status) => return Err(in_words(&status)),
        Ok(Err(_)) | Err(_) => None,
    };
    let quota = match said.db_size_quota {
        0 if address.is_encrypted() => None,
        0 => timeout(READ_TIMEOUT, quota(&connection.name)).await.ok().flatten(),
        quota => Some(quota),
    };
    let is_encrypted = address.is_encrypted();
    Ok(ClusterFacts { is_encrypted, members, list, alarms, quota, revision, is_compacted })
}

async fn within<T>(asked: impl Future<Output = Result<T, Status>>) -> Option<T> {
    timeout(READ_TIMEOUT, asked).await.ok()?.ok()
}

/// What a member before etcd 3.6 says of its quota among its metrics, over the same port.
async fn quota(member: &str) -> Option<i64> {
    let mut stream = TcpStream::connect(member).await.ok()?;
    let asked = format!("GET /metrics HTTP/1.0\r\nHost: {member}\r\n\r\n");
    stream.write_all(asked.as_bytes()).await.ok()?;
    let mut said = Vec::new();
    stream.take(4 << 20).read_to_end(&mut said).await.ok()?;
    quota_in(&String::from_utf8_lossy(&said))
}

fn quota_in(metrics: &str) -> Option<i64> {
    let value = metrics.lines().find_map(|line| line.strip_prefix("etcd_server_quota_backend_bytes "))?;
    let bytes: f64 = value.trim().parse().ok()?;
    // Far below 2^53.
    #[allow(clippy::cast_possible_truncation)]
    Some(bytes as i64).filter(|bytes| *bytes > 0)
}

fn judge(described: &str, facts: &ClusterFacts) -> Vec<Finding> {
    let mut findings = vec![reach(described, facts), version(facts)];
    findings.extend([quorum(facts), leader(facts), durability(facts), space(facts), compaction(facts)]);
    findings.push(Finding::new(
        "clocks",
        Verdict::Ok,
        "no clock of the servers matters: revisions order commits, and no lease of etcd's is used",
    ));
    findings
}

fn up(facts: &ClusterFacts) -> impl Iterator<Item = (&str, &StatusResponse)> {
    facts.members.iter().filter_map(|(name, said)| Some((name.as_str(), said.as_ref().ok()?)))
}

fn reach(described: &str, facts: &ClusterFacts) -> Finding {
    let encrypted = if facts.is_encrypted { "encrypted" } else { "not encrypted" };
    let down: Vec<_> = facts
        .members
        .iter()
        .filter_map(|(name, said)| Some(format!("{name} ({})", said.as_ref().err()?)))
        .collect();
    if down.is_empty() {
        return Finding::new("reach", Verdict::Ok, format!("{described} answers, {encrypted}"));
    }
    let said = format!("{described} answers, {encrypted}, but not at {}", down.join(", "));
    Finding::new("reach", Verdict::Warning, said)
        .advise("see that this member runs, or leave it out of the URL")
}

fn version(facts: &ClusterFacts) -> Finding {
    let versions: BTreeMap<&str, &str> = up(facts)
        .filter(|(_, said)| !said.version.is_empty())
        .map(|(n, said)| (said.version.as_str(), n))
        .collect();
    let all: Vec<_> = versions.keys().copied().collect();
    let said = format!("etcd {}", all.join(" and "));
    let is_old = |version: &&str| {
        let mut numbers = version.split('.').map(|number| number.parse::<u32>().unwrap_or(0));
        (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) < OLDEST
    };
    if all.is_empty() {
        return Finding::new("version", Verdict::Unknown, "no member says its version");
    }
    if all.iter().any(is_old) {
        return Finding::new("version", Verdict::No, format!("{said} is too old"))
            .advise(format!("use etcd {}.{} or newer", OLDEST.0, OLDEST.1));
    }
    if all.len() > 1 {
        return Finding::new("version", Verdict::Warning, format!("{said}: the members differ"))
            .advise("nothing is wrong while they are upgraded; finish it");
    }
    Finding::new("version", Verdict::Ok, said)
}

fn quorum(facts: &ClusterFacts) -> Finding {
    let voters = facts.list.iter().filter(|member| !member.is_learner).count();
    if voters == 0 {
        return Finding::new("quorum", Verdict::Warning, "the members were not told to this user")
            .advise("ask as root: etcdctl member list");
    }
    let may_fail = (voters - 1) / 2;
    let said = match (voters, may_fail) {
        (1, _) => "1 member: with it, all is gone".to_owned(),
        (_, 1) => format!("{voters} members, of which 1 may fail"),
        _ => format!("{voters} members, of which {may_fail} may fail"),
    };
    match voters {
        1 => Finding::new("quorum", Verdict::Warning, said).advise("run three members, on three machines"),
        voters if voters % 2 == 0 => Finding::new("quorum", Verdict::Warning, said)
            .advise("an even number bears no more failures than one member less: add or remove one"),
        _ => Finding::new("quorum", Verdict::Ok, said),
    }
}

fn durability(facts: &ClusterFacts) -> Finding {
    let said = match facts.list.iter().filter(|member| !member.is_learner).count() {
        1 => "commits are on the disk of one member before they are answered".to_owned(),
        _ => "commits are on the disks of a majority before they are answered".to_owned(),
    };
    Finding::new("durability", Verdict::Ok, said)
}

fn leader(facts: &ClusterFacts) -> Finding {
    let without: Vec<_> = up(facts).filter(|(_, said)| said.leader == 0).map(|(name, _)| name).collect();
    if without.is_empty() {
        return Finding::new("leader", Verdict::Ok, "the members have a leader");
    }
    let (verdict, said) = if without.len() == up(facts).count() {
        (Verdict::No, "there is no leader: nothing can be written".to_owned())
    } else {
        (Verdict::Warning, format!("{} knows no leader: it is cut off from the others", without.join(", ")))
    };
    Finding::new("leader", verdict, said)
        .advise("see the servers' logs, and that members reach each other's peer ports")
}

#[allow(clippy::cast_precision_loss)] // for people
fn space(facts: &ClusterFacts) -> Finding {
    let names: Vec<_> = facts
        .alarms
        .iter()
        .map(|raised| {
            let is_it = |member: &&Member| member.id == raised.member;
            facts.list.iter().find(is_it).map_or_else(|| format!("{:x}", raised.member), |m| m.name.clone())
        })
        .collect();
    if let Some(raised) = facts.alarms.first() {
        let (what, advice) = if raised.alarm == NO_SPACE {
            (
                "NOSPACE: nothing more is taken",
                "compact and defragment, raise --quota-backend-bytes, then: etcdctl alarm disarm",
            )
        } else {
            ("CORRUPT: members hold different data", "replace the damaged member from a healthy one")
        };
        return Finding::new("space", Verdict::No, format!("alarm at {}: {what}", names.join(", ")))
            .advise(advice);
    }
    let size = up(facts).map(|(_, said)| said.db_size).max().unwrap_or(0);
    let quota = facts.quota.unwrap_or(DEFAULT_QUOTA);
    let mib = |bytes: i64| bytes as f64 / f64::from(1 << 20);
    let whose = if facts.quota.is_some() { "the quota of" } else { "etcd's default quota of" };
    let said = format!("{:.1} MiB on disk, {whose} {:.0} MiB", mib(size), mib(quota));
    if size < quota / 5 * 4 {
        return Finding::new("space", Verdict::Ok, said);
    }
    Finding::new("space", Verdict::Warning, format!("{said}: nothing more is taken when it is full"))
        .advise("compact and defragment, or raise --quota-backend-bytes")
}

fn compaction(facts: &ClusterFacts) -> Finding {
    let never = facts.is_compacted == Some(false);
    match facts.is_compacted {
        None => {
            Finding::new("compaction", Verdict::Warning, "it could not be found out whether anybody compacts")
                .advise("see that --auto-compaction-retention is set")
        }
        Some(_) if never && facts.revision > NEVER_COMPACTED => {
            let said = format!(
                "nothing was ever compacted in {} revisions: history fills the quota",
                facts.revision
            );
            Finding::new("compaction", Verdict::Warning, said).advise("set --auto-compaction-retention=1h")
        }
        Some(true) => Finding::new("compaction", Verdict::Ok, "history is compacted"),
        Some(false) => Finding::new("compaction", Verdict::Ok, "there is little history so far"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(change: impl Fn(&mut StatusResponse)) -> StatusResponse {
        let mut status =
            StatusResponse { version: "3.4.23".to_owned(), leader: 1, ..StatusResponse::default() };
        change(&mut status);
        status
    }

    fn member(id: u64) -> Member {
        Member { id, name: format!("m{id}"), client_urls: vec![], is_learner: false }
    }

    fn fine() -> ClusterFacts {
        ClusterFacts {
            is_encrypted: true,
            members: ["a:1", "b:2", "c:3"].map(|name| (name.to_owned(), Ok(status(|_| ())))).into(),
            list: (1..=3).map(member).collect(),
            alarms: vec![],
            quota: Some(1000),
            revision: 7,
            is_compacted: Some(false),
        }
    }

    /// What is not well: the checks, and what may be concluded.
    fn found(change: impl Fn(&mut ClusterFacts)) -> Vec<(&'static str, Verdict)> {
        let mut facts = fine();
        change(&mut facts);
        let findings = judge("etcd://a/p", &facts);
        let bad = findings.iter().filter(|finding| finding.verdict != Verdict::Ok);
        bad.map(|finding| {
            assert!(finding.advice.is_some() || finding.verdict == Verdict::Unknown, "{finding:?}");
            (finding.check, finding.verdict)
        })
        .collect()
    }

    #[test]
    fn nothing_is_wrong_with_a_cluster_that_is_fine() {
        assert!(found(|_| ()).is_empty());
        let said: Vec<_> = judge("etcd://a/p", &fine()).into_iter().map(|finding| finding.said).collect();
        assert_eq!(said[0], "etcd://a/p answers, encrypted");
        assert_eq!(said[2], "3 members, of which 1 may fail");
    }

    #[test]
    fn each_thing_that_is_wrong_is_said_by_its_name() {
        use Verdict::{No, Unknown, Warning};
        let one = |f: &mut ClusterFacts, change: &dyn Fn(&mut StatusResponse)| {
            f.members[1].1 = Ok(status(change));
        };
        assert_eq!(found(|f| f.members[2].1 = Err("it is away".to_owned())), [("reach", Warning)]);
        assert_eq!(found(|f| one(f, &|s| s.version = "3.3.27".to_owned())), [("version", No)]);
        assert_eq!(found(|f| one(f, &|s| s.version = "3.5.9".to_owned())), [("version", Warning)]);
        assert_eq!(found(|f| one(f, &|s| s.leader = 0)), [("leader", Warning)]);
        let nobody = |f: &mut ClusterFacts| {
            f.members.iter_mut().for_each(|(_, said)| *said = Ok(status(|s| s.leader = 0)));
        };
        assert_eq!(found(nobody), [("leader", No)]);
        let unsaid = |f: &mut ClusterFacts| {
            f.members.iter_mut().for_each(|(_, said)| *said = Ok(status(|s| s.version.clear())));
        };
        assert_eq!(found(unsaid), [("version", Unknown)]);
        assert_eq!(found(|f| f.list.truncate(1)), [("quorum", Warning)]);
        assert_eq!(found(|f| f.list.push(member(4))), [("quorum", Warning)]);
        assert_eq!(found(|f| f.list.clear()), [("quorum", Warning)]);
        let learner = Member { is_learner: true, ..member(4) };
        assert!(found(|f| f.list.push(learner.clone())).is_empty(), "it has no vote");
        let disks = |list: Vec<Member>| judge("etcd://a/p", &ClusterFacts { list, ..fine() })[4].said.clone();
        assert!(disks(vec![member(1), learner]).contains("the disk of one member"));
        assert!(disks(vec![member(1), member(2)]).contains("the disks of a majority"));
        for alarm in [NO_SPACE, 2] {
            assert_eq!(found(|f| f.alarms.push(AlarmMember { member: 2, alarm })), [("space", No)]);
        }
        assert_eq!(found(|f| one(f, &|s| s.db_size = 900)), [("space", Warning)]);
        assert!(found(|f| one(f, &|s| s.db_size = 700)).is_empty());
        assert_eq!(found(|f| f.revision = NEVER_COMPACTED + 1), [("compaction", Warning)]);
        let compacted =
            |f: &mut ClusterFacts| (f.revision, f.is_compacted) = (NEVER_COMPACTED + 1, Some(true));
        assert!(found(compacted).is_empty());
        assert_eq!(found(|f| f.is_compacted = None), [("compaction", Warning)]);
    }

    #[test]
    fn a_quota_is_found_among_metrics() {
        let metrics =
            "HTTP/1.0 200 OK\r\n\r\n# HELP x\netcd_server_quota_backend_bytes 2.147483648e+09\nx 1\n";
        assert_eq!(quota_in(metrics), Some(2 << 30));
        assert_eq!((quota_in("etcd_server_quota_backend_bytes 0\n"), quota_in("")), (None, None));
    }

    #[test]
    fn what_is_four_fifths_full_and_what_has_more_than_a_little_history_is_told() {
        let sized = |size: i64| found(|f| f.members[0].1 = Ok(status(|s| s.db_size = size)));
        assert!(sized(799).is_empty());
        assert_eq!(sized(800), [("space", Verdict::Warning)]);
        assert!(found(|f| f.revision = NEVER_COMPACTED).is_empty());
    }

    #[test]
    fn an_alarm_is_told_with_the_member_that_raised_it() {
        let said = |member, alarm| {
            let facts = ClusterFacts { alarms: vec![AlarmMember { member, alarm }], ..fine() };
            judge("etcd://a/p", &facts)[5].said.clone()
        };
        assert_eq!(said(2, NO_SPACE), "alarm at m2: NOSPACE: nothing more is taken");
        assert_eq!(said(0x2a, 2), "alarm at 2a: CORRUPT: members hold different data");
    }
}
