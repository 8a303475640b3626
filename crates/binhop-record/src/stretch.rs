//! Stretches: what straight-line code does each time it runs, known before it runs.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::Arc;

use binhop_trace::event::Op;
use binhop_trace::import::rows::{LONGEST_RUN, Rows};

use crate::wire;

/// Whether a fetch row stands for a run of instructions or for one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fetch {
    /// Instructions in sequence are one row, which ends at a data reference.
    #[default]
    Run,
    /// Each instruction is a row.
    Instruction,
}

/// What a stretch does, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Item {
    /// Instructions: first byte, first byte of the last, bytes, how many.
    Fetch { addr: u64, last: u64, size: u32, count: u32 },
    /// A reference whose address comes with each run.
    Reference { op: Op, size: u32, guarded: bool },
}

/// Where a stretch's items lie, and the addresses that each run brings.
#[derive(Clone, Copy, Debug)]
struct Place {
    first: u32,
    items: u32,
    references: u32,
}

/// Stretches in flat lists, so that running one looks at two places only.
#[derive(Clone, Debug, Default)]
struct Table {
    places: Vec<Place>,
    items: Vec<Item>,
    /// As they were described, for those that a signal cuts short.
    described: Vec<u64>,
    /// By number: where in `described`, and how many words.
    described_at: Vec<(u32, u32)>,
}

impl Table {
    fn append(&mut self, mut further: Table) {
        self.places.append(&mut further.places);
        self.items.append(&mut further.items);
        self.described.append(&mut further.described);
        self.described_at.append(&mut further.described_at);
    }
}

/// Every stretch that a program image described, by number.
///
/// A process shares with its parent what that one knew when it was made, so that a fork costs little however much is known. Code
/// that is translated again and described word for word as before is kept once.
#[derive(Debug, Default)]
pub(crate) struct Stretches {
    fetch: Fetch,
    /// What a parent knew, or children know.
    shared: Arc<Table>,
    /// Stretches and items in it: at hand, since each run asks.
    shared_places: usize,
    shared_items: usize,
    /// What came after it. Places count items and words from the beginning of what is shared.
    own: Table,
    /// The number that came last with each description, by its hash. Of a parent's nothing is in it: what a child describes
    /// again is kept once more, and once only.
    numbers: HashMap<u64, u32>,
}

/// So many stretches of its own are copied at a fork; where there are more, they are put with what is shared. Few in tests,
/// which look at what happens then.
const COPIED: usize = if cfg!(test) { 4 } else { 512 };

impl Stretches {
    pub(crate) fn new(fetch: Fetch) -> Self {
        Self { fetch, ..Self::default() }
    }

    /// What a process knows that is made now.
    pub(crate) fn child(&mut self) -> Self {
        if self.own.places.len() > COPIED {
            // Where a child still has it, all that is shared is copied here: once for so many new stretches.
            Arc::make_mut(&mut self.shared).append(std::mem::take(&mut self.own));
            self.shared_places = self.shared.places.len();
            self.shared_items = self.shared.items.len();
        }
        Self { shared: Arc::clone(&self.shared), own: self.own.clone(), numbers: HashMap::new(), ..*self }
    }

    fn len(&self) -> usize {
        self.shared_places + self.own.places.len()
    }

    #[inline]
    fn place(&self, number: usize) -> Option<Place> {
        match number.checked_sub(self.shared_places) {
            Some(own) => self.own.places.get(own).copied(),
            None => Some(self.shared.places[number]),
        }
    }

    #[inline]
    fn items(&self, place: Place) -> &[Item] {
        let (first, items) = (place.first as usize, place.items as usize);
        match first.checked_sub(self.shared_items) {
            Some(first) => &self.own.items[first..first + items],
            None => &self.shared.items[first..first + items],
        }
    }

    /// Where a stretch's description begins, and its words.
    fn described(&self, number: usize) -> Option<(u32, &[u64])> {
        let &(begins, words) = match number.checked_sub(self.shared_places) {
            Some(own) => self.own.described_at.get(own)?,
            None => &self.shared.described_at[number],
        };
        let (first, words) = (begins as usize, words as usize);
        let described = match first.checked_sub(self.shared.described.len()) {
            Some(first) => &self.own.described[first..first + words],
            None => &self.shared.described[first..first + words],
        };
        Some((begins, described))
    }

    /// Takes the description of the next one; its number must follow the last.
    pub(crate) fn describe(&mut self, number: u64, described: &[u64]) -> Result<(), String> {
        if number != self.len() as u64 {
            return Err(format!("stretch {number} is described after {} others", self.len()));
        }
        let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(described);
        let before = self.numbers.get(&hash).map(|&before| before as usize);
        let same = before.and_then(|before| {
            let (begins, words) = self.described(before)?;
            (words == described).then_some((self.place(before)?, begins))
        });
        let (place, begins) = match same {
            Some(same) => same,
            None => self.understand(described)?,
        };
        self.own.places.push(place);
        self.own.described_at.push((begins, described.len() as u32));
        self.numbers.insert(hash, number as u32);
        Ok(())
    }

    /// Keeps a description: where its items lie, and where it begins.
    fn understand(&mut self, described: &[u64]) -> Result<(Place, u32), String> {
        let first = self.own.items.len();
        let mut references = 0;
        for &word in described {
            let item = item(word).ok_or_else(|| format!("{word:#018x} is no item of a stretch"))?;
            references += u32::from(matches!(item, Item::Reference { .. }));
            self.add(item, first);
        }
        let place = Place {
            first: (self.shared_items + first) as u32,
            items: (self.own.items.len() - first) as u32,
            references,
        };
        let begins = self.shared.described.len() + self.own.described.len();
        self.own.described.extend_from_slice(described);
        Ok((place, begins as u32))
    }

    /// Appends an item; a fetch may join the one before it in the same stretch.
    fn add(&mut self, item: Item, first: usize) {
        if let (Fetch::Run, Item::Fetch { addr, size, .. }) = (self.fetch, item)
            && let Some(Item::Fetch { addr: start, last, size: bytes, count }) =
                self.own.items[first..].last_mut()
            && start.wrapping_add(u64::from(*bytes)) == addr
            && *count < LONGEST_RUN
        {
            *last = addr;
            *bytes += size;
            *count += 1;
            return;
        }
        self.own.items.push(item);
    }

    /// A stretch to run, if there is one of this number.
    #[inline]
    pub(crate) fn stretch(&self, number: usize) -> Option<Stretch<'_>> {
        let place = self.place(number)?;
        let each = self.fetch == Fetch::Instruction;
        Some(Stretch { items: self.items(place), references: place.references as usize, each })
    }

    /// A run that a signal cut short at the instruction at `struck`: what came before it ran, and it was fetched.
    /// Nothing if no such instruction is in the stretch: then the signal came from outside.
    pub(crate) fn partial(&self, number: usize, struck: u64, noted: &[u64], rows: &mut Rows) {
        let Some((_, described)) = self.described(number) else { return };
        let is_struck = |word: &u64| matches!(item(*word), Some(Item::Fetch { addr, .. }) if addr == struck);
        let Some(end) = described.iter().position(is_struck) else { return };
        let mut noted = noted.iter();
        for item in described[..=end].iter().filter_map(|&word| item(word)) {
            match item {
                Item::Fetch { addr, size, .. } => {
                    rows.fetch(addr, size);
                    if self.fetch == Fetch::Instruction {
                        rows.end_run();
                    }
                }
                Item::Reference { op, size, guarded } => {
                    let Some(&addr) = noted.next() else { return };
                    if !(guarded && wire::tag(addr) == wire::NOT_MADE) {
                        rows.data(op, addr, size);
                    }
                }
            }
        }
    }
}

/// A stretch that is known.
#[derive(Clone, Copy)]
pub(crate) struct Stretch<'a> {
    items: &'a [Item],
    /// The addresses that a run of it brings.
    pub(crate) references: usize,
    /// Each instruction is a row.
    each: bool,
}

impl Stretch<'_> {
    /// A run, with its addresses.
    #[inline]
    pub(crate) fn run(self, addresses: &[u64], rows: &mut Rows) {
        let mut addresses = addresses.iter();
        for item in self.items {
            match *item {
                Item::Fetch { addr, last, size, count } => {
                    rows.fetch_run(addr, last, size, count);
                    if self.each {
                        rows.end_run();
                    }
                }
                Item::Reference { op, size, guarded } => {
                    let addr = *addresses.next().expect("as many addresses as references");
                    if !(guarded && wire::tag(addr) == wire::NOT_MADE) {
                        rows.data(op, addr, size);
                    }
                }
            }
        }
    }
}

/// What a word of a description says.
fn item(word: u64) -> Option<Item> {
    if word >> wire::ITEM_REFERENCE == 0 {
        let addr = word & ((1 << wire::ITEM_LENGTH) - 1);
        let size = (word >> wire::ITEM_LENGTH) as u32;
        return (1..=127).contains(&size).then_some(Item::Fetch { addr, last: addr, size, count: 1 });
    }
    let op = match word >> wire::ITEM_KIND & 3 {
        wire::LOAD => Op::Load,
        wire::STORE => Op::Store,
        wire::MODIFY => Op::Modify,
        _ => return None,
    };
    let size = wire::low(word) as u32;
    let guarded = word >> wire::ITEM_GUARDED & 1 == 1;
    (size > 0).then_some(Item::Reference { op, size, guarded })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What happens to one of the processes there are.
    #[derive(Clone, Debug)]
    enum Step {
        /// It describes its next stretch.
        Describe(Vec<u64>),
        Fork,
        /// It runs one of those it knows.
        Run(prop::sample::Index),
    }

    /// Descriptions so few that they come again and again.
    fn description() -> impl Strategy<Value = Vec<u64>> {
        let word = prop_oneof![
            (0u64..3).prop_map(|number| (0x1000 + 4 * number) | (4 << wire::ITEM_LENGTH)),
            (1u64..4).prop_map(|kind| 1 << wire::ITEM_REFERENCE | kind << wire::ITEM_KIND | 8),
        ];
        prop::collection::vec(word, 0..3)
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => description().prop_map(Step::Describe),
            1 => Just(Step::Fork),
            3 => any::<prop::sample::Index>().prop_map(Step::Run),
        ]
    }

    /// All rows of one run: what it is made of, in plain words.
    fn plain(described: &[u64], addresses: &[u64], each: bool) -> Rows {
        let mut rows = Rows::with_capacity(8);
        let mut addresses = addresses.iter();
        for &word in described {
            match item(word).unwrap() {
                Item::Fetch { addr, size, .. } => {
                    rows.fetch(addr, size);
                    if each {
                        rows.end_run();
                    }
                }
                Item::Reference { op, size, .. } => rows.data(op, *addresses.next().unwrap(), size),
            }
        }
        rows
    }

    fn told(mut rows: Rows) -> Vec<(u8, u64, u32, u32)> {
        rows.end_run();
        let all = rows.take(0);
        (0..all.len())
            .map(|row| (all.op()[row], all.addr()[row], all.size()[row], all.count()[row]))
            .collect()
    }

    proptest! {
        /// Whoever shares what: each process runs what it was told itself, or knows from its parent.
        #[test]
        fn as_a_list_of_descriptions_for_each_process(
            steps in prop::collection::vec((any::<prop::sample::Index>(), step()), 0..120),
            each in any::<bool>(),
        ) {
            let fetch = if each { Fetch::Instruction } else { Fetch::Run };
            let mut processes = vec![(Stretches::new(fetch), Vec::<Vec<u64>>::new())];
            for (who, step) in steps {
                let who = who.index(processes.len());
                let (stretches, known) = &mut processes[who];
                match step {
                    Step::Describe(words) => {
                        stretches.describe(known.len() as u64, &words).unwrap();
                        prop_assert!(stretches.describe(known.len() as u64, &words).is_err());
                        known.push(words);
                    }
                    Step::Fork => {
                        let child = (stretches.child(), known.clone());
                        processes.push(child);
                    }
                    Step::Run(number) => {
                        prop_assert!(stretches.stretch(known.len()).is_none());
                        if known.is_empty() {
                            continue;
                        }
                        let number = number.index(known.len());
                        let stretch = stretches.stretch(number).unwrap();
                        let addresses: Vec<u64> = (0..stretch.references as u64).map(|n| 0x9000 + 64 * n).collect();
                        let mut rows = Rows::with_capacity(8);
                        stretch.run(&addresses, &mut rows);
                        prop_assert_eq!(told(rows), told(plain(&known[number], &addresses, each)));
                    }
                }
            }
        }
    }

    /// Code that is thrown away and translated again, and children that change nothing: neither costs memory anew.
    #[test]
    fn what_is_known_is_kept_once() {
        let described = |number: u64| [(0x1000 + 16 * number) | (4 << wire::ITEM_LENGTH)];
        let mut parent = Stretches::new(Fetch::Run);
        for number in 0..100 {
            parent.describe(number, &described(number % 10)).unwrap();
        }
        assert_eq!((parent.len(), parent.own.items.len(), parent.own.described.len()), (100, 10, 10));
        let mut child = parent.child();
        assert!(Arc::ptr_eq(&child.shared, &parent.shared) && child.own.items.is_empty());
        for number in 100..200 {
            child.describe(number, &described(number % 20)).unwrap();
        }
        assert_eq!((child.len(), child.own.items.len(), parent.len()), (200, 20, 100));
        // Of few that came after what is shared, the next child has a copy; of many, a part in what is shared.
        parent.describe(100, &described(50)).unwrap();
        assert_eq!(parent.child().own.places.len(), 1);
        (101..110).for_each(|number| parent.describe(number, &described(50)).unwrap());
        let next = parent.child();
        assert_eq!((next.own.places.len(), next.len(), child.shared.places.len()), (0, 110, 100));
    }
}
