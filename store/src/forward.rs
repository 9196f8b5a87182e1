//! For a store in front of another: what it leaves to the one behind.

/// Within an `impl Store`: the named methods ask the store in that field. The others are written out beside it.
#[doc(hidden)] // for stores within this workspace
#[macro_export]
macro_rules! forward_to_store {
    ($store:ident: $($method:ident)*) => { $($crate::forward_to_store! { @$method $store })* };
    (@read $store:ident) => {
        fn read(
            &self,
            reads: Vec<$crate::Read>,
        ) -> futures::future::BoxFuture<'static, Result<$crate::ReadResult, $crate::StoreError>> {
            self.$store.read(reads)
        }
    };
    (@watch $store:ident) => {
        fn watch(
            &self,
            key: $crate::Key,
            since: $crate::Version,
        ) -> futures::future::BoxFuture<'static, Result<(), $crate::StoreError>> {
            self.$store.watch(key, since)
        }
    };
    // What it is, what it takes, and what it knows of processes.
    (@nature $store:ident) => {
        fn limits(&self) -> $crate::Limits {
            self.$store.limits()
        }

        fn describe(&self) -> String {
            self.$store.describe()
        }

        fn guard_life(
            &self,
            node: &$crate::ids::NodeName,
            incarnation: $crate::ids::Incarnation,
        ) -> Result<Option<Box<dyn $crate::LifeGuard>>, $crate::StoreError> {
            self.$store.guard_life(node, incarnation)
        }

        fn guards_at_once(&self) -> bool {
            self.$store.guards_at_once()
        }

        fn proof_of_death(
            &self,
            node: &$crate::ids::NodeName,
            incarnation: $crate::ids::Incarnation,
        ) -> futures::future::BoxFuture<'static, $crate::Proof> {
            self.$store.proof_of_death(node, incarnation)
        }

        fn broken(&self) -> futures::future::BoxFuture<'static, String> {
            self.$store.broken()
        }
    };
}
