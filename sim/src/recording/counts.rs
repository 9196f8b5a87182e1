//! How often each check of recordings was exercised.

use std::fmt;

macro_rules! counts {
    ($($name:ident $text:literal $expected:literal,)*) => {
        /// Something that is checked.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Count { $(#[doc = $text] $name,)* }

        impl Count {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// What is counted.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            /// Whether a cluster that did anything has some.
            const fn is_expected(self) -> bool {
                match self { $(Self::$name => $expected,)* }
            }
        }
    };
}

counts! {
    Steps "steps replayed" true,
    Effects "effects compared" true,
    Batches "batches of the log seen" true,
    Shared "batches seen by several nodes, the same" true,
    Committers "epochs with one committing leader" true,
    Leaders "epochs with one leader, said by several nodes" true,
    Forward "steps of replicas, forward" true,
    Prefixes "replicas that hold what the log says" true,
    Views "views of the registry, in order" true,
    Trusts "sessions trusted only after they were granted" true,
    Claims "claims by a trusted session" true,
    Handed "claims on a name that another node held before" false,
    Grants "grants found in the log" true,
    Answers "calls answered once" true,
    Entries "queue entries taken once" true,
}

/// How often each was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counts(Vec<u64>);

impl Default for Counts {
    fn default() -> Self {
        Self(vec![0; Count::ALL.len()])
    }
}

impl Counts {
    /// Adds to one.
    pub fn add(&mut self, count: Count, by: usize) {
        self.0[count as usize] += by as u64;
    }

    /// How often it was.
    pub fn get(&self, count: Count) -> u64 {
        self.0[count as usize]
    }

    /// Which should have been, and were not.
    pub fn missing(&self) -> Vec<Count> {
        Count::ALL.iter().copied().filter(|count| count.is_expected() && self.get(*count) == 0).collect()
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for count in Count::ALL {
            writeln!(f, "{:>10}  {}", self.get(*count), count.name())?;
        }
        Ok(())
    }
}
