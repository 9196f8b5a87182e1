//! Pages of names, as a node's own replica says them.

use serde::{Deserialize, Serialize};

use super::Shown;

/// A name of a page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listed {
    /// The name.
    pub name: String,
    /// How it is held.
    pub now: Shown,
}

/// What was asked for, and what came.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Page {
    /// How the names were to begin.
    pub prefix: String,
    /// Behind which name they were to be.
    pub after: Option<String>,
    /// How many were to come at the most.
    pub limit: usize,
    /// Those that came.
    pub names: Vec<Listed>,
    /// Behind which name the next page begins, if there are more.
    pub next: Option<String>,
}

impl Page {
    /// Whether a name has to be here if it is held.
    pub fn covers(&self, name: &str) -> bool {
        name.starts_with(&self.prefix)
            && self.after.as_deref().is_none_or(|after| name > after)
            && self.next.as_deref().is_none_or(|next| name <= next)
    }

    /// Under which token a name is held here.
    pub fn token(&self, name: &str) -> Option<u64> {
        self.names.iter().find(|listed| listed.name == name).map(|listed| listed.now.token)
    }
}
