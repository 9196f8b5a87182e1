//! For tests: a part of a node panics when it runs next.

use std::{
    collections::BTreeSet,
    pin::{Pin, pin},
    task::{Context, Poll},
};

use super::Supervisor;

use crate::driver::lock::lock;

impl Supervisor {
    /// Has the part of this name panic when it runs next.
    #[doc(hidden)]
    pub fn sabotage(&self, part: &str) {
        *self.sabotaged() = Some(part.to_owned());
    }

    /// The part that was to panic and has not run since.
    #[doc(hidden)]
    pub fn is_sabotaged(&self) -> bool {
        self.sabotaged().is_some()
    }

    /// All parts that have run so far.
    #[doc(hidden)]
    #[must_use]
    pub fn parts(&self) -> BTreeSet<String> {
        lock(&self.shared.parts).clone()
    }

    /// How many hooks wait for a failure.
    #[doc(hidden)]
    #[must_use]
    pub fn hooks_kept(&self) -> usize {
        self.hooks().all().len()
    }

    /// Panics if that part is to.
    pub(super) fn strike(&self, part: &str) {
        let mut parts = lock(&self.shared.parts);
        if !parts.contains(part) {
            parts.insert(part.to_owned());
        }
        drop(parts);
        let is_due = self.sabotaged().take_if(|sabotaged| sabotaged == part).is_some();
        assert!(!is_due, "sabotage");
    }

    /// The same work, which panics at its next step if that part is to.
    pub(super) fn sabotages<T>(
        &self,
        part: &'static str,
        work: impl Future<Output = T>,
    ) -> impl Future<Output = T> {
        let me = self.clone();
        async move {
            let mut work = pin!(work);
            std::future::poll_fn(move |context: &mut Context<'_>| -> Poll<T> {
                me.strike(part);
                Pin::as_mut(&mut work).poll(context)
            })
            .await
        }
    }

    fn sabotaged(&self) -> std::sync::MutexGuard<'_, Option<String>> {
        lock(&self.shared.sabotaged)
    }
}
