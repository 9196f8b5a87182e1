//! What nodes know each other by: secrets that a cluster shares, certificates that name a node, or both.

use crate::{
    core::{agreed::Security, permits::Permits},
    driver::{secret::Secret, tls::Tls},
};

/// What a node shows to others, and asks of them. Nothing of it is ever negotiated: a node asks for what it has, whatever
/// the other side says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Keys {
    /// The cluster's secrets, at most [`MAX_SECRETS`](crate::MAX_SECRETS). The first is shown to others, each is accepted from them. None: no
    /// secret is asked for.
    pub secrets: Vec<Secret>,
    /// This node's certificate, and the authorities whose certificates it believes. `None`: no certificate is asked for.
    pub tls: Option<Tls>,
}

impl Keys {
    /// What a peer has to have.
    pub fn security(&self) -> Security {
        match (self.secrets.is_empty(), self.tls.is_some()) {
            (true, false) => Security::Plain,
            (false, false) => Security::Secured,
            (true, true) => Security::Certified,
            (false, true) => Security::Both,
        }
    }

    /// What a node may do by these: by its certificate, or everything without one.
    pub fn permits(&self, cluster: &str, node: &str) -> Permits {
        self.tls.as_ref().and_then(|tls| tls.permits(cluster, node)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_does_not_show_itself() {
        let keys = Keys { secrets: vec![Secret::new([7; 32]).unwrap()], tls: None };
        assert_eq!(format!("{keys:?}"), "Keys { secrets: [Secret(..)], tls: None }");
    }
}
