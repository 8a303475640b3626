//! Tests compare types of sets with the plain array, step by step, by counts and contents.

use binhop_base::{LineAddr, Rng};
use proptest::prelude::*;

use super::{
    Array, SelectedLines, Sets, SetsVisitor, Word,
    array::{Exchange, Line, touch_or_put},
};
use crate::replacement::{ArrayShape, Policy};

/// The sets of a test, and the logarithm of the lines in a page.
pub(super) const SETS: usize = 4;
pub(super) const PAGE_LINES_LOG2: u32 = 1;

pub(super) fn shape(ways: usize) -> ArrayShape {
    ArrayShape { ways, sets: SETS, first: 0, cache: 0, rng: Rng::new(0) }
}

/// A step does one thing to a set, with a line of a page.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    /// The set is asked for the line, which comes if it is not there. The set is searched first, or exchanges lines.
    Ask {
        set: usize,
        page: u32,
        dirty: bool,
        exchange: bool,
    },
    /// All lines of a set leave whose pages have these upper bits.
    Remove(usize, u32),
    Evict(usize),
    Clean(usize, u32),
    /// Sets the number of victims that a set has had.
    SetVictims(usize, u32),
}

pub(super) fn steps() -> impl Strategy<Value = Vec<Step>> {
    let (set, page) = (0..SETS, 0u32..24);
    let step = prop_oneof![
        12 => (set.clone(), page.clone(), any::<bool>(), any::<bool>())
            .prop_map(|(set, page, dirty, exchange)| Step::Ask { set, page, dirty, exchange }),
        1 => (set.clone(), page.clone()).prop_map(|(set, page)| Step::Remove(set, page)),
        1 => set.clone().prop_map(Step::Evict),
        1 => (set.clone(), page).prop_map(|(set, page)| Step::Clean(set, page)),
        1 => (set, any::<u32>()).prop_map(|(set, victims)| Step::SetVictims(set, victims)),
    ];
    prop::collection::vec(step, 1..400)
}

/// `Call` calls a function of sets, for arrays whose loops are compiled for each kind of search.
pub(super) enum Call<'a> {
    Touch(usize, u64, u64, &'a mut u64, &'a mut bool),
    Put(usize, Word, &'a mut Option<Word>),
    Exchange(usize, Line, u64, &'a mut Option<Exchange>),
}

impl Call<'_> {
    pub(super) fn touch(
        set: usize,
        key: u64,
        dirty: u64,
        newly_dirty: &mut u64,
        visit: impl FnOnce(Call<'_>),
    ) -> bool {
        let mut found = false;
        visit(Call::Touch(set, key, dirty, newly_dirty, &mut found));
        found
    }

    pub(super) fn put(set: usize, line: Word, visit: impl FnOnce(Call<'_>)) -> Option<Word> {
        let mut victim = None;
        visit(Call::Put(set, line, &mut victim));
        victim
    }

    pub(super) fn exchange(set: usize, line: Line, dirty: u64, visit: impl FnOnce(Call<'_>)) -> Exchange {
        let mut done = None;
        visit(Call::Exchange(set, line, dirty, &mut done));
        done.expect("the visitor was called")
    }
}

impl SetsVisitor for Call<'_> {
    #[inline(always)]
    fn visit<S: Sets>(self, sets: &mut S) {
        match self {
            Call::Touch(set, key, dirty, newly_dirty, found) => {
                *found = sets.touch(set, key, dirty, newly_dirty);
            }
            Call::Put(set, line, victim) => *victim = sets.put(set, line),
            Call::Exchange(set, line, dirty, done) => *done = Some(sets.exchange(set, line, dirty)),
        }
    }
}

/// `Compared` is what an array of sets has beside [`Sets`].
pub(super) trait Compared: Sets {
    fn evict(&mut self, set: usize) -> Option<Word>;
    fn remove(&mut self, set: usize, selected: SelectedLines<'_>, removed: &mut dyn FnMut(Word));
    fn clean(&mut self, set: usize, selected: SelectedLines<'_>, cleaned: &mut dyn FnMut(Word));
    fn set_victims(&mut self, set: usize, victims: u64);
    fn in_order(&self, set: usize) -> Vec<u64>;
}

/// Implements [`Compared`] by functions of the same names, which the type or its field has.
macro_rules! compared {
    ([$($parameters:tt)*] $array:ty $(, $field:ident)?) => {
        impl<$($parameters)*> $crate::cache::lines::steps::Compared for $array {
            fn evict(&mut self, set: usize) -> Option<Word> {
                self$(.$field)?.evict(set)
            }
            fn remove(&mut self, set: usize, selected: SelectedLines<'_>, removed: &mut dyn FnMut(Word)) {
                self$(.$field)?.remove(set, selected, removed);
            }
            fn clean(&mut self, set: usize, selected: SelectedLines<'_>, cleaned: &mut dyn FnMut(Word)) {
                self$(.$field)?.clean(set, selected, cleaned);
            }
            fn set_victims(&mut self, set: usize, victims: u64) {
                self$(.$field)?.set_victims(set, victims);
            }
            fn in_order(&self, set: usize) -> Vec<u64> {
                self$(.$field)?.in_order(set)
            }
        }
    };
}
pub(super) use compared;

/// Checks that arrays do at each step what a plain array does.
pub(super) fn compare<P: Policy, A: Compared>(shape: &ArrayShape, arrays: &mut [A], steps: &[Step]) {
    let number = |set: usize| set as u32 % (1 << PAGE_LINES_LOG2);
    let line = |set: usize, page: u32| Line {
        at: LineAddr { id: page, line: number(set) },
        page_lines_log2: PAGE_LINES_LOG2,
    };
    let mut plain = Array::<P, 0>::new(shape);
    for &step in steps {
        match step {
            Step::Ask { set, page, dirty, exchange } => {
                let line = line(set, page);
                let expected = touch_or_put(&mut plain, set, line, u64::from(dirty));
                for array in &mut *arrays {
                    let done = if exchange {
                        array.exchange(set, line, u64::from(dirty))
                    } else {
                        touch_or_put(array, set, line, u64::from(dirty))
                    };
                    assert_eq!(done.counts(), expected.counts());
                }
            }
            Step::Remove(set, page) => {
                let upper_bits = line(set, page).key() >> 4;
                let has_upper_bits = |other: u64| other >> 4 == upper_bits;
                let selected = SelectedLines::Keys(&has_upper_bits);
                let mut expected = Vec::new();
                plain.remove(set, selected, &mut |word| expected.push(word));
                for array in &mut *arrays {
                    let mut removed = Vec::new();
                    array.remove(set, selected, &mut |word| removed.push(word));
                    assert_eq!(removed, expected);
                }
            }
            Step::Evict(set) => {
                let expected = plain.evict(set);
                arrays.iter_mut().for_each(|array| assert_eq!(array.evict(set), expected));
            }
            Step::Clean(set, page) => {
                let selected = SelectedLines::Key(line(set, page).key());
                let mut expected = Vec::new();
                plain.clean(set, selected, &mut |word| expected.push(word));
                for array in &mut *arrays {
                    let mut cleaned = Vec::new();
                    array.clean(set, selected, &mut |word| cleaned.push(word));
                    assert_eq!(cleaned, expected);
                }
            }
            Step::SetVictims(set, victims) => {
                plain.set_victims(set, victims.into());
                arrays.iter_mut().for_each(|array| array.set_victims(set, victims.into()));
            }
        }
        for (set, array) in (0..SETS).flat_map(|set| arrays.iter().map(move |array| (set, array))) {
            assert_eq!(array.in_order(set), plain.words(set..set + 1));
        }
    }
}
