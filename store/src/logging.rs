//! How the crates of Callsign log: nothing that listens can end a node.

/// Says an event of `tracing`, with its level first: `logged!(warn, %peer, "no link")`. It is said in the module that calls it. A panic of
/// whoever listens costs this event only.
#[doc(hidden)] // for crates within this workspace
#[macro_export]
macro_rules! logged {
    ($level:ident, $($event:tt)+) => {
        $crate::supervision::contained(|| tracing::$level!($($event)+))
    };
}
