//! In place of certificates where TLS is left out.

use std::{convert::Infallible, time::Duration};

use crate::{core::permits::Permits, error::KeysRefused};

/// A node's certificate. There is none in a build without the feature `tls`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    pub(crate) never: Infallible,
}

impl Tls {
    /// The nodes that the certificate is for.
    pub fn names(&self) -> Vec<String> {
        match self.never {}
    }

    /// For how long it will be good.
    pub fn expires_in(&self) -> Option<Duration> {
        match self.never {}
    }

    /// Refuses a certificate that is not for this node.
    ///
    /// # Errors
    /// Never: there is no certificate.
    pub fn check_node(&self, _: &str, _: &str) -> Result<(), KeysRefused> {
        match self.never {}
    }

    /// What a node may do by it.
    pub fn permits(&self, _: &str, _: &str) -> Option<Permits> {
        match self.never {}
    }
}
