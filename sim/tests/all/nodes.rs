//! Whole nodes under seeds: a seed means the same run in every process, and it ends well.

use std::process::{Command, Output};

fn nodes(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_callsign-sim")).arg("nodes").args(arguments).output().unwrap()
}

#[test]
fn a_seed_of_whole_nodes_gives_the_same_trace_in_two_processes_and_another_seed_another() {
    let traces = ["1", "1", "2"].map(|seed| {
        let output = nodes(&["--seed", seed, "--print"]);
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{}", text.lines().last().unwrap_or_default());
        assert!(text.lines().count() > 1000 && text.contains("Granted") && text.contains("dies"));
        text
    });
    let differs = traces[0].lines().zip(traces[1].lines()).find(|(a, b)| a != b);
    assert!(traces[0] == traces[1], "from here on they differ: {differs:?}");
    assert!(traces[0] != traces[2]);
}

#[test]
fn many_seeds_of_whole_nodes_end_well_a_process_each() {
    let output = nodes(&["--seeds", "6", "--first", "1000"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("6 seeds in") && text.contains("1 run twice alike"), "{text}");
}

#[test]
fn a_crowd_comes_up_at_once_and_survives_that_each_is_started_again_and_that_half_of_it_dies() {
    let output = Command::new(env!("CARGO_BIN_EXE_callsign-sim")).args(["crowd", "--members", "7"]).output();
    let output = output.unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("7 members, virtual time") && text.contains("their names are free"), "{text}");
}
