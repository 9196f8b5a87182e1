//! Kills the leader, or stops it, and measures until a survivor's next registration is acknowledged.

use anyhow::{Context, Result};

use super::{
    cluster::BenchCluster,
    ms, none_failed,
    orders::{Order, Registered},
};
use crate::{
    measure::now_ns,
    pause::{go_on, pause},
};

/// How often the leader is killed.
const FAILOVERS: u32 = 7;
/// How often it is stopped.
const STOPS: u32 = 10;

/// Each kill is a step of progress, and so is each stop.
pub(super) const STEPS: u64 = FAILOVERS as u64;
pub(super) const STEPS_OF_SILENCE: u64 = STOPS as u64;

/// Milliseconds from SIGKILL, of each of several kills. In between, the killed node is started again, and registers its names again.
pub(super) fn measure(cluster: &mut BenchCluster<'_>, mut count: usize) -> Result<Vec<f64>> {
    let mut runs = Vec::new();
    for run in 0..FAILOVERS {
        if run > 0 {
            cluster.setting.steps.begin_another();
        }
        let leader = cluster.leader()?;
        let mut victim = cluster.nodes.remove(leader);
        let start = now_ns();
        victim.child.crash()?;
        let name = format!("after-kill/{run}-{start}");
        let survivor = cluster.nodes.first_mut().context("nobody survives")?;
        let acknowledged: u64 = survivor.order(Order::RegisterAtLast { name })?;
        runs.push(ms(acknowledged - start));

        let (share, own) = (victim.share.clone(), victim.others);
        count = count + 1 - own - share.as_ref().map_or(0, |share| share.len() as usize);
        cluster.nodes[0].others += 1;
        cluster.await_count(count)?;
        cluster.add(&victim.name, share.clone(), Some(count), false)?;
        cluster.on_all::<()>(|_| Order::Ready)?;
        if let Some(names) = share {
            count += names.len() as usize;
            let in_flight = cluster.setting.in_flight;
            let node = cluster.nodes.last_mut().context("nobody was started")?;
            let again: Registered =
                node.order(Order::Register { names, meta: 0, spared: 0, in_flight, start_ns: 0 })?;
            none_failed(&again.failed)?;
        }
        cluster.await_count(count)?;
    }
    Ok(runs)
}

/// Milliseconds from SIGSTOP of the leader's process, whose sockets stay open, of each of several stops. It goes on before its
/// session could be closed, so that its names are still its own.
pub(super) fn measure_silence(cluster: &mut BenchCluster<'_>) -> Result<Vec<f64>> {
    let (mut runs, store) = (Vec::new(), cluster.setting.store.clone());
    let scratch = format!("{}-scratch", cluster.name);
    for run in 0..STOPS {
        if run > 0 {
            cluster.setting.steps.begin_another();
        }
        let leader = cluster.leader()?;
        let stopped = cluster.nodes.remove(leader);
        let start = pause(&stopped.child, &store, &scratch, now_ns)?;
        let name = format!("after-stop/{run}-{start}");
        let survivor = cluster.nodes.first_mut().context("nobody is left")?;
        let acknowledged: u64 = survivor.order(Order::RegisterAtLast { name })?;
        runs.push(ms(acknowledged - start));
        go_on(&stopped.child)?;
        cluster.nodes.push(stopped);
        cluster.on_all::<()>(|_| Order::Ready)?;
    }
    Ok(runs)
}
