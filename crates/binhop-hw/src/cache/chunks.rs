//! `Chunks` allocates the sets of a cache in chunks, each chunk when a line first comes to one of its sets.

/// `Chunks` holds the same number of sets, a power of two, in each chunk. `C` is what a chunk keeps of its sets.
/// Within a chunk, sets have numbers from 0.
#[derive(Clone, Debug)]
pub(crate) struct Chunks<C> {
    chunks: Box<[Option<Box<C>>]>,
    sets_log2: u32,
}

impl<C> Chunks<C> {
    /// Makes `chunks` chunks of 2^`sets_log2` sets. No chunk is allocated.
    pub(crate) fn new(chunks: usize, sets_log2: u32) -> Self {
        Self { chunks: (0..chunks).map(|_| None).collect(), sets_log2 }
    }

    /// Returns the number of sets in a chunk.
    pub(crate) fn sets(&self) -> usize {
        1 << self.sets_log2
    }

    #[inline(always)]
    fn split(&self, set: usize) -> (usize, usize) {
        (set >> self.sets_log2, set & (self.sets() - 1))
    }

    /// Returns the chunk of a set, and the number of the set in it; `None` if the chunk is not allocated.
    #[inline(always)]
    pub(crate) fn get(&self, set: usize) -> Option<(&C, usize)> {
        let (chunk, within) = self.split(set);
        Some((self.chunks[chunk].as_deref()?, within))
    }

    /// Returns what [`Chunks::get`] returns, to be changed.
    #[inline(always)]
    pub(crate) fn get_mut(&mut self, set: usize) -> Option<(&mut C, usize)> {
        let (chunk, within) = self.split(set);
        Some((self.chunks[chunk].as_deref_mut()?, within))
    }

    /// Returns the chunk of a set, and the number of the set in it. If the chunk is not allocated, `make` makes it from
    /// the number of its first set.
    #[inline(always)]
    pub(crate) fn get_or_make(&mut self, set: usize, make: impl FnOnce(usize) -> C) -> (&mut C, usize) {
        let (chunk, within) = self.split(set);
        let first = chunk << self.sets_log2;
        (self.chunks[chunk].get_or_insert_with(|| Box::new(make(first))), within)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_is_made_once_and_knows_its_first_set() {
        let mut chunks: Chunks<Vec<usize>> = Chunks::new(4, 3);
        assert!(chunks.get(17).is_none() && chunks.get_mut(17).is_none());
        let (made, within) = chunks.get_or_make(17, |first| vec![first]);
        assert_eq!((&*made, within), (&vec![16], 1));
        made.push(5);
        let (again, within) = chunks.get_or_make(23, |_| unreachable!("the chunk is there"));
        assert_eq!((&*again, within), (&vec![16, 5], 7));
        assert!(chunks.get(15).is_none() && chunks.get(24).is_none());
        assert_eq!(chunks.sets(), 8);
    }
}
