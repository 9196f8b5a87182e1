//! Clusters of processes of this command, which it starts to show or to measure something.

use std::{
    io::{self, BufRead, BufReader},
    process::{Command, Stdio},
    sync::mpsc::{self, Receiver},
};

use anyhow::{Context, Result};

use crate::{child::OwnedChild, measure::now_ns};

/// The name of a cluster of the command's own, so that it does not matter what else the store holds; and its secret.
pub(crate) fn own_cluster(command: &str) -> (String, String) {
    let unique = format!("{}-{}", std::process::id(), now_ns());
    let secret = format!("{command} {unique}: no secret, but links are encrypted as with one");
    (format!("{command}-{unique}"), secret)
}

/// Starts a process of such a cluster. A thread reads its lines, until `read` makes nothing of one or nobody listens.
pub(crate) fn spawn_heard<T: Send + 'static>(
    read: impl Fn(io::Result<String>) -> Option<T> + Send + 'static,
    set_up: impl FnOnce(&mut Command),
) -> Result<(OwnedChild, Receiver<T>)> {
    let mut child = OwnedChild::spawn(|command| {
        set_up(command);
        command.stdout(Stdio::piped());
    })?;
    let stdout = child.child().stdout.take().context("a child has no output")?;
    let (said, says) = mpsc::channel();
    std::thread::spawn(move || {
        let _ = BufReader::new(stdout).lines().map_while(read).try_for_each(|line| said.send(line));
    });
    Ok((child, says))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cluster_is_the_first_of_its_name() {
        let ((name, secret), (other, _)) = (own_cluster("demo"), own_cluster("demo"));
        assert!(name.starts_with("demo-") && name != other, "{name}, {other}");
        assert!(secret.contains(name.trim_start_matches("demo-")), "{secret}");
    }

    #[test]
    fn a_process_is_heard_line_by_line_until_one_cannot_be_read_or_it_ends() {
        let heard = |script: &str| {
            let read = |line: io::Result<String>| line.ok()?.parse::<u32>().ok();
            let (_child, says) = spawn_heard(read, |command| {
                *command = Command::new("sh");
                command.args(["-c", script]);
            })
            .unwrap();
            says.iter().collect::<Vec<_>>()
        };
        assert_eq!(heard("echo 1; echo 2"), [1, 2]);
        // It goes on, but nothing more is heard of it.
        assert_eq!(heard("echo 1; echo x; echo 3; exec sleep 60"), [1]);
        assert!(heard("true").is_empty());
    }
}
