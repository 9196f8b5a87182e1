use super::{super::tests::said::*, *};

fn fine() -> Facts {
    Facts {
        version: 150_004,
        version_said: "15.4".to_owned(),
        user: "callsign".to_owned(),
        database: "d".to_owned(),
        is_standby: false,
        is_read_only: false,
        is_synced: true,
        synchronous_commit: "on".to_owned(),
        synchronous_standbys: String::new(),
        max_connections: 100,
        connections: 5,
        standbys: 0,
        is_encrypted: true,
        may_create_schemas: true,
        may_use_schema: None,
        may_create_tables: None,
        has_tables: false,
        missing: Vec::new(),
    }
}

/// What is not well: the checks, and the worst of what is said.
fn found(change: impl Fn(&mut Facts)) -> Vec<(&'static str, Verdict)> {
    let mut facts = fine();
    change(&mut facts);
    let findings = judge("postgres://h/d", &facts);
    let bad = findings.iter().filter(|finding| finding.verdict != Verdict::Ok);
    bad.map(|finding| {
        assert!(finding.advice.is_some(), "{finding:?}");
        (finding.check, finding.verdict)
    })
    .collect()
}

#[test]
fn nothing_is_wrong_with_a_database_that_is_fine() {
    assert!(found(|_| ()).is_empty());
    assert!(found(|f| f.synchronous_commit = "local".to_owned()).is_empty(), "it is raised");
    for (is_encrypted, said) in [(true, "encrypted"), (false, "not encrypted")] {
        let findings = judge("postgres://h/d", &Facts { is_encrypted, ..fine() });
        assert_eq!(findings[0].said, format!("postgres://h/d answers, {said}"));
    }
}

#[test]
fn each_thing_that_is_wrong_is_said_by_its_name() {
    use Verdict::{No, Warning};
    assert_eq!(found(|f| f.version = OLDEST.0 - 1), [("version", No)]);
    assert!(found(|f| f.version = OLDEST.0).is_empty());
    assert_eq!(found(|f| f.is_standby = true), [("writes", No)]);
    assert_eq!(found(|f| f.is_read_only = true), [("writes", No)]);
    assert_eq!(found(|f| f.is_synced = false), [("durability", Warning)]);
    assert_eq!(found(|f| f.standbys = 1), [("failover", Warning)]);
    assert_eq!(found(|f| f.connections = 90), [("connections", Warning)]);
}

#[test]
fn two_hosts_that_take_writes_and_one_that_does_not_answer_are_named() {
    use Verdict::{Ok, Warning};
    for (all, verdict, said) in [
        ([("a", Some(false)), ("b", Some(true))], Ok, "takes writes: b. Standbys: a"),
        ([("a", Some(true)), ("b", Some(true))], Warning, "several hosts take writes: a, b. All but one"),
        ([("a", Some(true)), ("b", None)], Warning, "no answer from b"),
    ] {
        let finding = hosts(&all);
        assert!(finding.verdict == verdict && finding.said.starts_with(said), "{finding:?}");
    }
}

#[test]
fn what_a_role_may_not_do_is_said() {
    use Verdict::No;
    let with = |schema, create, tables, missing: &[&str]| {
        found(|f| {
            f.may_create_schemas = false;
            (f.may_use_schema, f.may_create_tables, f.has_tables) = (schema, create, tables);
            f.missing = missing.iter().map(ToString::to_string).collect();
        })
    };
    assert_eq!(with(None, None, false, &[]), [("permissions", No)]);
    assert_eq!(with(Some(false), Some(false), true, &[]), [("permissions", No)]);
    assert_eq!(with(Some(true), Some(false), false, &[]), [("permissions", No)]);
    assert!(with(Some(true), Some(true), false, &[]).is_empty());
    assert_eq!(with(Some(true), Some(false), true, &["INSERT on callsign.kv"]), [("permissions", No)]);
    assert!(with(Some(true), Some(false), true, &[]).is_empty());
}

#[test]
fn room_for_fewer_than_ten_processes_is_told() {
    assert!(found(|f| f.connections = 70).is_empty());
    assert_eq!(found(|f| f.connections = 71), [("connections", Verdict::Warning)]);
}

#[tokio::test]
async fn a_server_that_lets_nobody_in_is_told_by_what_it_says() {
    for (code, check, verdict) in [
        ("28P01", "permissions", Verdict::No),
        ("28000", "permissions", Verdict::No),
        ("3D000", "reach", Verdict::No),
        ("42501", "permissions", Verdict::No),
        ("53300", "connections", Verdict::No),
        ("57P03", "reach", Verdict::Unknown),
    ] {
        let finding = turned_away("postgres://h/d", &said(code).await).unwrap();
        assert_eq!((finding.check, finding.verdict), (check, verdict), "{finding:?}");
        assert!(finding.said.contains(code) && finding.advice.is_some(), "{finding:?}");
    }
    assert_eq!(turned_away("postgres://h/d", &said("XX000").await), None);
    assert_eq!(turned_away("postgres://h/d", &unsaid().await), None);
}
