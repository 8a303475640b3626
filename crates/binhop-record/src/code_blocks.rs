//! `CodeBlocks` holds the straight-line blocks of code that the recorder describes, and makes the rows of
//! their runs.
//!
//! A straight-line block has no way out in its middle, so each run of it makes the same fetches and the
//! same number of data references. The recorder describes a block once; of each run it writes only the
//! block's number and the addresses of the data.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::Arc;

use binhop_trace::event::Op;
use binhop_trace::import::rows::{LONGEST_RUN, Rows};

use crate::wire;

/// `FetchRows` says what one fetch row of the trace stands for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FetchRows {
    /// Instructions in sequence are one row, which ends at a data reference.
    #[default]
    Run,
    /// Each instruction is a row.
    Instruction,
}

/// An `Item` is one action of a block: it fetches, or it references data. A block's items are in program order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Item {
    /// Instructions in sequence: the addresses of the first and the last instruction, the bytes of all, and
    /// their number.
    Fetch { addr: u64, last: u64, size: u32, count: u32 },
    /// A data reference; each run of the block brings its address. A guarded reference depends on a
    /// condition.
    Reference { op: Op, size: u32, guarded: bool },
}

/// `ItemRange` says where a block's items lie, and how many addresses a run of the block brings.
#[derive(Clone, Copy, Debug)]
struct ItemRange {
    first: u32,
    items: u32,
    references: u32,
}

/// `BlockTable` holds blocks in flat lists, so that a run looks into two lists only.
#[derive(Clone, Debug, Default)]
struct BlockTable {
    ranges: Vec<ItemRange>,
    items: Vec<Item>,
    /// The words of the descriptions, for runs that a signal cuts short.
    described: Vec<u64>,
    /// For each block, by its number: the place in `described`, and the number of words.
    description_ranges: Vec<(u32, u32)>,
}

impl BlockTable {
    fn append(&mut self, mut further: BlockTable) {
        self.ranges.append(&mut further.ranges);
        self.items.append(&mut further.items);
        self.described.append(&mut further.described);
        self.description_ranges.append(&mut further.description_ranges);
    }
}

/// `CodeBlocks` holds every block that a process image described, by number.
///
/// A process shares the blocks that its parent knew at the fork, so that a fork costs little however many
/// blocks there are. A block that is translated again and described word for word as before is kept once.
#[derive(Debug, Default)]
pub(crate) struct CodeBlocks {
    fetch: FetchRows,
    /// The blocks that a parent knew, or that children know.
    shared: Arc<BlockTable>,
    /// The number of blocks and of items in `shared`. They are kept because every run asks for them.
    shared_blocks: usize,
    shared_items: usize,
    /// The blocks that came after `shared`. Places of items and words count from the beginning of `shared`.
    own: BlockTable,
    /// The number that came last with each description, by the description's hash. The descriptions of a
    /// parent are left out: a block that a child describes again is kept once more, and only once.
    numbers: HashMap<u64, u32>,
}

/// The most blocks of its own that a process copies at a fork. If it has more, they move to the shared
/// blocks. The number is small in tests, so that tests reach this case.
const COPIED: usize = if cfg!(test) { 4 } else { 512 };

impl CodeBlocks {
    pub(crate) fn new(fetch: FetchRows) -> Self {
        Self { fetch, ..Self::default() }
    }

    /// Returns the blocks of a process that is forked now.
    pub(crate) fn child(&mut self) -> Self {
        if self.own.ranges.len() > COPIED {
            // If a child still holds the shared blocks, all of them are copied here: once for `COPIED` new
            // blocks.
            Arc::make_mut(&mut self.shared).append(std::mem::take(&mut self.own));
            self.shared_blocks = self.shared.ranges.len();
            self.shared_items = self.shared.items.len();
        }
        Self { shared: Arc::clone(&self.shared), own: self.own.clone(), numbers: HashMap::new(), ..*self }
    }

    fn len(&self) -> usize {
        self.shared_blocks + self.own.ranges.len()
    }

    #[inline]
    fn range(&self, number: usize) -> Option<ItemRange> {
        match number.checked_sub(self.shared_blocks) {
            Some(own) => self.own.ranges.get(own).copied(),
            None => Some(self.shared.ranges[number]),
        }
    }

    #[inline]
    fn items(&self, range: ItemRange) -> &[Item] {
        let (first, items) = (range.first as usize, range.items as usize);
        match first.checked_sub(self.shared_items) {
            Some(first) => &self.own.items[first..first + items],
            None => &self.shared.items[first..first + items],
        }
    }

    /// Returns the place at which a block's description begins, and the words of the description.
    fn described(&self, number: usize) -> Option<(u32, &[u64])> {
        let &(begins, words) = match number.checked_sub(self.shared_blocks) {
            Some(own) => self.own.description_ranges.get(own)?,
            None => &self.shared.description_ranges[number],
        };
        let (first, words) = (begins as usize, words as usize);
        let described = match first.checked_sub(self.shared.described.len()) {
            Some(first) => &self.own.described[first..first + words],
            None => &self.shared.described[first..first + words],
        };
        Some((begins, described))
    }

    /// Adds the description of the next block. Its number must follow the last one.
    pub(crate) fn describe(&mut self, number: u64, described: &[u64]) -> Result<(), String> {
        if number != self.len() as u64 {
            return Err(format!("block {number} is described after {} others", self.len()));
        }
        let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(described);
        let before = self.numbers.get(&hash).map(|&before| before as usize);
        let same = before.and_then(|before| {
            let (begins, words) = self.described(before)?;
            (words == described).then_some((self.range(before)?, begins))
        });
        let (range, begins) = match same {
            Some(same) => same,
            None => self.parse(described)?,
        };
        self.own.ranges.push(range);
        self.own.description_ranges.push((begins, described.len() as u32));
        self.numbers.insert(hash, number as u32);
        Ok(())
    }

    /// Stores a description. Returns where its items lie, and where it begins.
    fn parse(&mut self, described: &[u64]) -> Result<(ItemRange, u32), String> {
        let first = self.own.items.len();
        let mut references = 0;
        for &word in described {
            let item = item(word).ok_or_else(|| format!("{word:#018x} is not an item of a block"))?;
            references += u32::from(matches!(item, Item::Reference { .. }));
            self.add(item, first);
        }
        let range = ItemRange {
            first: (self.shared_items + first) as u32,
            items: (self.own.items.len() - first) as u32,
            references,
        };
        let begins = self.shared.described.len() + self.own.described.len();
        self.own.described.extend_from_slice(described);
        Ok((range, begins as u32))
    }

    /// Appends an item. A fetch may join the fetch before it in the same block.
    fn add(&mut self, item: Item, first: usize) {
        if let (FetchRows::Run, Item::Fetch { addr, size, .. }) = (self.fetch, item)
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

    /// Returns the block of this number, if there is one.
    #[inline]
    pub(crate) fn block(&self, number: usize) -> Option<CodeBlock<'_>> {
        let range = self.range(number)?;
        let row_per_instruction = self.fetch == FetchRows::Instruction;
        Some(CodeBlock {
            items: self.items(range),
            references: range.references as usize,
            row_per_instruction,
        })
    }

    /// Adds the rows of a run that a signal cut short at the instruction at `struck`. The instructions before
    /// `struck` ran, and `struck` itself was fetched. No rows are added if the block has no such instruction:
    /// the signal came from outside.
    pub(crate) fn partial(&self, number: usize, struck: u64, noted: &[u64], rows: &mut Rows) {
        let Some((_, described)) = self.described(number) else { return };
        let is_struck = |word: &u64| matches!(item(*word), Some(Item::Fetch { addr, .. }) if addr == struck);
        let Some(end) = described.iter().position(is_struck) else { return };
        let mut noted = noted.iter();
        for item in described[..=end].iter().filter_map(|&word| item(word)) {
            match item {
                Item::Fetch { addr, size, .. } => {
                    rows.fetch(addr, size);
                    if self.fetch == FetchRows::Instruction {
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

/// A `CodeBlock` is a block that was described.
#[derive(Clone, Copy)]
pub(crate) struct CodeBlock<'a> {
    items: &'a [Item],
    /// The number of addresses that a run of the block brings.
    pub(crate) references: usize,
    /// True if each instruction is a row of its own.
    row_per_instruction: bool,
}

impl CodeBlock<'_> {
    /// Adds the rows of a run that brought these addresses.
    #[inline]
    pub(crate) fn run(self, addresses: &[u64], rows: &mut Rows) {
        let mut addresses = addresses.iter();
        for item in self.items {
            match *item {
                Item::Fetch { addr, last, size, count } => {
                    rows.fetch_run(addr, last, size, count);
                    if self.row_per_instruction {
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

/// Returns the item that a word of a description stands for; `None` if the word describes no item.
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

    /// An `Action` happens to one of the processes.
    #[derive(Clone, Debug)]
    enum Action {
        /// The process describes its next block.
        Describe(Vec<u64>),
        Fork,
        /// The process runs a block that it knows.
        Run(prop::sample::Index),
    }

    /// Draws few descriptions, so that each comes again and again.
    fn description() -> impl Strategy<Value = Vec<u64>> {
        let word = prop_oneof![
            (0u64..3).prop_map(|number| (0x1000 + 4 * number) | (4 << wire::ITEM_LENGTH)),
            (1u64..4).prop_map(|kind| 1 << wire::ITEM_REFERENCE | kind << wire::ITEM_KIND | 8),
        ];
        prop::collection::vec(word, 0..3)
    }

    fn action() -> impl Strategy<Value = Action> {
        prop_oneof![
            4 => description().prop_map(Action::Describe),
            1 => Just(Action::Fork),
            3 => any::<prop::sample::Index>().prop_map(Action::Run),
        ]
    }

    /// Returns the rows of a run by a slow model, which goes through the description word by word.
    fn plain(described: &[u64], addresses: &[u64], row_per_instruction: bool) -> Rows {
        let mut rows = Rows::with_capacity(8);
        let mut addresses = addresses.iter();
        for &word in described {
            match item(word).unwrap() {
                Item::Fetch { addr, size, .. } => {
                    rows.fetch(addr, size);
                    if row_per_instruction {
                        rows.end_run();
                    }
                }
                Item::Reference { op, size, .. } => rows.data(op, *addresses.next().unwrap(), size),
            }
        }
        rows
    }

    fn columns(mut rows: Rows) -> Vec<(u8, u64, u32, u32)> {
        rows.end_run();
        let all = rows.take(0);
        (0..all.len())
            .map(|row| (all.op()[row], all.addr()[row], all.size()[row], all.count()[row]))
            .collect()
    }

    proptest! {
        /// Whatever is shared, each process runs the blocks that it described, or that its parent knew.
        #[test]
        fn as_a_list_of_descriptions_for_each_process(
            actions in prop::collection::vec((any::<prop::sample::Index>(), action()), 0..120),
            row_per_instruction in any::<bool>(),
        ) {
            let fetch = if row_per_instruction { FetchRows::Instruction } else { FetchRows::Run };
            let mut processes = vec![(CodeBlocks::new(fetch), Vec::<Vec<u64>>::new())];
            for (who, action) in actions {
                let who = who.index(processes.len());
                let (blocks, known) = &mut processes[who];
                match action {
                    Action::Describe(words) => {
                        blocks.describe(known.len() as u64, &words).unwrap();
                        prop_assert!(blocks.describe(known.len() as u64, &words).is_err());
                        known.push(words);
                    }
                    Action::Fork => {
                        let child = (blocks.child(), known.clone());
                        processes.push(child);
                    }
                    Action::Run(number) => {
                        prop_assert!(blocks.block(known.len()).is_none());
                        if known.is_empty() {
                            continue;
                        }
                        let number = number.index(known.len());
                        let block = blocks.block(number).unwrap();
                        let addresses: Vec<u64> = (0..block.references as u64).map(|n| 0x9000 + 64 * n).collect();
                        let mut rows = Rows::with_capacity(8);
                        block.run(&addresses, &mut rows);
                        prop_assert_eq!(columns(rows), columns(plain(&known[number], &addresses, row_per_instruction)));
                    }
                }
            }
        }
    }

    /// Code that is translated again takes no further memory, and neither does a child that describes nothing
    /// new.
    #[test]
    fn each_description_is_kept_once() {
        let described = |number: u64| [(0x1000 + 16 * number) | (4 << wire::ITEM_LENGTH)];
        let mut parent = CodeBlocks::new(FetchRows::Run);
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
        // A child copies a few blocks that are not shared; many blocks are shared with it.
        parent.describe(100, &described(50)).unwrap();
        assert_eq!(parent.child().own.ranges.len(), 1);
        (101..110).for_each(|number| parent.describe(number, &described(50)).unwrap());
        let next = parent.child();
        assert_eq!((next.own.ranges.len(), next.len(), child.shared.ranges.len()), (0, 110, 100));
    }
}
