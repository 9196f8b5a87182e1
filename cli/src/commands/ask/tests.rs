use clap::{Args as _, FromArgMatches as _, error::ErrorKind};

use super::*;

#[test]
fn the_prefix_of_names_to_list_is_typed_in_one_of_two_ways() {
    let begin = |of_file: Option<&'static str>, words: &[&'static str]| {
        let mut command = LsArgs::augment_args(clap::Command::new("ls"));
        if let Some(prefix) = of_file {
            command = command.mut_arg("prefix", |argument| argument.default_value(prefix));
        }
        let matches = command.try_get_matches_from([&["ls"], words].concat())?;
        Ok::<_, clap::Error>(LsArgs::from_arg_matches(&matches)?.begin().to_owned())
    };
    assert_eq!(begin(None, &[]).unwrap(), "");
    assert_eq!(begin(None, &["shop/"]).unwrap(), "shop/");
    assert_eq!(begin(None, &["--prefix", "shop/"]).unwrap(), "shop/");
    let both = begin(None, &["shop/", "--prefix", "shop/"]).unwrap_err();
    assert_eq!(both.kind(), ErrorKind::ArgumentConflict);
    assert_eq!(begin(Some("of-file/"), &[]).unwrap(), "of-file/");
    assert_eq!(begin(Some("of-file/"), &["shop/"]).unwrap(), "shop/");
}

#[test]
fn a_field_has_a_name_and_its_value_may_be_empty() {
    let pair = |field: &str, value: &str| Ok((field.to_owned(), value.to_owned()));
    assert_eq!(field("zone=eu"), pair("zone", "eu"));
    assert_eq!(field("zone="), pair("zone", ""));
    assert_eq!(field("zone=a=b"), pair("zone", "a=b"));
    for wrong in ["=eu", "=", "zone", ""] {
        assert!(field(wrong).is_err(), "{wrong:?}");
    }
}

#[test]
fn a_node_that_the_store_names_is_asked_for_the_registry_of_which_it_is_a_member() {
    let asked = |words: &[&'static str]| {
        let command = Args::augment_args(clap::Command::new("ls"));
        let matches = command.get_matches_from([&["ls"], words].concat());
        let args = Args::from_arg_matches(&matches).unwrap();
        args.registry_query().first().map(|(_, registry)| (*registry).to_owned())
    };
    assert_eq!(asked(&["--store", "sqlite:/x.db"]).as_deref(), Some("default"));
    assert_eq!(asked(&["--store", "sqlite:/x.db", "--registry", "r"]).as_deref(), Some("r"));
    assert_eq!(asked(&["--node", "127.0.0.1:1"]), None, "it knows which is its first");
}

#[test]
fn a_drain_says_how_many_names_moved_and_what_becomes_of_the_others() {
    for (body, said) in [
        (
            json!({"drained": "led", "by": "b", "moved": 100, "stay": 1}),
            "drained: b leads; 100 names moved to other nodes; one name stays on this node, and is free when it stops\n",
        ),
        (
            json!({"drained": "led", "by": "b", "moved": 1, "stay": 2}),
            "drained: b leads; one name moved to another node; 2 names stay on this node, and are free when it stops\n",
        ),
        (
            json!({"drained": "alone", "moved": 0, "stay": 0}),
            "drained: nobody else could lead, so this node does until it leaves; no name stays on this node\n",
        ),
        (json!({"drained": "left", "moved": 0, "stay": 0}), "the node has left\n"),
        // A node of a version that does not count.
        (json!({"drained": "led", "by": "b"}), "drained: b leads\n"),
    ] {
        assert_eq!(drained(&body), said);
    }
}
