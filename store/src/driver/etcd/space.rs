//! Where in etcd the store is: all its keys begin with the URL's prefix.

use crate::core::transaction::Key;

/// The keys of one store. With the prefix `p`, the key `k` is `p/k`. Beside them are two rows of the store's own, which no
/// range of keys can meet: `p.layout` and `p.place`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Space {
    prefix: String,
}

impl Space {
    pub(super) fn new(prefix: &str) -> Self {
        Self { prefix: prefix.to_owned() }
    }

    /// Where a key of the store is.
    pub(super) fn key(&self, key: &[u8]) -> Key {
        [self.prefix.as_bytes(), b"/", key].concat()
    }

    /// Which key of the store this is, if it is one.
    pub(super) fn of<'a>(&self, key: &'a [u8]) -> Option<&'a [u8]> {
        key.strip_prefix(self.prefix.as_bytes())?.strip_prefix(b"/")
    }

    /// Layout and identity: see [`layout`](super::layout).
    pub(super) fn layout(&self) -> Key {
        [self.prefix.as_bytes(), b".layout"].concat()
    }

    /// The counter of appends, eight bytes, the most significant first. Nothing ever removes it: so places only grow, also
    /// where all entries are removed.
    pub(super) fn place(&self) -> Key {
        [self.prefix.as_bytes(), b".place"].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_range_of_keys_meets_the_rows_of_the_store_or_the_keys_of_another() {
        let space = Space::new("shop/one");
        assert_eq!(space.key(b"k"), b"shop/one/k");
        assert_eq!(space.of(b"shop/one/k"), Some(b"k".as_slice()));
        assert_eq!((space.of(b"shop/one"), space.of(b"shop/two/k")), (None, None));
        let all = space.key(b"")..space.key(&[0xff; 20]);
        let other = Space::new("shop/on");
        for outside in [space.layout(), space.place(), other.key(b"k"), Space::new("shop/one2").key(b"k")] {
            assert!(!all.contains(&outside), "{outside:?}");
        }
        assert!(all.contains(&space.key(&[0xff])));
    }
}
