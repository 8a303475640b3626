//! `WaitingAccesses` holds accesses by bucket until they are simulated together.

use binhop_base::{Kind, PageId};

use super::{
    BitsAccess, By,
    bucket::{BucketOf, MOST_BUCKETS},
};
use crate::cache::prefetch::prefetch;

/// The number of accesses of a block.
const BLOCK: usize = 64;

/// The number of places by which the processor is told ahead of the next accesses of a bucket: so many buckets take
/// turns that the processor does not expect them.
const AHEAD: usize = 8;

/// The access of a place that no access has taken.
const NO_ACCESS: BitsAccess =
    BitsAccess { page: PageId(0), line: 0, kind: Kind::Fetch, by: By::User, is_part: false };

/// `WaitingAccesses` holds accesses by bucket until they are simulated together. Each bucket has a chain of blocks, so
/// that the buckets take little more room than their accesses, however the accesses are divided among them.
#[derive(Clone, Debug)]
pub(super) struct WaitingAccesses {
    bucket: BucketOf,
    /// The logarithms of the bytes of a line, for fetches and for data.
    line_logs: [u32; 2],
    chains: Vec<BlockChain>,
    /// The accesses of all blocks.
    room: Vec<BitsAccess>,
    /// For each block in use, the block that follows in its chain.
    next: Vec<u32>,
    accesses: usize,
    /// The most accesses that wait.
    most: usize,
}

/// `BlockChain` says where the accesses of a bucket lie.
#[derive(Clone, Copy, Debug, Default)]
struct BlockChain {
    first: u32,
    /// The place of the next access. If the place begins a block, the chain needs a further block.
    end: u32,
}

impl WaitingAccesses {
    pub(super) fn new(bucket: BucketOf, line_logs: [u32; 2]) -> Self {
        let chains = vec![BlockChain::default(); bucket.buckets()];
        Self { bucket, line_logs, chains, room: Vec::new(), next: Vec::new(), accesses: 0, most: usize::MAX }
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
        (accesses + MOST_BUCKETS * BLOCK) * size_of::<BitsAccess>()
    }

    /// Adds an access.
    #[inline]
    pub(super) fn push(&mut self, access: BitsAccess) {
        let line_log2 = self.line_logs[usize::from(access.kind != Kind::Fetch)];
        let bucket = self.bucket.of(access.line, line_log2);
        if (self.chains[bucket].end as usize).is_multiple_of(BLOCK) {
            self.add_block(bucket);
        }
        let end = &mut self.chains[bucket].end;
        self.room[*end as usize] = access;
        if let Some(later) = self.room.get(*end as usize + AHEAD) {
            prefetch(later);
        }
        *end += 1;
        self.accesses += 1;
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
            self.room.resize((block + 1) * BLOCK, NO_ACCESS);
        }
    }

    /// Calls `visit` with the accesses, bucket by bucket, and in order within a bucket. Removes them.
    #[inline]
    pub(super) fn take_all(&mut self, mut visit: impl FnMut(&[BitsAccess])) {
        for chain in &mut self.chains {
            let (mut block, end) = (chain.first as usize, chain.end as usize);
            *chain = BlockChain::default();
            if end == 0 {
                continue;
            }
            while block != (end - 1) / BLOCK {
                visit(&self.room[block * BLOCK..][..BLOCK]);
                block = self.next[block] as usize;
            }
            visit(&self.room[block * BLOCK..end]);
        }
        self.next.clear();
        self.accesses = 0;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn accesses_leave_by_bucket_and_in_order(
            rounds in prop::collection::vec(prop::collection::vec((0..64_u32, any::<bool>()), 0..600), 1..4),
        ) {
            // A line of data is half as long as a line of instructions.
            let bucket = BucketOf::of_bits(7, 3);
            let mut waiting = WaitingAccesses::new(bucket, [6, 5]);
            for lines in rounds {
                let accesses: Vec<BitsAccess> = lines
                    .iter()
                    .zip(0..)
                    .map(|(&(line, is_data), number)| {
                        let kind = if is_data { Kind::Load } else { Kind::Fetch };
                        BitsAccess { page: PageId(number), line, kind, ..NO_ACCESS }
                    })
                    .collect();
                accesses.iter().for_each(|&access| waiting.push(access));
                prop_assert_eq!(waiting.len(), accesses.len());
                let mut expected = accesses;
                expected.sort_by_key(|access| bucket.of(access.line, if access.kind == Kind::Fetch { 6 } else { 5 }));
                let mut left = Vec::new();
                waiting.take_all(|accesses| left.extend_from_slice(accesses));
                let named = |accesses: &[BitsAccess]| accesses.iter().map(|access| access.page.0).collect::<Vec<_>>();
                prop_assert_eq!(named(&left), named(&expected));
                prop_assert_eq!(waiting.len(), 0);
            }
        }
    }
}
