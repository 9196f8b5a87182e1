//! Which records are old enough to be swept away: a walk over them, now and then.
//!
//! A walk reads all records of a kind, page by page and slowly, and remembers those that are of no use any more. The
//! next one begins when the first has been over for long enough: what it finds as it was then is to go. So the age is
//! counted on the sweeper's own clock, and a record costs eight bytes until it is swept. Age is for economy only; what
//! makes a sweep safe is in its transaction.

use std::{collections::BTreeSet, ops::Range, time::Duration};

use callsign_store::{Key, Time, Value};

/// How many records are read at once, if nothing else is asked for. So many sessions are swept by one transaction at most: each takes
/// a check, and all of them two more. etcd takes 126.
pub(crate) const SWEEP_PAGE: usize = 100;

/// Between two pages at most. Longer: less is swept in an hour. Shorter: what walking costs.
const PAGE_PAUSE: Duration = Duration::from_secs(1);

/// How many records are remembered from walk to walk. What is more waits for a later walk.
const MOST_REMEMBERED: usize = 250_000;

/// How often the same page is gone back to.
const PAGE_TRIES: u32 = 8;

/// Where a sweeper is in its walks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Walk {
    /// When the next page is to be read. `None`: nothing was begun.
    due: Option<Time>,
    /// Where the present walk goes on. `None`: it has yet to begin.
    from: Option<Key>,
    /// Where the page began that was taken last, and how often it was gone back to.
    page: Option<Key>,
    tries: u32,
    /// Whether the last page was taken: the next one begins another walk.
    is_over: bool,
    /// What the walk before saw to be of no use.
    old: BTreeSet<u64>,
    /// What the present walk sees.
    seen: BTreeSet<u64>,
}

impl Walk {
    /// Begins the first walk some time after `now`, unless it was begun. Who is gone before has not walked at all.
    pub(crate) fn begin(&mut self, now: Time, after: Duration) {
        self.due.get_or_insert(now + after);
    }

    /// When the next page is to be read.
    pub(crate) fn due(&self) -> Option<Time> {
        self.due
    }

    /// The next page: as much of `all` as is still to be read.
    pub(crate) fn next(&self, all: Range<Key>) -> Range<Key> {
        self.from.clone().unwrap_or(all.start)..all.end
    }

    /// Comes back to the same page later.
    pub(crate) fn put_off(&mut self, now: Time, age: Duration) {
        self.due = Some(now + pause(age));
    }

    /// Goes back to the page that was taken last: what was to go did not. Not for ever: a later walk finds it, too.
    pub(crate) fn again(&mut self, now: Time, age: Duration) {
        if self.tries < PAGE_TRIES {
            self.tries += 1;
            self.is_over = false;
            self.from.clone_from(&self.page);
            self.due = Some(now + pause(age));
        }
    }

    /// Goes back to the page that was taken last: a part of what was to go went. That is no try that failed.
    pub(crate) fn go_on(&mut self, now: Time, age: Duration) {
        self.tries = 0;
        self.again(now, age);
    }

    /// Takes a page: its entries, how many it might have had, and which of them are of no use. Gives those that were so for `age`
    /// at least.
    pub(crate) fn take<'a>(
        &mut self,
        now: Time,
        age: Duration,
        (page, limit): (&'a [(Key, Value)], usize),
        is_useless: impl Fn(&Key, &Value) -> bool,
    ) -> Vec<&'a (Key, Value)> {
        if std::mem::take(&mut self.is_over) {
            self.old = std::mem::take(&mut self.seen);
            self.tries = 0;
        } else if self.from != self.page {
            self.tries = 0;
        }
        self.page.clone_from(&self.from);
        let mut due = Vec::new();
        for entry in page.iter().filter(|(key, value)| is_useless(key, value)) {
            let mark = mark_of(&entry.0, &entry.1);
            if self.old.contains(&mark) {
                due.push(entry);
            } else if self.seen.len() < MOST_REMEMBERED {
                self.seen.insert(mark);
            }
        }
        if let Some((last, _)) = page.last().filter(|_| page.len() >= limit) {
            self.from = Some([last.as_slice(), &[0]].concat());
            self.due = Some(now + pause(age));
        } else {
            self.from = None;
            self.is_over = true;
            self.due = Some(now + age);
        }
        due
    }
}

fn pause(age: Duration) -> Duration {
    PAGE_PAUSE.min(age / 4)
}

/// A digest of a record (FNV-1a). Two that share one cost nothing but age.
fn mark_of(key: &[u8], value: &[u8]) -> u64 {
    let bytes = key.iter().chain(&[0]).chain(value);
    bytes.fold(0xcbf2_9ce4_8422_2325, |mark, byte| (mark ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    const AGE: Duration = Duration::from_secs(3600);

    fn at(seconds: u64) -> Time {
        Time(Duration::from_secs(seconds))
    }

    #[test]
    fn what_was_useless_in_two_walks_an_age_apart_is_to_go() {
        let record = |key: &str, value: &str| (key.as_bytes().to_vec(), value.as_bytes().to_vec());
        let (a, b, c) = (record("a", "dead"), record("b", "dead"), record("c", "live"));
        let is_dead = |_: &Key, value: &Value| value == b"dead";
        let mut walk = Walk::default();
        walk.begin(at(0), Duration::from_secs(450));
        walk.begin(at(9), Duration::from_secs(450));
        assert_eq!(walk.due(), Some(at(450)));
        let page = [a.clone(), b.clone(), c.clone()];
        assert_eq!(walk.take(at(451), AGE, (&page, SWEEP_PAGE), is_dead), Vec::<&(Key, Value)>::new());
        assert_eq!(walk.due(), Some(at(451 + 3600)), "nothing is younger than an age then");
        // One has come and gone again, one died meanwhile.
        let page = [a.clone(), record("b", "dead again"), record("c", "dead")];
        let is_dead = |_: &Key, value: &Value| value.starts_with(b"dead");
        assert_eq!(walk.take(at(4100), AGE, (&page, SWEEP_PAGE), is_dead), [&a]);
    }

    #[test]
    fn a_walk_goes_page_by_page() {
        let page: Vec<_> = (0..SWEEP_PAGE).map(|nth| (format!("{nth:05}").into_bytes(), vec![1])).collect();
        let all = b"0".to_vec()..b"1".to_vec();
        let mut walk = Walk::default();
        walk.begin(at(0), Duration::ZERO);
        assert_eq!(walk.next(all.clone()), all);
        assert!(walk.take(at(1), AGE, (&page, SWEEP_PAGE), |_, _| true).is_empty());
        assert_eq!(walk.due(), Some(at(2)));
        assert_eq!(walk.next(all.clone()), b"00099\0".to_vec()..b"1".to_vec());
        assert!(walk.take(at(2), AGE, (&[], SWEEP_PAGE), |_, _| true).is_empty());
        assert_eq!(walk.due(), Some(at(3602)));
        assert_eq!(walk.next(all.clone()), all);
        assert_eq!(walk.take(at(3602), AGE, (&page, SWEEP_PAGE), |_, _| true).len(), SWEEP_PAGE);
        // They could not be swept: once more.
        walk.again(at(3602), AGE);
        assert_eq!((walk.due(), walk.next(all.clone())), (Some(at(3603)), all.clone()));
        assert_eq!(walk.take(at(3603), AGE, (&page, SWEEP_PAGE), |_, _| true).len(), SWEEP_PAGE);
        // The last page, too.
        assert!(walk.take(at(3604), AGE, (&[], SWEEP_PAGE), |_, _| true).is_empty());
        walk.again(at(3604), AGE);
        assert_eq!(walk.next(all.clone()).start, b"00099\0".to_vec());
        assert!(walk.take(at(3605), AGE, (&[], SWEEP_PAGE), |_, _| true).is_empty());
        assert_eq!(walk.due(), Some(at(7205)));
    }

    #[test]
    fn a_page_that_goes_in_parts_is_gone_back_to_until_all_of_it_has_gone() {
        let page: Vec<_> = (0..SWEEP_PAGE).map(|nth| (format!("{nth:05}").into_bytes(), vec![1])).collect();
        let all = b"0".to_vec()..b"1".to_vec();
        let mut walk = Walk::default();
        walk.begin(at(0), Duration::ZERO);
        assert!(walk.take(at(1), AGE, (&page, SWEEP_PAGE), |_, _| true).is_empty());
        assert!(walk.take(at(2), AGE, (&[], SWEEP_PAGE), |_, _| true).is_empty());
        for second in 3602..3602 + 2 * u64::from(PAGE_TRIES) {
            assert_eq!(walk.take(at(second), AGE, (&page, SWEEP_PAGE), |_, _| true).len(), SWEEP_PAGE);
            walk.go_on(at(second), AGE);
            assert_eq!((walk.due(), walk.next(all.clone())), (Some(at(second + 1)), all.clone()));
        }
    }

    /// So many records, in order.
    fn records(count: usize) -> Vec<(Key, Value)> {
        (0..count).map(|nth| (format!("{nth:06}").into_bytes(), vec![1])).collect()
    }

    #[test]
    fn the_next_page_waits_for_a_second_or_for_a_quarter_of_a_short_age() {
        let short = (Duration::from_secs(2), Duration::from_millis(500));
        for (age, pause) in [(AGE, Duration::from_secs(1)), short] {
            let page = records(3);
            let mut walk = Walk::default();
            walk.put_off(at(10), age);
            assert_eq!(walk.due(), Some(at(10) + pause));
            walk.again(at(20), age);
            assert_eq!(walk.due(), Some(at(20) + pause));
            assert!(walk.take(at(30), age, (&page, 3), |_, _| true).is_empty());
            assert_eq!(walk.due(), Some(at(30) + pause), "another page follows");
        }
    }

    #[test]
    fn each_page_of_a_walk_is_gone_back_to_so_often_and_no_more() {
        let all = b"0".to_vec()..b"1".to_vec();
        let records = records(2 * SWEEP_PAGE);
        let (one, two) = records.split_at(SWEEP_PAGE);
        let mut walk = Walk::default();
        let take = |walk: &mut Walk, second: u64, page: &[(Key, Value)]| {
            walk.take(at(second), AGE, (page, SWEEP_PAGE), |_, _| true).len()
        };
        assert_eq!([take(&mut walk, 1, one), take(&mut walk, 2, two), take(&mut walk, 3, &[])], [0, 0, 0]);
        assert_eq!(take(&mut walk, 4000, one), SWEEP_PAGE);
        for _ in 0..PAGE_TRIES {
            walk.again(at(4000), AGE);
            assert_eq!(walk.next(all.clone()), all);
            assert_eq!(take(&mut walk, 4001, one), SWEEP_PAGE);
        }
        walk.again(at(4002), AGE);
        assert_eq!(walk.next(all.clone()).start, b"000099\0", "a later walk finds it");
        assert_eq!(take(&mut walk, 4003, two), SWEEP_PAGE);
        assert_eq!(walk.next(all.clone()).start, b"000199\0");
        walk.again(at(4004), AGE);
        assert_eq!(walk.next(all).start, b"000099\0", "that was another page's");
    }

    #[test]
    fn the_last_page_is_gone_back_to_with_what_was_old_and_in_the_next_walk_as_often() {
        let few = records(3);
        let take =
            |walk: &mut Walk, second: u64| walk.take(at(second), AGE, (&few, SWEEP_PAGE), |_, _| true).len();
        let mut walk = Walk::default();
        assert_eq!(take(&mut walk, 1), 0);
        assert_eq!(take(&mut walk, 4000), 3);
        for _ in 0..PAGE_TRIES {
            walk.again(at(4000), AGE);
            assert_eq!(walk.due(), Some(at(4001)));
            assert_eq!(take(&mut walk, 4001), 3, "it is the same walk");
        }
        walk.again(at(4001), AGE);
        assert_eq!(walk.due(), Some(at(4001) + AGE), "only the next walk looks at it again");
        take(&mut walk, 8000);
        walk.again(at(8000), AGE);
        assert_eq!(walk.due(), Some(at(8001)));
    }

    #[test]
    fn so_many_records_are_remembered_from_walk_to_walk_and_no_more() {
        let many = records(MOST_REMEMBERED + 2);
        let mut walk = Walk::default();
        let mut take = |second: u64| walk.take(at(second), AGE, (&many, many.len() + 1), |_, _| true).len();
        assert_eq!(take(1), 0);
        assert_eq!(take(4000), MOST_REMEMBERED);
    }
}
