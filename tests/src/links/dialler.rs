//! Which process has the other end of a connection on this machine.

use std::{
    fs,
    net::{IpAddr, SocketAddr},
};

/// The socket whose own address and peer's address these are.
pub(super) fn inode_of(own: SocketAddr, peer: SocketAddr) -> Option<u64> {
    let (own, peer) = (as_listed(own)?, as_listed(peer)?);
    let table = fs::read_to_string("/proc/net/tcp").ok()?;
    // NUMBER: OWN PEER STATE QUEUES TIMER RETRIES UID TIMEOUT INODE ...
    let row = table.lines().map(|line| line.split_ascii_whitespace().collect::<Vec<_>>());
    let found = row.into_iter().find(|row| row.len() > 9 && row[1] == own && row[2] == peer);
    found.and_then(|row| row[9].parse().ok()).filter(|inode| *inode != 0)
}

/// As the kernel writes an IPv4 address: in the order of bytes that the machine has.
fn as_listed(address: SocketAddr) -> Option<String> {
    let IpAddr::V4(ip) = address.ip() else { return None };
    Some(format!("{:08X}:{:04X}", u32::from_ne_bytes(ip.octets()), address.port()))
}

/// Whether a process has a socket open.
pub(super) fn has(pid: u32, inode: u64) -> bool {
    let wanted = format!("socket:[{inode}]");
    let files = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    files.filter_map(|file| fs::read_link(file.path()).ok()).any(|link| link.as_os_str() == wanted.as_str())
}
