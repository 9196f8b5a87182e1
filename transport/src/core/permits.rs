//! What a node may do by its certificate: which names it may hold, and whether it may lead.
//!
//! ```text
//!   callsign://CLUSTER/NODE                                    all names, and it may lead
//!   callsign://CLUSTER/NODE?names=shop/&names=jobs/&lead=no    names that begin with `shop/` or `jobs/`, and it never leads
//! ```
//!
//! What is not understood is an error, and never passed over: it may be a restriction that a later version knows.

use std::{fmt, sync::Arc};

use percent_encoding::percent_decode_str;
use serde::{Deserialize, Serialize};

/// More prefixes than these are refused: they are told to whoever asks for another name.
const MOST_PREFIXES: usize = 64;

/// A longer prefix is one of no name.
const MOST_BYTES: usize = 512;

/// So many characters of what is wrong are shown.
const SHOWN: usize = 64;

/// What a node may do, by the certificate that it shows. Without certificates, everything.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Permits {
    names: Option<Arc<[String]>>,
    lead: bool,
}

impl Default for Permits {
    fn default() -> Self {
        Self { names: None, lead: true }
    }
}

impl Permits {
    /// Reads what stands behind the `?` of the name in a certificate.
    ///
    /// # Errors
    /// If any part of it is not understood.
    pub fn read(query: &str) -> Result<Self, BadPermits> {
        let (mut names, mut lead) = (Vec::new(), None);
        for part in query.split('&') {
            let unknown = || BadPermits::Unknown { part: shown(part) };
            match part.split_once('=').ok_or_else(unknown)? {
                ("names", prefix) => names.push(decoded(part, prefix)?),
                ("lead", "yes" | "no") if lead.is_some() => return Err(BadPermits::SaidTwice),
                ("lead", said @ ("yes" | "no")) => lead = Some(said == "yes"),
                _ => return Err(unknown()),
            }
        }
        if names.len() > MOST_PREFIXES {
            return Err(BadPermits::TooMany { count: names.len() });
        }
        names.sort_unstable();
        names.dedup();
        let names = if names.is_empty() { None } else { Some(names.into()) };
        Ok(Self { names, lead: lead.unwrap_or(true) })
    }

    /// Whether it may hold a name.
    pub fn allows(&self, name: &str) -> bool {
        self.names.as_ref().is_none_or(|prefixes| prefixes.iter().any(|prefix| name.starts_with(&**prefix)))
    }

    /// How the names begin that it may hold. `None`: it may hold all.
    pub fn names(&self) -> Option<&Arc<[String]>> {
        self.names.as_ref()
    }

    /// Whether it may lead.
    pub fn may_lead(&self) -> bool {
        self.lead
    }
}

impl fmt::Display for Permits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.names {
            None => f.write_str("it may hold all names")?,
            Some(prefixes) => {
                let prefixes: Vec<_> = prefixes.iter().map(|prefix| format!("{prefix:?}")).collect();
                write!(f, "it may hold names that begin with {}", prefixes.join(" or "))?;
            }
        }
        f.write_str(if self.lead { ", and may lead" } else { ", and never leads" })
    }
}

/// Why it cannot be said what a node may do by a certificate.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, thiserror::Error)]
#[non_exhaustive]
pub enum BadPermits {
    /// A part is none that this version knows.
    #[error("{part:?} is none of `names=PREFIX`, `lead=yes` and `lead=no`")]
    Unknown {
        /// The part.
        part: String,
    },
    /// A prefix is empty. A node that may hold all names has no `names`.
    #[error("{part:?} has no prefix")]
    NoPrefix {
        /// The part.
        part: String,
    },
    /// A prefix is not percent-encoded UTF-8.
    #[error("{part:?} is not percent-encoded UTF-8")]
    Encoding {
        /// The part.
        part: String,
    },
    /// A prefix is longer than any name.
    #[error("a prefix of {length} bytes is longer than any name")]
    TooLong {
        /// Its length in bytes.
        length: usize,
    },
    /// There are too many prefixes.
    #[error("{count} prefixes are too many, {MOST_PREFIXES} is the most")]
    TooMany {
        /// How many.
        count: usize,
    },
    /// It says `lead` twice, or says two things of one node.
    #[error("it says two things of one node")]
    SaidTwice,
}

fn shown(text: &str) -> String {
    text.chars().take(SHOWN).collect()
}

fn decoded(part: &str, prefix: &str) -> Result<String, BadPermits> {
    let part = || shown(part);
    // What is no code is left as it is by the decoder, and would then be part of the prefix; so would a fragment.
    let is_code = |code: &[u8]| code.len() >= 2 && code[..2].iter().all(u8::is_ascii_hexdigit);
    let is_encoded = prefix.split('%').skip(1).all(|rest| is_code(rest.as_bytes())) && !prefix.contains('#');
    let text = percent_decode_str(prefix).decode_utf8().ok().filter(|_| is_encoded);
    match text.ok_or_else(|| BadPermits::Encoding { part: part() })? {
        text if text.is_empty() => Err(BadPermits::NoPrefix { part: part() }),
        text if text.len() > MOST_BYTES => Err(BadPermits::TooLong { length: text.len() }),
        text => Ok(text.into_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_says_how_names_begin_and_whether_its_node_leads() {
        let read = |query| Permits::read(query).unwrap();
        let prefixes = |permits: &Permits| permits.names().map(|names| names.to_vec());
        let both = read("names=shop/&names=jobs/&lead=no");
        assert_eq!(prefixes(&both), Some(vec!["jobs/".to_owned(), "shop/".to_owned()]));
        assert!(!both.may_lead());
        let said = "it may hold names that begin with \"jobs/\" or \"shop/\", and never leads";
        assert_eq!(both.to_string(), said);
        for (name, allowed) in
            [("shop/x", true), ("shop/", true), ("shop", false), ("Shop/x", false), ("x", false)]
        {
            assert_eq!(both.allows(name), allowed, "{name}");
        }
        assert_eq!(prefixes(&read("names=a+b%20c%26%c3%bc")), Some(vec!["a+b c&ü".to_owned()]));
        assert_eq!(read("names=x&names=x&lead=yes"), read("names=x"));
        assert_eq!(read("lead=yes"), Permits::default());
        assert!(Permits::default().allows("anything") && Permits::default().may_lead());
    }

    #[test]
    fn what_is_not_understood_is_an_error() {
        let error = |query: &str| Permits::read(query).unwrap_err();
        for part in ["", "names", "lead=maybe", "lead=", "leads=no", "Names=x", "groups=x", "lead=no;names=x"]
        {
            assert_eq!(error(part), BadPermits::Unknown { part: part.into() });
            assert_eq!(error(&format!("names=x&{part}")), BadPermits::Unknown { part: part.into() });
        }
        for part in ["names=%", "names=%4", "names=%zz", "names=a%ff", "names=a#b", "names=x%C3"] {
            assert_eq!(error(part), BadPermits::Encoding { part: part.into() });
        }
        assert_eq!(error("names="), BadPermits::NoPrefix { part: "names=".into() });
        assert_eq!(error("lead=no&lead=yes"), BadPermits::SaidTwice);
        assert_eq!(error(&format!("names={}", "x".repeat(513))), BadPermits::TooLong { length: 513 });
        assert!(Permits::read(&format!("names={}", "x".repeat(512))).is_ok());
        assert_eq!(error("names=%41%zz"), BadPermits::Encoding { part: "names=%41%zz".into() });
        let many: Vec<_> = (0..65).map(|n| format!("names={n}")).collect();
        assert_eq!(Permits::read(&many[1..].join("&")).unwrap().names().unwrap().len(), 64);
        assert_eq!(error(&many.join("&")), BadPermits::TooMany { count: 65 });
    }

    #[test]
    fn both_digits_of_a_code_are_hexadecimal() {
        for part in ["names=%4z", "names=%z4", "names=%41%4g"] {
            assert_eq!(Permits::read(part), Err(BadPermits::Encoding { part: part.into() }));
        }
    }
}
