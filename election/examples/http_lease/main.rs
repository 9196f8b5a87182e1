//! A lease over HTTP, with its server: how to write an oracle for an authority of one's own.
//!
//! Two members of one election. The first leads, and is stopped; the second follows it. The server's grants only advise:
//! `Fenced` adds what a sink can check, and a write that the first one began is refused after the second one came.
//!
//!     cargo run -p callsign-election --example http_lease
//!
//! One seat, in memory, without encryption: an example, not a service.
#![allow(clippy::disallowed_methods, missing_docs)] // an example drives; its parts are in its own files

mod oracle;
mod server;
#[cfg(test)]
mod tests;

use std::time::Duration;

use callsign_election::{
    Abort, Campaign, CampaignSettings, CampaignStarted, Fence, Grant, Lost, Role, Timing,
    campaign::Transition,
    fenced::Fenced,
    sink::{ByEpoch, FencedCell},
};
use callsign_store::{
    SharedStore,
    ids::{ClusterName, ElectionName, MemberId, Nonce},
};

use crate::oracle::HttpLease;

const LEASE: Duration = Duration::from_secs(2);

type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Says what it would do.
struct Worker(&'static str);

impl Role<Fence> for Worker {
    async fn activate(&mut self, grant: &Grant<Fence>) -> Result<(), Abort> {
        println!("{} starts to work in epoch {}", self.0, grant.fence.epoch);
        Ok(())
    }

    async fn deactivate(&mut self, why: Lost, _: Duration) {
        println!("{} stops: {why:?}", self.0);
    }
}

async fn take_part(
    name: &'static str,
    url: &str,
    store: &SharedStore,
) -> Outcome<Campaign<Fenced<HttpLease>>> {
    let oracle =
        Fenced::new(HttpLease::new(url.to_owned(), LEASE), store.clone(), &ClusterName::new("example")?);
    let settings = CampaignSettings::new(ElectionName::new("reports")?, MemberId::new(name)?);
    let settings = settings.with_timing(Timing::for_lease(LEASE));
    match Campaign::start(oracle, Worker(name), settings).await? {
        CampaignStarted::Running(campaign) => Ok(campaign),
        CampaignStarted::Ignored => Err("the oracle declined".into()),
    }
}

/// Waits until it leads.
async fn leads(campaign: &Campaign<Fenced<HttpLease>>) -> Outcome<Fence> {
    let mut transitions = campaign.subscribe();
    loop {
        if let Transition::Leading(grant) = transitions.next().await? {
            return Ok(grant.fence);
        }
    }
}

#[tokio::main]
async fn main() -> Outcome<()> {
    let url = format!("http://{}", server::serve().await?.address);
    println!("the server listens at {url}");
    let store = callsign_store::open("memory:")?;
    let report = FencedCell::<ByEpoch>::new(store.clone(), b"report".to_vec());

    let first = take_part("first", &url, &store).await?;
    let of_first = tokio::time::timeout(Duration::from_secs(30), leads(&first)).await??;
    report.write(of_first.into(), "by the first", Nonce(1)).await?;
    let second = take_part("second", &url, &store).await?;
    first.stop().await?;
    let of_second = tokio::time::timeout(Duration::from_secs(30), leads(&second)).await??;
    report.write(of_second.into(), "by the second", Nonce(2)).await?;

    let late = report.write(of_first.into(), "by the first, late", Nonce(3)).await;
    println!("what the first writes now: {}", late.err().ok_or("it was taken")?);
    second.stop().await?;
    Ok(())
}
