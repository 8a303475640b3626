//! `PageArray` is the array of entries of one TLB or one walk cache: slots, an index from pages to slots, and the state
//! of the replacement.
//!
//! The index is a hash table of chains through the slots. It is exact, so that a miss is known without a look at the
//! other slots, and a hit needs no set. LRU and FIFO keep a time for each slot ([`UseTimes`]): a hit is one store, and
//! only a victim needs a scan, which also finds the lowest empty slot, because the time of an empty slot is 0. Where
//! all slots are one set, a tournament finds the victim ([`OldestSlots`]).
//!
//! The caller may know later uses of entries ([`LastUses`]). Then a time in the array is not later than the last use.
//! The slot with the least of these times is the victim if the caller knows of no later use. Otherwise the slot gets a
//! later time, and the search is repeated.

use core::ops::Range;

use binhop_base::{Domain, Rng, Stream};

use super::oldest::OldestSlots;
use super::page::{PageKey, TlbPage};
use super::use_times::{LastUses, UseTimes, UsesOf};
use crate::choice::TlbReplacement;
use crate::replacement::{ArrayShape, Plru, Policy};

/// `ArraySize` is the form of an array.
#[derive(Clone, Copy, Debug)]
pub(super) struct ArraySize {
    pub(super) entries: u32,
    pub(super) ways: u32,
    pub(super) wired: u32,
}

/// `Put` says what [`PageArray::put`] did.
#[derive(Clone, Copy, Debug)]
pub(super) struct Put {
    pub(super) slot: usize,
    /// The page was there before.
    pub(super) was_present: bool,
    /// Another page has left the slot.
    pub(super) evicted: bool,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    key: PageKey,
    /// The next slot of the chain, or [`END`].
    next: u32,
}

/// The end of a chain. No array has so many slots.
const END: u32 = u32::MAX;

/// The search for the least time looks at so many times at once. A block of fixed length becomes vector instructions,
/// and signed numbers take fewer instructions than unsigned numbers.
const BLOCK: usize = 16;

/// So few slots are searched without a tournament.
const FEW: usize = 4;

/// `OnHit` says what a hit changes.
#[derive(Clone, Copy, Debug)]
enum OnHit {
    Nothing,
    Time,
    Tree,
}

/// `Chooser` is the rule that chooses a victim.
#[derive(Clone, Debug)]
enum Chooser {
    LeastTime,
    Random(Draws),
    /// The trees, and the logarithm of the ways.
    Plru(Plru, u32),
}

/// `Draws` makes the random victims of each group of slots. The draw for the next victim is made when the previous
/// victim is taken, because a draw takes longer than the rest of a fill and nothing waits for a draw made ahead.
#[derive(Clone, Debug)]
struct Draws {
    /// The number of the TLB, in the upper bits of the stream number.
    stream: u64,
    /// For each group, the number of victims drawn, and the next victim.
    groups: Vec<(u64, u32)>,
}

impl Draws {
    fn draw(&self, group: usize, slots: u64) -> u32 {
        let stream = Stream::new(Domain::TlbVictim, self.stream | group as u64);
        Rng::new(0).below(stream, self.groups[group].0, slots) as u32
    }

    fn victim(&mut self, group: usize, slots: usize) -> usize {
        let victim = self.groups[group].1;
        self.groups[group].0 += 1;
        self.groups[group].1 = self.draw(group, slots as u64);
        victim as usize
    }
}

#[derive(Clone, Debug)]
pub(super) struct PageArray {
    slots: Vec<Slot>,
    /// The first slot of each chain.
    heads: Vec<u32>,
    /// The bits of a hash that are not used.
    hash_shift: u32,
    /// The place of the first slot's time.
    times: usize,
    /// For each group, the number of slots that are not empty. The groups are the sets, and behind them the wired
    /// slots.
    held: Vec<u32>,
    wired: usize,
    ways: usize,
    sets: u64,
    on_hit: OnHit,
    chooser: Chooser,
    oldest: OldestSlots,
}

impl PageArray {
    /// Makes an empty array, and adds the times of its slots to `times`. `number` tells the draws of several arrays
    /// apart.
    pub(super) fn new(
        size: ArraySize,
        replacement: TlbReplacement,
        number: usize,
        times: &mut UseTimes,
    ) -> Self {
        let (entries, wired) = (size.entries as usize, size.wired as usize);
        let sets = entries / size.ways as usize;
        let ways = if wired > 0 { entries - wired } else { size.ways as usize };
        let heads = (4 * entries).next_power_of_two();
        let chooser = match replacement {
            TlbReplacement::Lru | TlbReplacement::Fifo => Chooser::LeastTime,
            TlbReplacement::Random => {
                let mut draws = Draws { stream: (number as u64) << 48, groups: vec![(0, 0); sets + 1] };
                for group in 0..=sets {
                    let slots = if group == sets { wired } else { ways };
                    draws.groups[group].1 = if slots > 0 { draws.draw(group, slots as u64) } else { 0 };
                }
                Chooser::Random(draws)
            }
            TlbReplacement::Plru => {
                let shape = ArrayShape { ways, sets, first: 0, cache: number, rng: Rng::new(0) };
                Chooser::Plru(Plru::new(&shape), ways.ilog2())
            }
        };
        Self {
            slots: vec![Slot { key: PageKey::EMPTY, next: END }; entries],
            heads: vec![END; heads],
            hash_shift: 64 - heads.ilog2(),
            times: times.add(entries),
            held: vec![0; sets + 1],
            wired,
            ways,
            sets: sets as u64,
            on_hit: match replacement {
                TlbReplacement::Lru => OnHit::Time,
                TlbReplacement::Fifo | TlbReplacement::Random => OnHit::Nothing,
                TlbReplacement::Plru => OnHit::Tree,
            },
            chooser,
            oldest: OldestSlots::new(),
        }
    }

    #[inline(always)]
    fn bucket(&self, key: PageKey) -> usize {
        (key.hash() >> self.hash_shift) as usize
    }

    /// Returns the slot of a page, and changes nothing.
    #[inline(always)]
    pub(super) fn find(&self, key: PageKey) -> Option<usize> {
        let mut at = self.heads[self.bucket(key)];
        // `END` is the number of no slot.
        while let Some(slot) = self.slots.get(at as usize) {
            if slot.key == key {
                return Some(at as usize);
            }
            at = slot.next;
        }
        None
    }

    /// Notes a use of the entry in a slot.
    #[inline(always)]
    pub(super) fn touch(&mut self, slot: usize, times: &mut UseTimes) {
        match self.on_hit {
            OnHit::Nothing => {}
            OnHit::Time => times.stamp(self.times + slot),
            OnHit::Tree => self.point_away(slot),
        }
    }

    /// Returns the number of a slot among the slots of all arrays.
    #[inline]
    pub(super) fn number_of(&self, slot: usize) -> u32 {
        (self.times + slot) as u32
    }

    /// Returns whether a use changes at most a time.
    pub(super) fn uses_are_times(&self) -> bool {
        !matches!(self.on_hit, OnHit::Tree)
    }

    /// Brings the times of all slots up to date, if a use changes a time.
    pub(super) fn update_times(&self, times: &mut UseTimes, uses: &impl LastUses) {
        if matches!(self.on_hit, OnHit::Time) {
            let first = self.number_of(0);
            UsesOf { uses, first }.update_all(times.of(self.times..self.times + self.slots.len()));
        }
    }

    fn point_away(&mut self, slot: usize) {
        if let Chooser::Plru(trees, ways_log2) = &mut self.chooser {
            trees.hit::<()>(&mut [], slot >> *ways_log2, slot & ((1 << *ways_log2) - 1));
        }
    }

    /// Puts a page into a slot of its set, or into a wired slot if there are wired slots and the fill is wired.
    pub(super) fn put(
        &mut self,
        key: PageKey,
        wired: bool,
        times: &mut UseTimes,
        uses: &impl LastUses,
    ) -> Put {
        if let Some(slot) = self.find(key) {
            self.touch(slot, times);
            return Put { slot, was_present: true, evicted: false };
        }
        self.insert(key, wired, times, uses)
    }

    /// Does what [`PageArray::put`] does, for a page that is not there.
    pub(super) fn insert(
        &mut self,
        key: PageKey,
        wired: bool,
        times: &mut UseTimes,
        uses: &impl LastUses,
    ) -> Put {
        debug_assert!(self.find(key).is_none());
        let group = if wired && self.wired > 0 { self.sets as usize } else { self.set_of(key.number()) };
        let slots = self.slots_of(group);
        let evicted = self.held[group] as usize == slots.len();
        let slot = slots.start
            + match &mut self.chooser {
                Chooser::Random(draws) if evicted => draws.victim(group, slots.len()),
                Chooser::Plru(trees, _) if evicted => trees.victim::<()>(&[], group),
                _ => {
                    let uses = UsesOf { uses, first: (self.times + slots.start) as u32 };
                    let times = times.of(self.times + slots.start..self.times + slots.end);
                    let notes_hits = matches!(self.on_hit, OnHit::Time);
                    if !evicted {
                        position_of_least(times)
                    } else if self.sets > 1 || group > 0 || slots.len() <= FEW {
                        least_used(times, &uses, notes_hits)
                    } else if notes_hits {
                        self.oldest.take(times, &uses)
                    } else {
                        self.oldest.take(times, &UsesOf { uses: &(), first: 0 })
                    }
                }
            };
        if evicted {
            self.unlink(slot);
        } else {
            self.held[group] += 1;
        }
        let bucket = self.bucket(key);
        self.slots[slot] = Slot { key, next: self.heads[bucket] };
        self.heads[bucket] = slot as u32;
        times.stamp(self.times + slot);
        self.point_away(slot);
        Put { slot, was_present: false, evicted }
    }

    /// Empties a slot that is not empty.
    pub(super) fn remove(&mut self, slot: usize, times: &mut UseTimes) {
        self.unlink(slot);
        self.slots[slot] = Slot { key: PageKey::EMPTY, next: END };
        times.empty(self.times + slot);
        self.oldest.forget();
        let group = if slot < self.wired { self.sets as usize } else { (slot - self.wired) / self.ways };
        self.held[group] -= 1;
    }

    /// Returns every slot, wired slots first, with its page.
    pub(super) fn contents(&self) -> impl Iterator<Item = Option<TlbPage>> {
        self.slots.iter().map(|slot| (slot.key != PageKey::EMPTY).then(|| slot.key.page()))
    }

    /// Returns the page in a slot.
    pub(super) fn page_at(&self, slot: usize) -> Option<TlbPage> {
        let key = self.slots[slot].key;
        (key != PageKey::EMPTY).then(|| key.page())
    }

    pub(super) fn entries(&self) -> usize {
        self.slots.len()
    }

    pub(super) fn is_wired(&self, slot: usize) -> bool {
        slot < self.wired
    }

    /// Returns the bytes that the array takes.
    pub(super) fn bytes(&self) -> usize {
        let lists = size_of_val(&*self.slots) + size_of_val(&*self.heads) + size_of_val(&*self.held);
        lists + self.oldest.bytes(self.slots.len())
    }

    fn set_of(&self, number: u64) -> usize {
        let set = if self.sets.is_power_of_two() { number & (self.sets - 1) } else { number % self.sets };
        set as usize
    }

    fn slots_of(&self, group: usize) -> Range<usize> {
        if group as u64 == self.sets {
            return 0..self.wired;
        }
        let start = self.wired + group * self.ways;
        start..start + self.ways
    }

    /// Takes a slot out of its chain.
    fn unlink(&mut self, slot: usize) {
        let Slot { key, next } = self.slots[slot];
        let bucket = self.bucket(key);
        if self.heads[bucket] == slot as u32 {
            self.heads[bucket] = next;
            return;
        }
        let mut before = self.heads[bucket] as usize;
        while self.slots[before].next != slot as u32 {
            before = self.slots[before].next as usize;
        }
        self.slots[before].next = next;
    }
}

/// Returns the position of the slot that was used least recently. `notes_hits` says whether uses matter.
#[inline]
fn least_used<U: LastUses>(times: &mut [i64], uses: &UsesOf<'_, U>, notes_hits: bool) -> usize {
    loop {
        let position = position_of_least(times);
        if !notes_hits || !uses.update(times, position) {
            return position;
        }
    }
}

/// Returns the first position of the least time.
#[inline]
fn position_of_least(times: &[i64]) -> usize {
    if times.len() <= BLOCK {
        let first = (0, *times.first().expect("a set has slots"));
        let earlier = |least: (usize, i64), (at, &time)| if time < least.1 { (at, time) } else { least };
        return times.iter().enumerate().fold(first, earlier).0;
    }
    let (blocks, rest) = times.as_chunks::<BLOCK>();
    let mut lanes = [i64::MAX; BLOCK];
    for block in blocks {
        for (lane, &time) in lanes.iter_mut().zip(block) {
            *lane = time.min(*lane);
        }
    }
    let least = lanes.iter().chain(rest).fold(i64::MAX, |least, &time| time.min(least));
    let has_least = |block: &[i64; BLOCK]| block.iter().fold(false, |found, &time| found | (time == least));
    let start = BLOCK * blocks.iter().position(has_least).unwrap_or(blocks.len());
    start + times[start..].iter().position(|&time| time == least).expect("the least time is there")
}

/// Removes the entries for which `leaves` holds, and returns their number.
pub(super) fn remove_where(
    array: &mut PageArray,
    times: &mut UseTimes,
    leaves: impl Fn(bool, TlbPage) -> bool,
) -> u64 {
    let mut removed = 0;
    for slot in 0..array.entries() {
        if array.page_at(slot).is_some_and(|page| leaves(array.is_wired(slot), page)) {
            array.remove(slot, times);
            removed += 1;
        }
    }
    removed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_the_least_times_is_found() {
        for length in 1..70 {
            let mut times: Vec<i64> = (0..length).map(|at| 7 + at * 31 % 17).collect();
            let expected = (0..times.len()).min_by_key(|&at| times[at]).unwrap();
            assert_eq!(position_of_least(&times), expected, "{times:?}");
            times[length as usize / 2] = 0;
            assert_eq!(position_of_least(&times), length as usize / 2);
        }
    }
}
