//! Stretches: what straight-line code does each time it runs, known before it runs.

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

/// Where a stretch's items lie, and the addresses it needs.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    first: u32,
    items: u32,
    references: u32,
}

/// Every stretch that a program image described.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stretches {
    fetch: Fetch,
    items: Vec<Item>,
    places: Vec<Place>,
    /// As they were described, for those that a signal cuts short.
    described: Vec<u64>,
    described_at: Vec<(u32, u32)>,
}

impl Stretches {
    pub(crate) fn new(fetch: Fetch) -> Self {
        Self { fetch, ..Self::default() }
    }

    /// Takes the description of the next one; its number must follow the last.
    pub(crate) fn describe(&mut self, number: u64, described: &[u64]) -> Result<(), String> {
        if number != self.places.len() as u64 {
            return Err(format!("stretch {number} is described after {} others", self.places.len()));
        }
        let first = self.items.len();
        let mut references = 0;
        for &word in described {
            let item = item(word).ok_or_else(|| format!("{word:#018x} is no item of a stretch"))?;
            references += u32::from(matches!(item, Item::Reference { .. }));
            self.add(item, first);
        }
        let items = (self.items.len() - first) as u32;
        self.places.push(Place { first: first as u32, items, references });
        self.described_at.push((self.described.len() as u32, described.len() as u32));
        self.described.extend_from_slice(described);
        Ok(())
    }

    /// Appends an item; a fetch may join the one before it in the same stretch.
    fn add(&mut self, item: Item, first: usize) {
        if let (Fetch::Run, Item::Fetch { addr, size, .. }) = (self.fetch, item)
            && let Some(Item::Fetch { addr: start, last, size: bytes, count }) =
                self.items[first..].last_mut()
            && start.wrapping_add(u64::from(*bytes)) == addr
            && *count < LONGEST_RUN
        {
            *last = addr;
            *bytes += size;
            *count += 1;
            return;
        }
        self.items.push(item);
    }

    /// The addresses that a run of this stretch brings; `None` if there is no such stretch.
    #[inline]
    pub(crate) fn references(&self, number: usize) -> Option<usize> {
        self.places.get(number).map(|place| place.references as usize)
    }

    /// A run of a stretch that is known, with its addresses.
    #[inline]
    pub(crate) fn run(&self, number: usize, addresses: &[u64], rows: &mut Rows) {
        let place = self.places[number];
        let mut addresses = addresses.iter();
        for item in &self.items[place.first as usize..(place.first + place.items) as usize] {
            match *item {
                Item::Fetch { addr, last, size, count } => {
                    rows.fetch_run(addr, last, size, count);
                    if self.fetch == Fetch::Instruction {
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

    /// A run that a signal cut short at the instruction at `struck`: what came before it ran, and it was fetched.
    /// Nothing if no such instruction is in the stretch: then the signal came from outside.
    pub(crate) fn partial(&self, number: usize, struck: u64, noted: &[u64], rows: &mut Rows) {
        let Some(&(first, words)) = self.described_at.get(number) else { return };
        let described = &self.described[first as usize..(first + words) as usize];
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
