//! Parts of a state that many states share: copied when one of them changes it, hashed once.

use std::{
    fmt,
    hash::{BuildHasher, Hash, Hasher},
    ops::Deref,
    sync::{Arc, OnceLock},
};

/// A value that is cheap to clone, and whose hash is kept.
///
/// The kept hash is foldhash with a fixed seed: whoever compares states by it takes the risk of a collision, which for a few
/// million states is about one in a million.
pub struct Shared<T>(Arc<Kept<T>>);

struct Kept<T> {
    value: T,
    digest: OnceLock<u64>,
}

impl<T: Clone> Clone for Kept<T> {
    fn clone(&self) -> Self {
        // Only ever cloned to be changed.
        Self { value: self.value.clone(), digest: OnceLock::new() }
    }
}

impl<T> Shared<T> {
    /// Takes a value in.
    pub fn new(value: T) -> Self {
        Self(Arc::new(Kept { value, digest: OnceLock::new() }))
    }
}

impl<T: Clone> Shared<T> {
    /// To change it; others that share it keep what they have.
    pub fn edit(&mut self) -> &mut T {
        let kept = Arc::make_mut(&mut self.0);
        kept.digest.take();
        &mut kept.value
    }
}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0.value
    }
}

impl<T: PartialEq> PartialEq for Shared<T> {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0.value == other.0.value
    }
}

impl<T: Eq> Eq for Shared<T> {}

impl<T: Hash> Hash for Shared<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let digest = || foldhash::quality::FixedState::default().hash_one(&self.0.value);
        state.write_u64(*self.0.digest.get_or_init(digest));
    }
}

impl<T: fmt::Debug> fmt::Debug for Shared<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.value.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_seen_by_its_owner_only_and_changes_the_hash() {
        let hash = |shared: &Shared<u8>| foldhash::quality::FixedState::default().hash_one(shared);
        let mut one = Shared::new(1_u8);
        let (two, before) = (one.clone(), hash(&one));
        *one.edit() = 2;
        assert_eq!((*one, *two), (2, 1));
        assert_ne!(hash(&one), before);
        assert_eq!(hash(&two), before);
        *one.edit() = 1;
        assert_eq!(hash(&one), before);
    }
}
