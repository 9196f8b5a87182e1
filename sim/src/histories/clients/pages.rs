//! Walks over the names that a node knows, a page at a time. Names come and go between two pages.

use callsign::{LookupError, Select};
use callsign_store::random::splitmix;
use tokio::time::sleep;

use super::{
    super::event::{Event, Listed, Page},
    CALL_AGAIN, Client, contested,
    moves::moving,
    offers::OFFERED,
    shown, window,
};
use crate::rng::Rng;

/// Decides what is walked over. No other choice depends on it.
const WALKS: u64 = 0x7061_6765;
/// The most names of a page.
const LARGEST: usize = 4;
/// The names of a page in the end.
const LAST: usize = 2;

/// What the next page is to have.
struct Next {
    prefix: String,
    limit: usize,
    after: Option<String>,
}

/// A walk after the other.
pub(super) struct Walk {
    rng: Rng,
    /// Where the present one is.
    next: Option<Next>,
}

impl Client {
    pub(super) fn walk(&self) -> Walk {
        Walk { rng: Rng::new(splitmix(splitmix(self.site.seed) ^ WALKS)), next: None }
    }

    /// Reads the next page. Where there is none, or it is not answered, another walk begins the next time.
    pub(super) fn turn_page(&self, walk: &mut Walk) {
        let next = walk.next.take().unwrap_or_else(|| self.begin(&mut walk.rng));
        walk.next = self.read_page(next).ok().flatten();
    }

    /// Where a walk begins.
    fn begin(&self, rng: &mut Rng) -> Next {
        let (nodes, now) = (&self.site.nodes, window(self.now()));
        let prefix = match rng.below(8) {
            0 => String::new(),
            1 => OFFERED.to_owned(),
            2 => contested(now, ""),
            3 => moving(now, ""),
            4 => nodes[rng.index(nodes.len())].clone(),
            _ => self.site.name.clone(),
        };
        Next { prefix, limit: 1 + rng.index(LARGEST), after: None }
    }

    /// Reads a page, and says where the next one begins, if there are more names.
    fn read_page(&self, asked: Next) -> Result<Option<Next>, LookupError> {
        let Next { prefix, limit, after } = asked;
        let select = Select::prefix(prefix.as_str()).limit(limit);
        let select = after.iter().fold(select, |select, after| select.after(after.as_str()));
        let from = self.now();
        let found = self.site.registry.select(&select)?;
        let to = self.now();
        let listed =
            found.names.iter().map(|(name, entry)| Listed { name: name.to_string(), now: shown(entry) });
        let (names, next) = (listed.collect(), found.next.as_ref().map(ToString::to_string));
        let page = Page { prefix: prefix.clone(), after, limit, names, next: next.clone() };
        self.site.journal.write(&Event::Paged { from, to, page });
        Ok(next.map(|after| Next { prefix, limit, after: Some(after) }))
    }

    /// Reads all pages of what each node keeps, until they are answered.
    pub(super) async fn read_pages(&self) {
        for node in &self.site.nodes {
            let begin = || Next { prefix: node.clone(), limit: LAST, after: None };
            let mut next = Some(begin());
            while let Some(asked) = next.take() {
                next = if let Ok(more) = self.read_page(asked) {
                    more
                } else {
                    sleep(CALL_AGAIN).await;
                    Some(begin())
                };
            }
        }
    }
}
