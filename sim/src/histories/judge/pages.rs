//! Pages of names: many local reads at once, which say no less than each of them.

use std::collections::BTreeMap;

use super::{
    super::event::{Answer, Ask, At, Event, Page},
    GrantsByName, Verdict, certain,
    claims::Claim,
    granted,
    process::ProcessHistory,
};

/// What a process has given up, by name: when it was told, and the token under which it had the name, or an older one.
type Freed<'a> = BTreeMap<&'a str, Vec<(At, u64)>>;

/// Names that are kept, with since when their processes are at rest.
type KeptNames<'a> = BTreeMap<&'a str, Vec<(At, &'a Claim)>>;

/// A page, who got it, and when.
struct Got<'a> {
    who: String,
    from: At,
    to: At,
    page: &'a Page,
}

impl Got<'_> {
    /// All of these names of which the page says whether they are held.
    fn covered<'m, T>(&'m self, of: &'m BTreeMap<&'m str, T>) -> impl Iterator<Item = (&'m str, &'m T)> {
        let page = self.page;
        let all = of.range::<&str, _>(page.prefix.as_str()..).map(|(name, it)| (*name, it));
        let all = all.take_while(move |(name, _)| name.starts_with(page.prefix.as_str()));
        // Memberships and places have such names in a history only.
        all.filter(move |(name, _)| page.covers(name) && !name.contains('#'))
    }
}

/// P3 and P4: a page has the names that it is to have, in their order, with those that are certainly held, and without those
/// that certainly are not.
pub(super) fn pages(processes: &[ProcessHistory], claims: &[Claim], verdict: &mut Verdict) {
    let kept = kept(processes, claims);
    for process in processes {
        let its = claims.iter().filter(|claim| claim.incarnation == process.incarnation);
        let its: BTreeMap<u64, &Claim> = its.map(|claim| (claim.actor, claim)).collect();
        let (granted, freed) = (granted(process), freed(process, &its));
        let quiet = process.quiet_and_done().map(|(quiet, _)| quiet);
        for event in &process.events {
            let Event::Paged { from, to, page } = event else { continue };
            let who = format!("{} of {} at {from}", process.node, process.incarnation);
            let got = Got { who, from: *from, to: *to, page };
            is_as_asked(&got, verdict);
            has_its_own(&got, &granted, &its, verdict);
            has_none_given_up(&got, &freed, verdict);
            if quiet.is_some_and(|quiet| quiet <= *from) {
                has_all_that_is_kept(&got, &kept, verdict);
            }
        }
    }
}

/// What pages say: when that was asked and answered, under which name, and under which token it is held.
pub(super) fn listed(process: &ProcessHistory) -> impl Iterator<Item = (At, At, &str, u64)> {
    let pages = process.events.iter().filter_map(|event| match event {
        Event::Paged { from, to, page } => Some((*from, *to, page)),
        _ => None,
    });
    pages.flat_map(|(from, to, page)| {
        page.names.iter().map(move |listed| (from, to, listed.name.as_str(), listed.now.token))
    })
}

fn freed<'a>(process: &'a ProcessHistory, claims: &BTreeMap<u64, &Claim>) -> Freed<'a> {
    let mut freed = Freed::new();
    for call in process.calls.iter().filter(|call| call.ask == Ask::Unregister) {
        let (Some((at, Answer::Freed)), Some(claim)) = (&call.answer, claims.get(&call.actor)) else {
            continue;
        };
        let before = claim.grants.iter().filter(|grant| grant.told <= call.at);
        if let Some(token) = before.map(|grant| grant.token).max() {
            freed.entry(&call.name).or_default().push((*at, token));
        }
    }
    freed
}

fn kept<'a>(processes: &[ProcessHistory], claims: &'a [Claim]) -> KeptNames<'a> {
    let rested: BTreeMap<u64, At> = processes
        .iter()
        .filter_map(|process| Some((process.incarnation, process.quiet_and_done()?.0)))
        .collect();
    let mut kept = KeptNames::new();
    for claim in claims {
        if let Some(quiet) = rested.get(&claim.incarnation) {
            kept.entry(claim.name.as_str()).or_default().push((*quiet, claim));
        }
    }
    kept
}

/// Names in their order, each once, behind the page before, and no more than were asked for. A page is full if there are
/// more.
fn is_as_asked(got: &Got<'_>, verdict: &mut Verdict) {
    let Page { prefix, after, limit, names, next } = got.page;
    verdict.count("names on pages, in their order", names.len());
    let is_behind = |name: &str| after.as_deref().is_none_or(|after| name > after);
    let are_meant = names.iter().all(|it| it.name.starts_with(prefix.as_str()) && is_behind(&it.name));
    let are_in_order = names.is_sorted_by(|one, other| one.name < other.name);
    let last = names.last().filter(|_| names.len() == *limit).map(|it| &it.name);
    let ends_well = next.is_none() || next.as_ref() == last;
    if !are_meant || !are_in_order || !ends_well || names.len() > *limit {
        verdict.breach(format!("select: {} got a page that it did not ask for: {:?}", got.who, got.page));
    }
}

/// P4: after one's own register, a page has it.
fn has_its_own(
    got: &Got<'_>,
    granted: &GrantsByName<'_>,
    claims: &BTreeMap<u64, &Claim>,
    verdict: &mut Verdict,
) {
    for (name, grants) in got.covered(granted) {
        let Some(token) = certain(grants, claims, (got.from, got.to)) else { continue };
        verdict.count("own registrations found on a page", 1);
        if got.page.token(name) != Some(token) {
            verdict.breach(format!("P4: {} holds {name} under {token}, and has {:?}", got.who, got.page));
        }
    }
}

/// P4: after one's own unregister, no page has what was given up.
fn has_none_given_up(got: &Got<'_>, freed: &Freed<'_>, verdict: &mut Verdict) {
    for (name, freed) in got.covered(freed) {
        let before = freed.iter().filter(|(at, _)| *at < got.from);
        let Some(last) = before.map(|(_, token)| *token).max() else { continue };
        verdict.count("names given up, and on no page", 1);
        if got.page.token(name).is_some_and(|token| token <= last) {
            verdict
                .breach(format!("P4: {} has given up {name} under {last}, and has {:?}", got.who, got.page));
        }
    }
}

/// P3: at rest a page has what any node keeps.
fn has_all_that_is_kept(got: &Got<'_>, kept: &KeptNames<'_>, verdict: &mut Verdict) {
    for (name, claims) in got.covered(kept) {
        for (_, claim) in claims.iter().filter(|(quiet, _)| *quiet <= got.from) {
            let Some(grant) = claim.grants.last().filter(|grant| !claim.may_be_over_by(grant, got.to)) else {
                continue;
            };
            verdict.count("names kept to the end, and found on a page", 1);
            if got.page.token(name) != Some(grant.token) {
                verdict.breach(format!(
                    "P3: {name} was acknowledged under {}, and {} has {:?}",
                    grant.token, got.who, got.page
                ));
            }
        }
    }
}
