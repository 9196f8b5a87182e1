//! The rows of requirements that a lease on any store has to meet, each on every store.

pub(in crate::election) mod beds;

/// Makes tests of the same functions on every store.
macro_rules! on_every_store {
    ($tests:ident) => {
        mod memory {
            use super::$tests;
            $tests!({ $crate::election::lease::tests::beds::Stores::memory() });
        }
        mod sqlite {
            use super::$tests;
            $tests!({ $crate::election::lease::tests::beds::Stores::sqlite() });
        }
        #[cfg(feature = "postgres")]
        mod postgres {
            use super::$tests;
            $tests!({ $crate::election::lease::tests::beds::Stores::postgres() });
        }
        #[cfg(feature = "any-fdb")]
        mod foundationdb {
            use super::$tests;
            $tests!({ $crate::election::lease::tests::beds::Stores::foundationdb() });
        }
    };
}

mod conformance {
    use crate::election_rows;
    on_every_store!(election_rows);
}
