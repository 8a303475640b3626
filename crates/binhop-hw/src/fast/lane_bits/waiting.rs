//! `WaitingAccesses` holds accesses by bucket until they are simulated together.

use binhop_base::{Kind, PageId};

use super::{
    BitsAccess, By,
    after_marks::{MOST_MARKS, Part},
    bucket::{BucketOf, MOST_BUCKETS},
};
use crate::cache::prefetch::prefetch;

/// The number of accesses of a block.
pub(super) const BLOCK: usize = 64;

/// The number of places by which the processor is told ahead of the next accesses of a bucket: so many buckets take
/// turns that the processor does not expect them.
const AHEAD: usize = 16;

/// The bits of a packed access that hold its page and what its bucket does not tell of its line. On `kh90`, accesses of
/// pages from number 2^24 on do not wait. With one bucket, as behind a hashed index, the limit is 2^20 pages if a page
/// has 64 lines. Tests make accesses of few pages, so some of their pages are too large earlier.
const LINE_BITS: u32 = if cfg!(debug_assertions) { 7 } else { u32::BITS - OTHER_BITS };
/// The bits of a packed access that hold everything else.
const OTHER_BITS: u32 = 6;

const AGENTS: [By; 3] = [By::User, By::UserAfterWalk, By::Agent];
const _: () = assert!(Kind::ALL.len() <= 8 && AGENTS.len() <= 4, "a kind has 3 bits, and an agent has 2");

/// `WaitingAccesses` holds accesses by bucket until they are simulated together. Each bucket has a chain of blocks, so
/// that the buckets take little more room than their accesses, however the accesses are divided among them. An access
/// takes 4 B: the more accesses wait together, the more accesses share what the processor's caches hold of a bucket.
#[derive(Clone, Debug)]
pub(super) struct WaitingAccesses {
    bucket: BucketOf,
    /// For fetches, and for data.
    lines: [PackedLines; 2],
    chains: Vec<BlockChain>,
    /// The accesses of all blocks.
    room: Vec<u32>,
    /// For each block in use, the block that follows in its chain.
    next: Vec<u32>,
    /// For each mark passed while accesses wait, and for each bucket, the end of its chain at the mark.
    ends: Vec<u32>,
    /// The part of the stream in which the accesses begin.
    first_part: Part,
    accesses: usize,
    /// The most accesses that wait.
    most: usize,
}

/// `PackedLines` packs a line of a page without the bits that choose its bucket.
#[derive(Clone, Copy, Debug)]
struct PackedLines {
    /// The logarithm of the bytes of a line.
    line_log2: u32,
    /// The bits of a line's number below the bits of its bucket.
    lower: u32,
    /// The number of the bits of its bucket.
    of_bucket: u32,
    /// The number of bits of a line's number that are packed.
    packed: u32,
    /// The number of pages whose lines can be packed.
    pages: usize,
}

impl PackedLines {
    fn new(bucket: BucketOf, page_log2: u32, line_log2: u32) -> Self {
        let (lower, of_bucket) = (bucket.lower(line_log2), bucket.buckets().ilog2());
        let packed = (page_log2 - line_log2).saturating_sub(of_bucket);
        let pages = LINE_BITS.checked_sub(packed).map_or(0, |of_page| 1 << of_page);
        Self { line_log2, lower, of_bucket, packed, pages }
    }

    /// Returns a page and a line of it as one number.
    #[inline(always)]
    fn pack(self, page: PageId, line: u32) -> u32 {
        let low = line & ((1 << self.lower) - 1);
        page.0 << self.packed | line >> (self.lower + self.of_bucket) << self.lower | low
    }

    /// Returns the page and the line that were packed, of this bucket.
    #[inline(always)]
    fn unpack(self, packed: u32, bucket: u32) -> (PageId, u32) {
        let of_line = packed & ((1 << self.packed) - 1);
        let low = of_line & ((1 << self.lower) - 1);
        (
            PageId(packed >> self.packed),
            (of_line >> self.lower << self.of_bucket | bucket) << self.lower | low,
        )
    }
}

/// `BlockChain` says where the accesses of a bucket lie.
#[derive(Clone, Copy, Debug, Default)]
struct BlockChain {
    first: u32,
    /// The place of the next access. If the place begins a block, the chain needs a further block.
    end: u32,
}

impl WaitingAccesses {
    /// Makes an empty list, for pages and lines whose bytes have these logarithms. Fetches and data may have lines of
    /// different sizes.
    pub(super) fn new(bucket: BucketOf, page_log2: u32, line_logs: [u32; 2]) -> Self {
        let chains = vec![BlockChain::default(); bucket.buckets()];
        let lines = line_logs.map(|line_log2| PackedLines::new(bucket, page_log2, line_log2));
        Self {
            bucket,
            lines,
            chains,
            room: Vec::new(),
            next: Vec::new(),
            ends: Vec::new(),
            first_part: 0,
            accesses: 0,
            most: usize::MAX,
        }
    }

    /// Returns the number of accesses.
    pub(super) fn len(&self) -> usize {
        self.accesses
    }

    /// Makes room for the most accesses that may wait.
    pub(super) fn make_room(&mut self, most: usize) {
        self.most = most;
        self.room.reserve_exact(most + self.chains.len() * BLOCK);
    }

    /// Returns whether no further access may wait.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.accesses >= self.most
    }

    /// Returns the bytes that so many accesses take at most.
    pub(super) fn bytes(accesses: usize) -> usize {
        let places = accesses + MOST_BUCKETS * BLOCK;
        // The list of blocks doubles its room.
        (places + 2 * places / BLOCK + MOST_MARKS * MOST_BUCKETS) * size_of::<u32>()
    }

    #[inline(always)]
    fn lines_of(&self, kind: Kind) -> PackedLines {
        self.lines[usize::from(kind != Kind::Fetch)]
    }

    /// Returns whether an access may wait: the number of its page is small enough.
    #[inline(always)]
    pub(super) fn takes(&self, access: BitsAccess) -> bool {
        access.page.index() < self.lines_of(access.kind).pages
    }

    /// Adds an access that may wait.
    #[inline]
    pub(super) fn push(&mut self, access: BitsAccess) {
        debug_assert!(self.takes(access));
        let BitsAccess { page, line, kind, by, is_part } = access;
        let lines = self.lines_of(kind);
        let bucket = self.bucket.of(line, lines.line_log2);
        if (self.chains[bucket].end as usize).is_multiple_of(BLOCK) {
            self.add_block(bucket);
        }
        let other = kind as u32 | (by as u32) << 3 | u32::from(is_part) << 5;
        let end = &mut self.chains[bucket].end;
        self.room[*end as usize] = lines.pack(page, line) << OTHER_BITS | other;
        if let Some(later) = self.room.get(*end as usize + AHEAD) {
            prefetch(later);
        }
        *end += 1;
        self.accesses += 1;
    }

    /// Passes a mark: the next accesses belong to a further part of the stream.
    pub(super) fn pass_mark(&mut self) {
        if self.accesses == 0 {
            self.first_part += 1;
        } else {
            self.ends.reserve_exact(MOST_MARKS * self.chains.len() - self.ends.len());
            self.ends.extend(self.chains.iter().map(|chain| chain.end));
        }
    }

    /// Forgets the marks. No access waits.
    pub(super) fn forget_marks(&mut self) {
        debug_assert_eq!(self.accesses, 0, "the accesses before a mark are made before its counts are read");
        self.first_part = 0;
    }

    /// Returns the part of the stream to which the next accesses belong.
    pub(super) fn part(&self) -> Part {
        self.first_part + (self.ends.len() / self.chains.len()) as Part
    }

    #[cold]
    fn add_block(&mut self, bucket: usize) {
        let (block, chain) = (self.next.len(), &mut self.chains[bucket]);
        if chain.end == 0 {
            chain.first = block as u32;
        } else {
            self.next[chain.end as usize / BLOCK - 1] = block as u32;
        }
        chain.end = (block * BLOCK) as u32;
        self.next.push(0);
        if self.room.len() == block * BLOCK {
            self.room.resize((block + 1) * BLOCK, 0);
        }
    }

    #[inline(always)]
    fn unpack(&self, access: u32, bucket: usize) -> BitsAccess {
        let kind = Kind::ALL[(access & 7) as usize % Kind::ALL.len()];
        let (page, line) = self.lines_of(kind).unpack(access >> OTHER_BITS, bucket as u32);
        let by = AGENTS[(access >> 3 & 3) as usize % AGENTS.len()];
        BitsAccess { page, line, kind, by, is_part: access >> 5 & 1 == 1 }
    }

    /// Calls `visit` with the accesses and their part of the stream, bucket by bucket, and in order within a bucket.
    /// Removes them.
    #[inline]
    pub(super) fn take_all(&mut self, mut visit: impl FnMut(Part, &[BitsAccess])) {
        let nothing =
            BitsAccess { page: PageId(0), line: 0, kind: Kind::Fetch, by: By::User, is_part: false };
        let mut accesses = [nothing; BLOCK];
        let buckets = self.chains.len();
        for bucket in 0..buckets {
            let BlockChain { first, end } = std::mem::take(&mut self.chains[bucket]);
            if end == 0 {
                continue;
            }
            let ends = self.ends.iter().skip(bucket).step_by(buckets).copied();
            // The place of the next access.
            let start = first as usize * BLOCK;
            let mut at = start;
            for (part, end) in (self.first_part..).zip(ends.chain([end])) {
                let end = end as usize;
                // A chain that had no block at a mark has the end 0 there.
                while end != 0 && at != end {
                    if at != start && at.is_multiple_of(BLOCK) {
                        at = self.next[at / BLOCK - 1] as usize * BLOCK;
                    }
                    let of_block = (at / BLOCK + 1) * BLOCK;
                    let until = if (end - 1) / BLOCK == at / BLOCK { end } else { of_block };
                    let packed = &self.room[at..until];
                    for (access, &packed) in accesses.iter_mut().zip(packed) {
                        *access = self.unpack(packed, bucket);
                    }
                    visit(part, &accesses[..packed.len()]);
                    at = until;
                }
            }
        }
        self.first_part = self.part();
        self.ends.clear();
        self.next.clear();
        self.accesses = 0;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The logarithms of the bytes of a page and of a line of instructions. A line of data is half as long.
    const LOGS: [u32; 2] = [12, 6];
    /// The pages whose lines of data can be packed: 3 of the 7 bits of a line's number choose the bucket.
    const PAGES: u32 = 1 << (LINE_BITS - 4);

    proptest! {
        #[test]
        fn accesses_leave_by_bucket_and_in_order(
            rounds in prop::collection::vec(
                prop::collection::vec((0..PAGES, 0..64_u32, 0..Kind::ALL.len(), 0..3_usize, any::<bool>()), 0..600),
                1..4,
            ),
            // The accesses of a round before which a mark stands.
            marks in prop::collection::vec(0..600_usize, MOST_MARKS),
            shift in 6..10_u32,
        ) {
            let bucket = BucketOf::of_bits(shift, 3);
            let mut waiting = WaitingAccesses::new(bucket, LOGS[0], [LOGS[1], LOGS[1] - 1]);
            let mut part = 0;
            for (round, accesses) in rounds.iter().enumerate() {
                let access = |&(page, line, kind, by, is_part): &(u32, u32, usize, usize, bool)| {
                    let kind = Kind::ALL[kind];
                    let line = if kind == Kind::Fetch { line } else { 2 * line + u32::from(is_part) };
                    BitsAccess { page: PageId(page), line, kind, by: AGENTS[by], is_part }
                };
                let accesses: Vec<BitsAccess> = accesses.iter().map(access).collect();
                let mut expected = Vec::new();
                for (at, &access) in accesses.iter().enumerate() {
                    // Each mark stands in one round. Some marks stand before the first access of a round.
                    for _ in marks.iter().enumerate().filter(|&(mark, &before)| mark % 3 == round && before / 2 == at) {
                        part += 1;
                        waiting.pass_mark();
                    }
                    waiting.push(access);
                    expected.push((part, access));
                }
                prop_assert_eq!((waiting.len(), waiting.part()), (accesses.len(), part));
                expected.sort_by_key(|(_, access)| bucket.of(access.line, if access.kind == Kind::Fetch { 6 } else { 5 }));
                let mut left = Vec::new();
                waiting.take_all(|part, accesses| left.extend(accesses.iter().map(|&access| (part, access))));
                prop_assert_eq!(left, expected);
                prop_assert_eq!((waiting.len(), waiting.part()), (0, part));
            }
            waiting.forget_marks();
            prop_assert_eq!(waiting.part(), 0);
        }
    }

    #[test]
    fn lines_of_pages_with_large_numbers_do_not_wait() {
        let waiting = WaitingAccesses::new(BucketOf::of_bits(7, 3), LOGS[0], [LOGS[1], LOGS[1] - 1]);
        let takes = |page, kind| {
            waiting.takes(BitsAccess { page: PageId(page), line: 0, kind, by: By::User, is_part: false })
        };
        assert!(takes(PAGES - 1, Kind::Load) && !takes(PAGES, Kind::Load));
        // A line of instructions has a bit less.
        assert!(takes(2 * PAGES - 1, Kind::Fetch) && !takes(2 * PAGES, Kind::Fetch));
        assert!(!takes(u32::MAX, Kind::Store));
    }
}
