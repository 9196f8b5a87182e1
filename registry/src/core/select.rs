//! Which names somebody wants to see: a filter over rows.

use callsign_transport::Kind;
use serde::{Deserialize, Serialize};

use crate::core::{
    entry::Entry,
    meta::{Meta, MetaError},
    name::{Name, RESERVED},
    table::Row,
};

/// Which names [`Registry::select`](crate::Registry::select) gives: those that meet all that is asked for, in the order of their bytes.
///
/// ```
/// # fn page() -> Result<callsign::Select, callsign::MetaError> {
/// use callsign::Select;
/// Ok(Select::prefix("shop/").node("berlin").meta_eq("zone", "eu")?.limit(100))
/// # }
/// # page().unwrap();
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[must_use]
pub struct Select {
    prefix: String,
    only: Option<Name>,
    node: Option<String>,
    kind: Option<Kind>,
    /// Fields of the metadata, and what each is equal to, as MessagePack.
    fields: Vec<(String, Meta)>,
    after: Option<Name>,
    limit: Option<usize>,
}

impl Select {
    /// All names.
    pub fn all() -> Self {
        Self::default()
    }

    /// Names that begin so.
    pub fn prefix(prefix: impl Into<String>) -> Self {
        Self { prefix: prefix.into(), ..Self::default() }
    }

    /// Only those whose actors run on this node.
    pub fn node(mut self, node: impl Into<String>) -> Self {
        self.node = Some(node.into());
        self
    }

    /// Only those whose actors take these messages.
    pub fn kind(mut self, kind: Kind) -> Self {
        self.kind = Some(kind);
        self
    }

    /// Only those whose metadata is a map with this field, and with this value in it. May be called for several fields.
    ///
    /// # Errors
    /// If the value cannot be metadata.
    pub fn meta_eq<T: Serialize + ?Sized>(
        mut self,
        field: impl Into<String>,
        value: &T,
    ) -> Result<Self, MetaError> {
        self.fields.push((field.into(), Meta::new(value)?));
        Ok(self)
    }

    /// Only those behind this name: the last one of the page before.
    pub fn after(mut self, name: impl Into<Name>) -> Self {
        self.after = Some(name.into());
        self
    }

    /// So many at the most. Without it, all of them.
    pub fn limit(mut self, names: usize) -> Self {
        self.limit = Some(names);
        self
    }

    /// How many at the most.
    pub(crate) fn most(&self) -> usize {
        self.limit.unwrap_or(usize::MAX)
    }

    /// The first name that may be looked for, in the order of their bytes; and whether it is itself.
    pub(crate) fn begins(&self) -> (&str, bool) {
        match self.after.as_deref() {
            Some(after) if after >= self.prefix.as_str() => (after, false),
            _ => (&self.prefix, true),
        }
    }

    /// Whether no name from this one on is looked for, in the order of their bytes.
    pub(crate) fn is_over_at(&self, name: &str) -> bool {
        name > self.prefix.as_str() && !name.starts_with(&self.prefix)
    }

    /// Whether a name is looked for, whoever holds it.
    pub(crate) fn has_name(&self, name: &str) -> bool {
        name.starts_with(&self.prefix)
            && !name.starts_with(RESERVED)
            && self.only.as_deref().is_none_or(|only| name == only)
            && self.after.as_deref().is_none_or(|after| name > after)
    }

    /// Whether a row is, whatever its name.
    pub(crate) fn has_row(&self, row: &Row) -> bool {
        self.has_holder(row.session.node.as_str(), row.kind, row.meta())
    }

    /// The same, of an entry.
    pub(crate) fn has_entry(&self, entry: &Entry) -> bool {
        self.has_holder(entry.node.as_str(), entry.kind, entry.raw_meta())
    }

    fn has_holder(&self, node: &str, kind: Kind, meta: Option<&Meta>) -> bool {
        self.node.as_ref().is_none_or(|wanted| wanted == node)
            && self.kind.is_none_or(|wanted| wanted == kind)
            && self.fields.iter().all(|(field, value)| {
                meta.and_then(|meta| meta.field(field)).is_some_and(|found| found == value.as_bytes())
            })
    }

    /// Whether it is for pages: it begins behind a name, or ends after some.
    pub(crate) fn is_paged(&self) -> bool {
        self.after.is_some() || self.limit.is_some()
    }

    /// Only this name.
    pub(crate) fn one(name: impl Into<Name>) -> Self {
        Self { only: Some(name.into()), ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, sync::Arc};

    use callsign_store::ids::{Incarnation, NodeName, Position, SessionId, SessionNumber};

    use super::*;
    use crate::core::table::{More, RequestNumber, Slot};

    fn row(node: &str, kind: &str, meta: Option<Meta>) -> Row {
        let session = SessionId {
            node: NodeName::new(node).unwrap(),
            incarnation: Incarnation(1),
            number: SessionNumber(1),
        };
        let (position, revision) = (Position(5), Position(6));
        let more = More::of(position, revision, meta);
        let (request, slot) = (RequestNumber(1), Slot::default());
        Row { position, session: Arc::new(session), request, actor: 1, kind: Kind::of(kind), more, slot }
    }

    #[test]
    fn a_row_has_to_meet_all_that_is_asked_for() {
        let meta = |zone: &str| Meta::new(&BTreeMap::from([("rack", "7"), ("zone", zone)])).unwrap();
        let of = |node, kind, zone| row(node, kind, Some(meta(zone)));
        let select = Select::all().node("a").kind(Kind::of("x")).meta_eq("zone", "eu").unwrap();
        assert!(select.has_row(&of("a", "x", "eu")));
        for other in [of("b", "x", "eu"), of("a", "y", "eu"), of("a", "x", "us"), row("a", "x", None)] {
            assert!(!select.has_row(&other), "{other:?}");
        }
        let both = select.clone().meta_eq("rack", "8").unwrap();
        assert!(!both.has_row(&of("a", "x", "eu")));
        assert!(!Select::all().meta_eq("row", "7").unwrap().has_row(&of("a", "x", "eu")));
        // What is no map has no fields.
        let number = row("a", "x", Some(Meta::new(&7).unwrap()));
        assert!(!select.has_row(&number) && Select::all().has_row(&number));
    }

    #[test]
    fn names_are_those_behind_the_last_page_with_the_prefix() {
        let select = Select::prefix("shop/");
        assert!(select.has_name("shop/a") && select.has_name("shop/"));
        assert!(!select.has_name("shop") && !select.has_name("ship/a"));
        let next = select.clone().after("shop/b");
        assert!(!next.has_name("shop/b") && next.has_name("shop/ba") && !next.has_name("shopping"));
        assert!(select.after("aaa").has_name("shop/a"));
    }

    #[test]
    fn names_in_their_order_are_looked_at_from_the_first_to_the_last_that_may_be_meant() {
        let select = Select::prefix("shop/");
        assert_eq!(select.begins(), ("shop/", true));
        assert_eq!(select.clone().after("aaa").begins(), ("shop/", true));
        assert_eq!(select.clone().after("shop/").begins(), ("shop/", false));
        assert_eq!(select.clone().after("shop/b").begins(), ("shop/b", false));
        for (name, is_over) in [("aaa", false), ("shop", false), ("shop/", false), ("shop/z", false)] {
            assert_eq!(select.is_over_at(name), is_over, "{name}");
        }
        assert!(select.is_over_at("shop0") && select.is_over_at("t"));
        let pages = [Select::all(), Select::all().after("x"), Select::all().limit(3)];
        assert_eq!(pages.each_ref().map(Select::is_paged), [false, true, true]);
        assert_eq!(pages.each_ref().map(Select::most), [usize::MAX, usize::MAX, 3]);
        let one = Select::one("x");
        assert!(one.has_name("x") && !one.has_name("y") && !one.has_name("xx"));
    }
}
