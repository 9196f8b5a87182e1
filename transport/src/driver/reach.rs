//! The links that are up, by the incarnations they lead to: for readers that wait for nobody.

use std::sync::Arc;

use arc_swap::ArcSwap;

use crate::{core::peer::LinkId, driver::handle::LinkHandle};

/// A copy of what the table of links knows. It is made anew for each change, which is rare; readers share no lock.
#[derive(Default)]
pub(crate) struct Reach(ArcSwap<Vec<(u64, Arc<LinkHandle>)>>);

impl Reach {
    /// A link is up. Called by one at a time, as [`down`](Self::down) is.
    pub(crate) fn up(&self, handle: Arc<LinkHandle>) {
        let mut links = Vec::clone(&self.0.load());
        let incarnation = handle.peer.incarnation;
        let at = links.partition_point(|(other, _)| *other < incarnation);
        links.insert(at, (incarnation, handle));
        self.0.store(Arc::new(links));
    }

    /// It is down.
    pub(crate) fn down(&self, link: LinkId) {
        let mut links = Vec::clone(&self.0.load());
        links.retain(|(_, handle)| handle.id != link);
        self.0.store(Arc::new(links));
    }

    /// Looks at the link to an incarnation of a node, if it is up. Cost: the logarithm of the number of links.
    pub(crate) fn with<R>(
        &self,
        node: &str,
        incarnation: u64,
        look: impl FnOnce(&LinkHandle) -> R,
    ) -> Option<R> {
        let links = self.0.load();
        let from = links.partition_point(|(other, _)| *other < incarnation);
        // Incarnations of two nodes may have the same number.
        let mut candidates = links[from..].iter().take_while(|(other, _)| *other == incarnation);
        candidates.find(|(_, handle)| *handle.peer.node == *node).map(|(_, handle)| look(handle))
    }
    /// How many links are up.
    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        self.0.load().len()
    }
}
