//! A list of names in pages, so that it never moves as a whole when it grows.

use crate::core::name::Name;

/// How many names a page has.
const NAMES_PAGE: usize = 1024;

/// Names, each at a place that counts from 0. One that goes leaves its place to the last one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Names {
    /// All but the last one are full, and none is empty.
    pages: Vec<Vec<Name>>,
}

impl Names {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.pages.last().map_or(0, |last| (self.pages.len() - 1) * NAMES_PAGE + last.len())
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }

    /// All of them, by their places.
    #[cfg(test)]
    pub fn iter(&self) -> impl Iterator<Item = &Name> {
        self.pages.iter().flatten()
    }

    pub(super) fn push(&mut self, name: Name) {
        if let Some(page) = self.pages.last_mut().filter(|page| page.len() < NAMES_PAGE) {
            page.push(name);
            return;
        }
        // Only the first page begins small.
        let mut page = Vec::with_capacity(if self.pages.is_empty() { 1 } else { NAMES_PAGE });
        page.push(name);
        self.pages.push(page);
    }

    pub(super) fn pop(&mut self) -> Option<Name> {
        let last = self.pages.last_mut()?;
        let name = last.pop();
        if last.is_empty() {
            self.pages.pop();
        }
        name
    }

    /// The name at a place.
    pub fn get(&self, at: usize) -> Option<&Name> {
        self.pages.get(at / NAMES_PAGE)?.get(at % NAMES_PAGE)
    }

    /// Removes the name at a place.
    pub(super) fn remove(&mut self, at: usize) {
        let Some(last) = self.pop() else { return };
        if let Some(place) =
            self.pages.get_mut(at / NAMES_PAGE).and_then(|page| page.get_mut(at % NAMES_PAGE))
        {
            *place = last;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_goes_leaves_its_place_to_the_last_one_over_all_pages() {
        let name = |number: usize| Name::from(number.to_string());
        let (mut names, mut expected) = (Names::default(), Vec::new());
        for number in 0..2 * NAMES_PAGE + 2 {
            names.push(name(number));
            expected.push(name(number));
        }
        for at in [0, NAMES_PAGE, 2 * NAMES_PAGE - 1, NAMES_PAGE - 1] {
            names.remove(at);
            expected.swap_remove(at);
            assert!(names.iter().eq(&expected), "after the one at {at} went");
            assert_eq!((names.len(), names.get(at)), (expected.len(), expected.get(at)));
        }
        while let Some(last) = expected.pop() {
            assert_eq!(names.pop(), Some(last));
        }
        assert_eq!((names.len(), names.is_empty(), names.pop(), names.get(0)), (0, true, None, None));
    }
}
