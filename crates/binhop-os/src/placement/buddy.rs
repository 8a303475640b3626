//! `buddy` hands out frames as Linux does (mm/page_alloc.c), which ignores caches.
//!
//! # Rules
//! - Free frames form blocks of 2^0 to 2^10 frames. A block is aligned to its size, and each order has a list
//!   of blocks. A page needs a single frame (order 0). The allocator takes the smallest block from the front
//!   of its list, and halves it until the lowest frame is alone. The upper halves go to the front of their
//!   lists.
//! - The processor has a list in front of the blocks. When this list is empty, it takes 63 frames at once,
//!   and hands them out in the order in which they came. The frame of a page that dies goes to the front of
//!   the list. When the list holds 378 frames, the 63 frames that were freed longest ago leave it.
//! - A frame that leaves the processor's list joins its buddy, which is the other half of the block of the
//!   next order, if the buddy is free as a whole. The joined block joins its own buddy by the same rule. The
//!   final block goes to the front of its list.
//! - When no frame is free, the page that was referenced longest ago in all memory is evicted, and its frame
//!   is reused.
//! - A wired page takes the next frame, as any page does, and is never evicted.
//! - A huge page takes a run of 2^n frames (order n, at most 10) from the smallest block that holds it; the rest of
//!   the block goes back by halves. The processor's list has single frames only. If no block is large enough, the
//!   page takes a single frame (a fallback). [`RunPlace`](crate::RunPlace) has the rules of runs.
//! - When no frame is free, neither in blocks nor in the processor's list nor with old pages of other programs, the
//!   run taken longest ago among those with frames that no page uses is split, and these frames are free. A page is
//!   evicted only when there is no such run. Linux splits huge pages that are not fully used when memory is scarce
//!   (mm/huge_memory.c, `deferred_split_scan`).
//!
//! # The start
//! Without `fragmentation` all of memory is free, in the largest possible blocks, the lowest block first, as
//! after boot. Then nothing is random. `fragmentation` makes a memory after long use. It is the percentage of
//! frames, drawn by the seed, that hold pages of other programs which nobody references. The other frames
//! were freed one by one in random order, so their blocks depend on the frames between them. The old pages
//! leave before any other page, in random order, each when a frame is needed and none is free. At 100 % every
//! frame is random.
//!
//! # Not modelled
//! - There is one zone, one node, one kind of page (no migrate types) and one processor.
//! - There are no watermarks, so nothing is reclaimed ahead of need or in batches.
//! - The limits of the processor's list are the untuned limits of a zone of 1 GiB or more, in pages of 4 KiB,
//!   before Linux 5.14.
//! - There is no compaction: where no block of the order is free, a huge page falls back at once.
//! - Replacement is exact LRU, without generations and reference bits.
//! - A block always goes to the front of its list. Linux puts a block at the end if the buddy of its buddy is
//!   free.

use alloc::{boxed::Box, collections::VecDeque, vec, vec::Vec};

use binhop_base::{Domain, FrameNo, PageId, Result, Rng, Stream};

use super::runs::Runs;
use super::settings::FRAGMENTATION;
use super::{AllocatorPolicy, Mechanism, Policy};
use crate::frame::{age_queue::AgeQueue, allocator::check_unwired, content::Content};
use crate::{Allocator, Draws, PageRequest, Placed, Recency, RunCounts};

pub(super) static POLICY: Policy = Policy {
    name: "buddy",
    rule: "The policy takes the next frame of Linux's allocator, which splits and joins blocks of 2^n frames, and \
           moves 63 frames at a time to a list of the processor, last in, first out; when no frame is free, it takes \
           the least recently used frame.",
    source: "Linux mm/page_alloc.c",
    cost: "17 B for each frame, 24 B more once memory has been full; O(1) amortised while frames are free, then \
           O(log frames); no draw but the start's.",
    parameters: &[FRAGMENTATION],
    mechanism: Mechanism::Allocator(AllocatorPolicy {
        build: |settings, rng| Box::new(Buddy::new(settings.frames as u32, settings.fragmentation, rng)),
        // A page is evicted only when no frame is free. Then all other frames hold pages that were referenced
        // since.
        safe_frames: |settings| settings.frames - 1,
        reuses_frames: true,
        largest_run_log2: Some(ORDERS as u32 - 1),
        reads_recency: true,
        is_random: |settings| settings.fragmentation > 0,
        has_lists: false,
    }),
};

/// The number of orders: blocks have 2^0 to 2^10 frames.
const ORDERS: usize = 11;
/// The number of frames that move between the blocks and the processor's list at once (`zone_batchsize`).
const BATCH: usize = 63;
/// The length at which the processor's list gives a batch back.
const HIGH: usize = 6 * BATCH;

/// The number that stands for no frame.
const NONE: u32 = u32::MAX;
/// The order of a frame that is not the first frame of a free block.
const NO_BLOCK: u8 = u8::MAX;

/// `Blocks` holds the free blocks, in a list for each order.
struct Blocks {
    frames: u32,
    first: [u32; ORDERS],
    /// For the first frame of each free block the blocks before and after it in its list.
    links: Vec<[u32; 2]>,
    /// For each frame the order of the free block that begins there.
    order: Vec<u8>,
}

impl Blocks {
    fn new(frames: u32) -> Self {
        let len = frames as usize;
        Self { frames, first: [NONE; ORDERS], links: vec![[NONE; 2]; len], order: vec![NO_BLOCK; len] }
    }

    /// Makes blocks of all frames, as large as possible, with the lowest block in front.
    fn as_after_boot(frames: u32) -> Self {
        let mut blocks = Self::new(frames);
        let mut all = Vec::new();
        let mut start = 0;
        while start < frames {
            let fits = |order: &u32| start % (1 << order) == 0 && frames - start >= 1 << order;
            let order = (0..ORDERS as u32).rev().find(fits).expect("a single frame fits");
            all.push((start, order as usize));
            start += 1 << order;
        }
        all.into_iter().rev().for_each(|(block, order)| blocks.push(block, order));
        blocks
    }

    /// Puts a block at the front of its list.
    fn push(&mut self, block: u32, order: usize) {
        let next = core::mem::replace(&mut self.first[order], block);
        self.links[block as usize] = [NONE, next];
        self.order[block as usize] = order as u8;
        if next != NONE {
            self.links[next as usize][0] = block;
        }
    }

    fn remove(&mut self, block: u32, order: usize) {
        let [before, next] = self.links[block as usize];
        match before {
            NONE => self.first[order] = next,
            before => self.links[before as usize][1] = next,
        }
        if next != NONE {
            self.links[next as usize][0] = before;
        }
        self.order[block as usize] = NO_BLOCK;
    }

    /// Takes 2^`least` frames out of the smallest block that holds them. Returns the first frame.
    fn take(&mut self, least: usize) -> Option<u32> {
        let order = (least..ORDERS).find(|&order| self.first[order] != NONE)?;
        let block = self.first[order];
        self.remove(block, order);
        for half in (least..order).rev() {
            self.push(block + (1 << half), half);
        }
        Some(block)
    }

    /// Frees a single frame, which joins its buddies.
    fn free(&mut self, frame: u32) {
        let (mut block, mut order) = (frame, 0);
        while order < ORDERS - 1 {
            let buddy = block ^ (1 << order);
            if buddy >= self.frames || self.order[buddy as usize] != order as u8 {
                break;
            }
            self.remove(buddy, order);
            block &= buddy;
            order += 1;
        }
        self.push(block, order);
    }

    /// Returns the blocks of each order, with their order, the front first.
    fn lists(&self) -> impl Iterator<Item = (usize, u32)> {
        let some = |frame: u32| Some(frame).filter(|&frame| frame != NONE);
        let after = move |&block: &u32| some(self.links[block as usize][1]);
        (0..ORDERS).flat_map(move |order| {
            core::iter::successors(some(self.first[order]), after).map(move |block| (order, block))
        })
    }
}

struct Buddy {
    blocks: Blocks,
    /// The processor's list. The front is handed out next.
    processor: VecDeque<u32>,
    /// The frames that hold pages of other programs. The last page leaves first.
    old: Vec<u32>,
    runs: Runs,
    content: Vec<Content>,
    /// The number of frames that hold a page.
    held: u32,
    /// The number of wired frames.
    wired: u32,
    /// True once all frames held a page. From then on the allocator follows the ages of pages.
    full: bool,
    age_queue: AgeQueue,
}

impl Buddy {
    fn new(frames: u32, fragmentation: u32, rng: Rng) -> Self {
        let (mut blocks, mut old) = (Blocks::new(frames), Vec::new());
        if fragmentation == 0 {
            blocks = Blocks::as_after_boot(frames);
        } else {
            old.extend(0..frames);
            rng.shuffle(Stream::new(Domain::FrameOrder, 0), &mut old);
            let kept = u64::from(frames) * u64::from(fragmentation) / 100;
            old.drain(kept as usize..).for_each(|frame| blocks.free(frame));
        }
        Self {
            blocks,
            processor: VecDeque::new(),
            old,
            runs: Runs::default(),
            content: vec![Content::default(); frames as usize],
            held: 0,
            wired: 0,
            full: false,
            age_queue: AgeQueue::default(),
        }
    }

    /// Takes a frame that holds no simulated page, if there is one.
    fn take_free(&mut self) -> Option<u32> {
        if self.processor.is_empty() {
            self.refill();
        }
        let free = self.processor.pop_front().or_else(|| self.old.pop());
        if free.is_some() {
            return free;
        }
        self.split(self.runs.oldest_underused()?);
        self.refill();
        self.processor.pop_front()
    }

    /// Moves a batch of frames from the blocks to the processor's list.
    fn refill(&mut self) {
        let blocks = &mut self.blocks;
        self.processor.extend(core::iter::from_fn(|| blocks.take(0)).take(BATCH));
    }

    /// Splits a run. The frames that no page has joined are free.
    fn split(&mut self, run: u32) {
        self.runs.split(run).into_iter().for_each(|frame| self.blocks.free(frame));
    }

    /// Splits the run of a frame whose page leaves, if the frame lies in a whole run.
    fn split_around(&mut self, frame: u32) {
        if let Some(run) = self.runs.of_frame(frame) {
            self.split(run);
        }
    }

    /// Returns the frame of a page in its run. If the page begins the run, the run is taken first.
    fn take_in_run(&mut self, request: &PageRequest) -> Option<u32> {
        let place = request.run?;
        if place.begins {
            let first = self.blocks.take(place.frames_log2 as usize);
            self.runs.begin(place, first);
        }
        self.runs.join(place)
    }

    /// Takes the frame whose page was referenced longest ago.
    fn oldest(&mut self, recency: &Recency) -> u32 {
        let frames = self.content.len();
        loop {
            let entry = self.age_queue.take_oldest(recency, frames / 8);
            // An entry outlives its page, so it may be stale.
            if self.content[entry.frame as usize].page() == Some(entry.page) {
                return entry.frame;
            }
        }
    }

    /// Puts a frame whose page has died into the processor's list.
    fn give_back(&mut self, frame: u32) {
        self.held -= 1;
        self.processor.push_front(frame);
        if self.processor.len() >= HIGH {
            let keep = self.processor.len() - BATCH;
            // The frame that was freed longest ago is last in the list, and leaves first.
            for frame in self.processor.drain(keep..).rev() {
                self.blocks.free(frame);
            }
        }
    }

    /// Gives the next frame, free or reused, a new content. `in_run` is the frame of a page that has a frame in a run.
    /// Returns the frame and the page that it held.
    fn give(
        &mut self,
        in_run: Option<u32>,
        recency: &Recency,
        content: Content,
    ) -> Result<(u32, Option<PageId>)> {
        let free = in_run.or_else(|| self.take_free());
        let frame = match free {
            Some(frame) => frame,
            None => {
                check_unwired(self.content.len() - self.wired as usize)?;
                let frame = self.oldest(recency);
                self.split_around(frame);
                frame
            }
        };
        self.held += u32::from(free.is_some());
        self.wired += u32::from(content.is_wired());
        let old = core::mem::replace(&mut self.content[frame as usize], content);
        if !self.full && self.held as usize == self.content.len() {
            self.full = true;
            for (frame, content) in (0..).zip(&self.content).filter(|(_, content)| !content.is_wired()) {
                self.age_queue.add(frame, content.last());
            }
        } else if self.full && !content.is_wired() {
            self.age_queue.add(frame, content.last());
        }
        if self.age_queue.len() > 2 * self.content.len() {
            let content = &self.content;
            self.age_queue.retain(|entry| content[entry.frame as usize].page() == Some(entry.page));
        }
        Ok((frame, old.page()))
    }
}

impl Allocator for Buddy {
    fn frames(&self) -> u64 {
        self.content.len() as u64
    }

    fn needs_recency(&self) -> bool {
        self.full
    }

    fn place(&mut self, request: &PageRequest, recency: &Recency, _: Draws) -> Result<Placed> {
        let in_run = self.take_in_run(request);
        let (frame, evicted) = self.give(in_run, recency, Content::of(request.page))?;
        Ok(Placed { frame: FrameNo(frame.into()), evicted })
    }

    fn wire(&mut self, page: PageId, recency: &Recency, _: Draws) -> Result<Placed> {
        let (frame, evicted) = self.give(None, recency, Content::wired(page))?;
        Ok(Placed { frame: FrameNo(frame.into()), evicted })
    }

    fn unwire(&mut self, frame: FrameNo) {
        let frame = frame.0 as u32;
        self.content[frame as usize].unwire();
        self.wired -= 1;
        self.give_back(frame);
    }

    fn wired(&self) -> u64 {
        self.content.iter().filter(|content| content.is_wired()).count() as u64
    }

    fn release(&mut self, frame: FrameNo) {
        let frame = frame.0 as u32;
        self.content[frame as usize].release();
        self.split_around(frame);
        self.give_back(frame);
    }

    fn holds_run(&self, run: u32) -> bool {
        self.runs.holds(run)
    }

    fn take_split(&mut self) -> Vec<u32> {
        self.runs.take_split()
    }

    fn run_counts(&self) -> RunCounts {
        self.runs.counts()
    }

    fn page_in(&self, frame: FrameNo) -> Option<PageId> {
        self.content[frame.0 as usize].page()
    }

    fn held(&self) -> u64 {
        self.content.iter().filter(|content| content.page().is_some()).count() as u64
    }

    fn is_consistent(&self) -> bool {
        let frames = self.content.len();
        let mut seen = vec![0u8; frames];
        let blocks = self.blocks.lists().flat_map(|(order, block)| block..block + (1 << order));
        let single = self.processor.iter().chain(&self.old).copied();
        let held = (0..frames as u32).filter(|&frame| self.content[frame as usize].page().is_some());
        for frame in blocks.chain(single).chain(held).chain(self.runs.unused()) {
            seen[frame as usize] += 1;
        }
        let first = |&(order, block): &(usize, u32)| {
            self.blocks.order[block as usize] == order as u8 && block % (1 << order) == 0
        };
        let followed = !self.full || {
            let mut live = vec![0u8; frames];
            for entry in self.age_queue.iter() {
                let current = self.content[entry.frame as usize].page() == Some(entry.page);
                live[entry.frame as usize] += u8::from(current);
            }
            let followed = |content: &Content| content.page().is_some() && !content.is_wired();
            self.content.iter().zip(&live).all(|(content, &entries)| entries == u8::from(followed(content)))
        };
        seen.iter().all(|&times| times == 1)
            && self.blocks.lists().all(|block| first(&block))
            && u64::from(self.held) == self.held()
            && u64::from(self.wired) == self.wired()
            && self.runs.is_consistent()
            && followed
    }

    #[cfg(test)]
    fn corrupt_for_test(&mut self) {
        self.old.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placement::Settings;
    use crate::placement::bench::page;
    use crate::{Frames, RunPlace};

    fn free(blocks: &Blocks) -> Vec<(usize, u32)> {
        blocks.lists().collect()
    }

    #[test]
    fn a_block_is_halved_from_below_and_joined_again() {
        let mut blocks = Blocks::as_after_boot(1024 + 8 + 2 + 1);
        assert_eq!(free(&blocks), [(0, 1034), (1, 1032), (3, 1024), (10, 0)]);
        let taken: Vec<u32> = (0..5).filter_map(|_| blocks.take(0)).collect();
        assert_eq!(taken, [1034, 1032, 1033, 1024, 1025]);
        assert_eq!(free(&blocks), [(1, 1026), (2, 1028), (10, 0)]);
        blocks.free(1024);
        assert_eq!(free(&blocks), [(0, 1024), (1, 1026), (2, 1028), (10, 0)]);
        blocks.free(1033);
        assert_eq!(free(&blocks), [(0, 1033), (0, 1024), (1, 1026), (2, 1028), (10, 0)]);
        blocks.free(1025); // joins 1024, then 1026, then 1028
        assert_eq!(free(&blocks), [(0, 1033), (3, 1024), (10, 0)]);
        blocks.free(1032);
        blocks.free(1034); // 1034 has no buddy
        assert_eq!(free(&blocks), [(0, 1034), (1, 1032), (3, 1024), (10, 0)]);
    }

    fn place(frames: &mut Frames, numbers: core::ops::Range<u32>) -> Vec<u64> {
        numbers.map(|number| frames.place(&page(number), &Recency::new()).unwrap().frame.0).collect()
    }

    #[test]
    fn after_boot_frames_come_in_order_and_the_last_freed_comes_first() {
        let mut frames = POLICY.frames(&Settings::new(4096, 1), 1).unwrap();
        let first = place(&mut frames, 0..200);
        assert!(first.iter().copied().eq(0..200), "{first:?}");
        // Four batches, 252 frames, were taken; 200 of them were handed out.
        for number in [17, 3] {
            frames.release(PageId(number));
        }
        assert_eq!(place(&mut frames, 200..203), [3, 17, 200]);
        frames.check().unwrap();
    }

    #[test]
    fn the_processors_list_gives_back_the_frames_freed_longest_ago() {
        let mut frames = POLICY.frames(&Settings::new(4096, 1), 1).unwrap();
        place(&mut frames, 0..630); // ten batches; then the list is empty
        for number in 0..378 {
            frames.release(PageId(number));
        }
        // Frames 0 to 62 have left the list. All other frames below 630 are held or in the list.
        assert!(place(&mut frames, 630..630 + 315).into_iter().eq((63..378).rev()));
        // The smallest blocks come first, and of each order the block that was formed last. These are the
        // blocks of 0 to 62, and the two blocks between 630 and 640.
        let blocks = [62..63, 60..62, 630..632, 56..60, 48..56, 632..640, 32..48, 0..22];
        assert_eq!(place(&mut frames, 1000..1063), blocks.into_iter().flatten().collect::<Vec<u64>>());
        frames.check().unwrap();
    }

    #[test]
    fn fragmentation_scatters_the_frames_handed_out() {
        let neighbours = |fragmentation, seed| {
            let settings = Settings { fragmentation, ..Settings::new(8192, 1) };
            let mut frames = POLICY.frames(&settings, seed).unwrap();
            let order = place(&mut frames, 0..1000);
            frames.check().unwrap();
            (order.windows(2).filter(|pair| pair[1] == pair[0] + 1).count(), order)
        };
        assert_eq!(neighbours(0, 1).0, 999);
        assert_eq!(neighbours(0, 1), neighbours(0, 2));
        assert_ne!(neighbours(50, 1), neighbours(50, 2));
        // Frames without a free buddy come first. They are a quarter of memory at 50 %, and 9 % at 10 %.
        assert!(neighbours(50, 1).0 < 5, "{:?}", neighbours(50, 1));
        assert!((50..400).contains(&neighbours(10, 1).0), "{:?}", neighbours(10, 1));
        assert!(neighbours(100, 1).0 < 5);
    }

    #[test]
    fn a_huge_page_takes_a_run_joins_it_and_is_split_when_memory_is_scarce() {
        let mut frames = POLICY.frames(&Settings::new(16, 1), 1).unwrap();
        let mut recency = Recency::new();
        let mut touch = |frames: &mut Frames, number: u32, run: Option<(u32, u32, bool)>| {
            recency.note(PageId(number), 1 + u64::from(number));
            let run = run.map(|(run, index, begins)| RunPlace { run, index, frames_log2: 3, begins });
            let placed = frames.place(&PageRequest { run, ..page(number) }, &recency).unwrap();
            (placed.frame.0, placed.evicted)
        };
        assert_eq!(touch(&mut frames, 0, Some((0, 5, true))), (5, None)); // frames 0 to 7
        assert_eq!(touch(&mut frames, 1, Some((0, 2, false))), (2, None));
        assert_eq!(touch(&mut frames, 2, None), (8, None)); // the processor's list takes frames 8 to 15
        assert_eq!(touch(&mut frames, 3, Some((1, 0, true))), (9, None)); // no run is free: a fallback
        let counts = RunCounts { taken: 1, fallbacks: 1, splits: 0, unused: 6, most_unused: 7 };
        assert_eq!((frames.run_counts(), frames.faults(), frames.free()), (counts, 3, Some(12)));
        assert!((4..10).all(|number| touch(&mut frames, number, None).0 == u64::from(number) + 6));

        assert_eq!(touch(&mut frames, 10, Some((0, 3, false))), (3, None));
        // Memory is scarce: the run is split. Frame 4, frames 6 and 7, and frames 0 and 1 are free.
        assert_eq!((touch(&mut frames, 11, None), frames.take_split()), ((4, None), vec![0]));
        assert_eq!(touch(&mut frames, 12, Some((0, 1, false))), (6, None));
        assert!((13..16).map(|number| touch(&mut frames, number, None).0).eq([7, 0, 1]));
        assert_eq!(touch(&mut frames, 16, None), (5, Some(PageId(0))));
        assert_eq!(frames.run_counts(), RunCounts { splits: 1, unused: 0, ..counts });
        frames.check().unwrap();
    }

    #[test]
    fn old_pages_leave_first_and_are_not_reported_as_evicted() {
        let settings = Settings { fragmentation: 50, ..Settings::new(64, 1) };
        let mut frames = POLICY.frames(&settings, 9).unwrap();
        assert_eq!(frames.free(), Some(64));
        let mut recency = Recency::new();
        for number in 0..64 {
            recency.note(PageId(number), 1 + u64::from(number));
            assert!(!frames.needs_recency());
            assert_eq!(frames.place(&page(number), &recency).unwrap().evicted, None);
        }
        assert!(frames.needs_recency());
        recency.note(PageId(0), 100);
        assert_eq!(frames.place(&page(64), &recency).unwrap().evicted, Some(PageId(1)));
        frames.check().unwrap();
    }
}
