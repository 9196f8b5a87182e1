//! What registrations wait for while something large happens: a node joins, actors end, a node dies.

use std::time::Duration;

use anyhow::{Context, Result};
use serde::Serialize;

use super::{
    super::{
        cluster::{BenchCluster, Setting},
        ms,
        orders::{Names, Order, Probed},
        phases::{each_of_shares, spawn_shares},
    },
    row,
};
use crate::measure::{now_ns, rounded};

/// How long names are registered before something happens, and afterwards.
const AROUND: Duration = Duration::from_millis(200);

/// The figures. A node that neither leads, nor joins, nor dies registers one name after the other meanwhile. A thread of its process wakes
/// every 100 us: how late it was is the machine's own part of a wait.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Disturbed {
    /// From the start of a new node until it holds all names.
    join_ms: f64,
    join_registrations: u32,
    join_longest_wait_ms: f64,
    join_p9999_ms: f64,
    join_longest_gap_ms: f64,
    /// All actors of a worker that does not lead.
    ended_actors: u32,
    /// Their names: half of all.
    ended_names: u32,
    /// From their end until every node knows that their names are free.
    ends_freed_ms: f64,
    /// Names of a node that is killed and does not lead: half of all.
    lost_names: u32,
    /// From the kill until every survivor knows that they are free.
    death_freed_ms: f64,
    death_registrations: u32,
    death_longest_wait_ms: f64,
    death_p9999_ms: f64,
    death_longest_gap_ms: f64,
    /// From the kill of the leader until the last node, which is left alone, is granted a name.
    failover_ms: f64,
}

pub(super) fn measure(setting: &Setting, names: u32, in_flight: u32) -> Result<Disturbed> {
    let mut cluster = BenchCluster::start(setting, 0)?;
    let leader = cluster.leader()?;
    let victim = usize::from(leader == 0);
    let caller = cluster.bystander(&[leader, victim])?;
    let (half, mut count) = (names / 2, names as usize);
    let share = |prefix: &str, count| Some(Names { prefix: format!("{prefix}/actor-"), from: 0, to: count });
    let nodes = cluster.nodes.len();
    let register = |names, start_ns| Order::RegisterEach { names, in_flight, start_ns };
    let mut shares = vec![None; nodes];
    shares[victim] = share("ending", half);
    shares[leader] = share("staying", names - half);
    cluster.share_out(shares);
    spawn_shares(&mut cluster)?;
    setting.begin(&format!("{names} names, half of them on the leader"));
    each_of_shares(&mut cluster, count, register)?;

    setting.begin(&format!("a new node that joins {count} names, and registrations meanwhile"));
    cluster.nodes[caller].order::<()>(Order::Probe { prefix: "at-join/".into() })?;
    std::thread::sleep(AROUND);
    let join_ns = cluster.add("joiner", None, Some(count), false)?;
    let at_join = probed(&mut cluster, caller, &mut count)?;
    // It is not needed any more, and leaves no names.
    cluster.nodes.pop();
    cluster.await_count(count)?;

    let ended_actors = half.min(setting.actors);
    setting.begin(&format!("{ended_actors} actors with {half} names that end"));
    let begin: u64 = cluster.nodes[victim].order(Order::EndActors)?;
    count -= half as usize;
    let ends_ns = cluster.await_count(count)?.saturating_sub(begin);

    let mut shares = vec![None; nodes];
    shares[victim] = share("lost", half);
    cluster.share_out(shares);
    spawn_shares(&mut cluster)?;
    count += half as usize;
    each_of_shares(&mut cluster, count, register)?;
    setting.begin(&format!("a node with {half} names that dies, and registrations meanwhile"));
    cluster.nodes[caller].order::<()>(Order::Probe { prefix: "at-death/".into() })?;
    std::thread::sleep(AROUND);
    let killed_ns = now_ns();
    cluster.nodes.remove(victim).child.crash()?;
    let caller = caller - usize::from(victim < caller);
    count -= half as usize;
    // Other names come meanwhile, so their number says nothing. All that a node held are free at once.
    let free: Vec<u64> = cluster.on_all(|_| Order::AwaitFree { name: "lost/actor-0".into() })?;
    let freed = free.into_iter().fold(killed_ns, u64::max);
    let at_death = probed(&mut cluster, caller, &mut count)?;
    cluster.await_count(count)?;

    setting.begin(&format!("the leader of {count} names, which dies"));
    let leader = cluster.leader()?;
    let leader_killed_ns = now_ns();
    cluster.nodes.remove(leader).child.crash()?;
    let survivor = cluster.nodes.first_mut().context("nobody survives")?;
    let acknowledged: u64 = survivor.order(Order::RegisterAtLast { name: "after-the-leader".into() })?;
    let wait_ms = |us: f64| rounded(us / 1e3);
    Ok(Disturbed {
        join_ms: ms(join_ns),
        join_registrations: at_join.registrations,
        join_longest_wait_ms: wait_ms(at_join.longest_wait_us),
        join_p9999_ms: wait_ms(at_join.wait_p9999_us),
        join_longest_gap_ms: wait_ms(at_join.longest_gap_us),
        ended_actors,
        ended_names: half,
        ends_freed_ms: ms(ends_ns),
        lost_names: half,
        death_freed_ms: ms(freed - killed_ns),
        death_registrations: at_death.registrations,
        death_longest_wait_ms: wait_ms(at_death.longest_wait_us),
        death_p9999_ms: wait_ms(at_death.wait_p9999_us),
        death_longest_gap_ms: wait_ms(at_death.longest_gap_us),
        failover_ms: ms(acknowledged - leader_killed_ns),
    })
}

/// What the caller saw until a while later. `count` grows by what it registered.
fn probed(cluster: &mut BenchCluster<'_>, caller: usize, count: &mut usize) -> Result<Probed> {
    std::thread::sleep(AROUND);
    let probed: Probed = cluster.nodes[caller].order(Order::Probed)?;
    *count += probed.registrations as usize;
    Ok(probed)
}

/// The figures in rows, for people.
pub(super) fn rows(figures: &Disturbed) -> Vec<Vec<String>> {
    let ms = |ms: f64| format!("{ms} ms");
    let beside = |registrations: u32, p9999: f64, gap: f64| {
        format!("of {registrations}; p99.99 {p9999} ms; a thread that sleeps was late by {gap} ms at most")
    };
    let Disturbed { ended_actors, ended_names, lost_names, .. } = figures;
    vec![
        row("a new node holds all names", ms(figures.join_ms), "from its start"),
        row(
            "  the longest registration of another node",
            ms(figures.join_longest_wait_ms),
            beside(figures.join_registrations, figures.join_p9999_ms, figures.join_longest_gap_ms),
        ),
        row(
            format!("{ended_actors} actors of a node with {ended_names} names end"),
            ms(figures.ends_freed_ms),
            "every node knows that the names are free",
        ),
        row(
            format!("a node with {lost_names} names is killed"),
            ms(figures.death_freed_ms),
            "the same, on every survivor",
        ),
        row(
            "  the longest registration of another node",
            ms(figures.death_longest_wait_ms),
            beside(figures.death_registrations, figures.death_p9999_ms, figures.death_longest_gap_ms),
        ),
        row("the leader is killed", ms(figures.failover_ms), "until the last node is granted a name"),
    ]
}
