//! What is set of a registry's elections, for all its members alike.
//!
//! It is changed by an entry of the membership queue, `Configure`, and read beside the term. What is not set, each elector
//! takes from its own configuration.

use std::{fmt, time::Duration};

use callsign_store::{Value, planted, record::Record};
use serde::{Deserialize, Serialize, de::IgnoredAny};

use crate::core::elector::timing::ElectorTiming;

/// The shortest time that may be set: a leader is heard twice a second.
pub const SHORTEST: Duration = Duration::from_secs(1);
/// The longest time that may be set. Longer is a mistake in the unit.
pub const LONGEST_SETTING: Duration = Duration::from_secs(600);

/// Who takes a vacant seat, among the members that hold the log's end and whose sessions are open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Preset {
    /// Whoever proves that it lives: a member that accused the dead leader, or the one whose elector commits.
    #[default]
    Sticky,
    /// The member of the greatest priority, and of several the first by name. It may be dead, which costs a lock timeout. A leader
    /// that lives is not replaced for its rank.
    Ranked,
}

impl fmt::Display for Preset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sticky => "sticky",
            Self::Ranked => "ranked",
        })
    }
}

/// What is set, and what is to be set: `None` is not set, or stays as it is. All fields are always written: recordings have
/// no names of fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Settings {
    /// How long a lock may stay unmoved. See [`ElectorTiming::lock`]. [`SHORTEST`] to [`LONGEST_SETTING`].
    #[serde(default)]
    pub lock_timeout: Option<Duration>,
    /// How long a leader that was heard may be silent. See [`ElectorTiming::silence`]. [`SHORTEST`] to [`LONGEST_SETTING`].
    #[serde(default)]
    pub silence: Option<Duration>,
    /// Who takes a vacant seat.
    #[serde(default)]
    pub policy: Option<Preset>,
}
impl Record for Settings {}

impl Settings {
    /// Sets how long a lock may stay unmoved.
    #[must_use]
    pub fn lock_timeout(self, timeout: Duration) -> Self {
        Self { lock_timeout: Some(timeout), ..self }
    }

    /// Sets how long a leader that was heard may be silent.
    #[must_use]
    pub fn silence(self, silence: Duration) -> Self {
        Self { silence: Some(silence), ..self }
    }

    /// Sets who takes a vacant seat.
    #[must_use]
    pub fn policy(self, policy: Preset) -> Self {
        Self { policy: Some(policy), ..self }
    }
}

/// One of the times that can be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Limit {
    /// [`Settings::lock_timeout`].
    LockTimeout,
    /// [`Settings::silence`].
    Silence,
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::LockTimeout => "lock timeout",
            Self::Silence => "silence",
        })
    }
}

/// A time that cannot work. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, thiserror::Error)]
#[error("a {what} of {value:?} is not between {SHORTEST:?} and {LONGEST_SETTING:?}")]
pub struct OutOfBounds {
    /// Which time.
    pub what: Limit,
    /// What it was to be.
    pub value: Duration,
}

impl OutOfBounds {
    /// The shortest time that may be set.
    pub const LEAST: Duration = SHORTEST;
    /// The longest time that may be set.
    pub const MOST: Duration = LONGEST_SETTING;
}

impl Settings {
    /// Refuses times that cannot work: `OutOfBounds` unless all that are set are from [`SHORTEST`] to [`LONGEST_SETTING`].
    pub fn check(&self) -> Result<(), OutOfBounds> {
        for (what, value) in [(Limit::LockTimeout, self.lock_timeout), (Limit::Silence, self.silence)] {
            if let Some(value) = value.filter(|value| !(SHORTEST..=LONGEST_SETTING).contains(value)) {
                return Err(OutOfBounds { what, value });
            }
        }
        Ok(())
    }

    /// These, with what the other ones set.
    #[must_use]
    pub fn with(self, change: &Self) -> Self {
        let kept = if planted!("settings-forget-the-rest") { Self::default() } else { self };
        Self {
            lock_timeout: change.lock_timeout.or(kept.lock_timeout),
            silence: change.silence.or(kept.silence),
            policy: change.policy.or(kept.policy),
        }
    }

    /// Whether all that the other ones set is set so.
    #[must_use]
    pub fn has(&self, change: &Self) -> bool {
        self.with(change) == *self
    }

    /// The record, in place of the one that was read. What a later version has written into that one is kept.
    pub(crate) fn over(&self, former: Option<&Value>) -> Value {
        let mut written = self.to_value();
        let Some(fields) = former.and_then(|former| former.get(1..)).and_then(fields) else { return written };
        let known = ["lock_timeout", "silence", "policy"];
        let unknown: Vec<_> =
            fields.into_iter().filter(|(name, _)| !known.contains(&name.as_str())).collect();
        let Some(own) = written.get(1).map(|header| usize::from(header & 0x0f)) else { return written };
        let all = own + unknown.len();
        // The header of a map: of up to 15 fields, or of up to 65 535.
        let header = match (u8::try_from(all), u16::try_from(all)) {
            (Ok(few), _) if few < 16 => vec![0x80 | few],
            (_, Ok(many)) => [&[0xde], &many.to_be_bytes()[..]].concat(),
            _ => return written,
        };
        written.splice(1..2, header);
        written.extend(unknown.into_iter().flat_map(|(_, bytes)| bytes));
        written
    }
}

/// The fields of a map in `MessagePack`: of each its name, and its bytes with the name. `None`: it is no such map.
fn fields(body: &[u8]) -> Option<Vec<(String, Vec<u8>)>> {
    let (count, mut at) = match body {
        [header @ 0x80..=0x8f, ..] => (usize::from(header & 0x0f), 1),
        [0xde, high, low, ..] => (usize::from(u16::from_be_bytes([*high, *low])), 3),
        _ => return None,
    };
    let mut fields = Vec::new();
    for _ in 0..count {
        let rest = body.get(at..)?;
        let mut reader = rmp_serde::Deserializer::new(std::io::Cursor::new(rest));
        let name = String::deserialize(&mut reader).ok()?;
        IgnoredAny::deserialize(&mut reader).ok()?;
        let read = usize::try_from(reader.position()).ok()?;
        fields.push((name, rest.get(..read)?.to_vec()));
        at += read;
    }
    Some(fields)
}

/// What holds for one elector: what is set, and for the rest its own configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub struct InForce {
    /// How long a lock may stay unmoved.
    pub lock_timeout: Duration,
    /// How long a leader that was heard may be silent.
    pub silence: Duration,
    /// Who takes a vacant seat.
    pub policy: Preset,
    /// What of it is set for all members alike.
    pub set: Settings,
}

impl InForce {
    /// What holds where these are set, and the elector has these times of its own.
    pub fn new(set: Settings, own: &ElectorTiming) -> Self {
        Self {
            lock_timeout: set.lock_timeout.unwrap_or(own.lock),
            silence: set.silence.unwrap_or(own.silence),
            policy: set.policy.unwrap_or_default(),
            set,
        }
    }
}

impl Default for InForce {
    fn default() -> Self {
        Self::new(Settings::default(), &ElectorTiming::default())
    }
}

#[cfg(test)]
mod tests {
    use callsign_store::record::CorruptRecord;

    use super::*;

    const SET: Settings =
        Settings { lock_timeout: Some(Duration::from_secs(5)), silence: None, policy: Some(Preset::Ranked) };

    #[test]
    fn a_change_keeps_what_it_does_not_name() {
        let silence = Settings { silence: Some(Duration::from_secs(4)), ..Settings::default() };
        let both = SET.with(&silence);
        assert_eq!(both, Settings { silence: silence.silence, ..SET });
        assert!(both.has(&SET) && both.has(&silence) && both.has(&Settings::default()));
        assert!(!SET.has(&silence));
        let sticky = Settings { policy: Some(Preset::Sticky), ..Settings::default() };
        assert!(!both.has(&sticky), "what is set otherwise is not set so");
        let own = ElectorTiming::default();
        let in_force = InForce::new(SET, &own);
        assert_eq!((in_force.lock_timeout, in_force.silence), (Duration::from_secs(5), own.silence));
    }

    #[test]
    fn times_have_bounds_and_the_error_says_them() {
        assert_eq!(SET.check(), Ok(()));
        for value in [Duration::ZERO, SHORTEST / 2, LONGEST_SETTING * 2] {
            let silence = Settings { silence: Some(value), ..SET };
            assert_eq!(silence.check(), Err(OutOfBounds { what: Limit::Silence, value }));
            let lock = Settings { lock_timeout: Some(value), ..SET };
            let error = lock.check().unwrap_err();
            assert_eq!(error.what, Limit::LockTimeout);
            assert!(error.to_string().contains("between 1s and 600s"), "{error}");
        }
        for value in [SHORTEST, LONGEST_SETTING] {
            assert_eq!(Settings { silence: Some(value), lock_timeout: Some(value), ..SET }.check(), Ok(()));
        }
    }

    /// Fields of a later version, few of them or more than a short header counts.
    #[test]
    fn what_a_later_version_wrote_is_kept() {
        for more in [0_usize, 1, 12, 13, 20, 300] {
            let mut later = SET.to_value();
            let all = 3 + more;
            let header = if all < 16 {
                vec![0x80 | u8::try_from(all).unwrap()]
            } else {
                [&[0xde], &u16::try_from(all).unwrap().to_be_bytes()[..]].concat()
            };
            later.splice(1..2, header);
            for number in 0..more {
                later.extend(rmp_serde::to_vec(&format!("later{number}")).unwrap());
                later.extend(rmp_serde::to_vec(&vec![number; 3]).unwrap());
            }
            assert_eq!(Settings::from_value(&later), Ok(SET), "it is read");
            let changed = SET.with(&Settings { silence: Some(LONGEST_SETTING), ..Settings::default() });
            let written = changed.over(Some(&later));
            assert_eq!(Settings::from_value(&written), Ok(changed));
            let kept = fields(&written[1..]).unwrap();
            assert_eq!(kept.len(), 3 + more);
            let former = fields(&later[1..]).unwrap();
            let unknown = former.iter().filter(|(name, _)| name.starts_with("later"));
            assert!(unknown.clone().all(|field| kept.contains(field)), "{more}");
            assert_eq!(unknown.count(), more);
        }
        assert_eq!(SET.over(None), SET.to_value());
        assert_eq!(SET.over(Some(&vec![])), SET.to_value());
        assert!(matches!(Settings::from_value(&[2, 0x80]), Err(CorruptRecord::Schema { found: 2 })));
    }
}
