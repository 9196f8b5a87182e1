//! Lists of what is counted, checks above all, and how often each was.

use std::{fmt, marker::PhantomData};

/// One of a list, which the macro `counted!` makes.
pub trait Counted: Copy + 'static {
    /// All of them.
    const ALL: &'static [Self];
    /// Those without which nothing is missed.
    const SPARED: &'static [Self];

    /// Its place among all.
    fn place(self) -> usize;

    /// What it says.
    fn name(self) -> &'static str;
}

/// An enum of what is counted, and what each says.
macro_rules! counted {
    ($(#[$doc:meta])* $list:ident, spared: [$($spared:ident),*]; $($name:ident $text:literal,)*) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $list { $(#[doc = $text] $name,)* }

        impl $list {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// What it says.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
        }

        impl $crate::counted::Counted for $list {
            const ALL: &'static [Self] = Self::ALL;
            const SPARED: &'static [Self] = &[$(Self::$spared),*];

            fn place(self) -> usize {
                self as usize
            }

            fn name(self) -> &'static str {
                self.name()
            }
        }
    };
}
pub(crate) use counted;

/// How often each was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counts<C> {
    times: Vec<u64>,
    of: PhantomData<C>,
}

impl<C: Counted> Default for Counts<C> {
    fn default() -> Self {
        Self { times: vec![0; C::ALL.len()], of: PhantomData }
    }
}

impl<C: Counted + PartialEq> Counts<C> {
    /// Adds to one.
    pub fn add(&mut self, counted: C, by: u64) {
        self.times[counted.place()] += by;
    }

    /// How often one was.
    pub fn get(&self, counted: C) -> u64 {
        self.times[counted.place()]
    }

    /// Adds all of another's.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.times.iter_mut().zip(&other.times) {
            *mine += theirs;
        }
    }

    /// Those that never were, and should have been.
    pub fn never(&self) -> Vec<C> {
        let is_missed = |counted: &C| self.get(*counted) == 0 && !C::SPARED.contains(counted);
        C::ALL.iter().copied().filter(is_missed).collect()
    }
}

impl<C: Counted + PartialEq> fmt::Display for Counts<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for counted in C::ALL {
            writeln!(f, "{:>10}  {}", self.get(*counted), counted.name())?;
        }
        Ok(())
    }
}
