//! Which registries of a node an endpoint answers for.

use std::collections::BTreeMap;

use super::HttpRefusal;
use crate::Registry;

/// The registries that an [`Admin`](super::Admin) answers for: the first is meant when a request names none.
#[derive(Clone)]
pub struct Registries {
    first: String,
    all: BTreeMap<String, Registry>,
}

impl Registries {
    /// This one only.
    pub fn of(registry: &Registry) -> Self {
        let first = registry.shared.registry.to_string();
        Self { all: BTreeMap::from([(first.clone(), registry.clone())]), first }
    }

    /// Another one of the same node, which it has [joined beside](Registry::join_beside) the first.
    #[must_use]
    pub fn beside(mut self, registry: &Registry) -> Self {
        self.all.insert(registry.shared.registry.to_string(), registry.clone());
        self
    }

    /// The registry of that name, or the first.
    ///
    /// # Errors
    /// `unknown_registry` if it is none of them.
    pub fn get(&self, name: Option<&str>) -> Result<&Registry, HttpRefusal> {
        self.all.get(self.name(name)).ok_or_else(|| {
            HttpRefusal::usage("unknown_registry", format!("this node has not joined {:?}", self.name(name)))
                .with("joined", self.names().collect::<Vec<_>>())
        })
    }

    /// The first.
    pub fn first(&self) -> &Registry {
        &self.all[&self.first] // it is there from the beginning, and nothing is removed
    }

    /// The name that is meant: that of the first, if none is said.
    pub fn name<'a>(&'a self, name: Option<&'a str>) -> &'a str {
        name.unwrap_or(&self.first)
    }

    /// The names of all, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.all.keys().map(String::as_str)
    }

    /// All with their names, sorted by these.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Registry)> {
        self.all.iter().map(|(name, registry)| (name.as_str(), registry))
    }
}

impl From<&Registry> for Registries {
    fn from(registry: &Registry) -> Self {
        Self::of(registry)
    }
}
