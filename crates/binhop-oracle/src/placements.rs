//! This file holds slow, obvious placement policies. Every count is a sum over all frames, and every list
//! is searched from its front.

use std::collections::BTreeMap;

use binhop_base::{Domain, PageId, Rng, Stream};

use crate::frames::{Frame, Frames};

/// `PageRequest` asks for a frame for a page.
#[derive(Clone, Debug)]
pub struct PageRequest {
    /// The page.
    pub page: PageId,
    /// The address space that touched it.
    pub asid: u32,
    /// The page's virtual page number in the address space.
    pub page_no: u64,
    /// The segment of the page.
    pub segment: u32,
    /// All segments of the address space.
    pub segments: Vec<u32>,
    /// The place of the page in a run of frames, if it is first touched as a part of a huge page.
    pub run: Option<RunPlace>,
    /// True if the page was touched in the kernel's half.
    pub in_kernel: bool,
}

/// `RunPlace` is the place of a page in a run of frames.
#[derive(Clone, Copy, Debug)]
pub struct RunPlace {
    /// The number of the run.
    pub number: u32,
    /// The number of the page in the run.
    pub index: u32,
    /// The logarithm of the frames.
    pub frames_log2: u32,
    /// True if the page is the first page of the run.
    pub begins: bool,
}

/// `RunCounts` counts runs of frames: the runs taken, the runs for which no block was free, the runs split, and the
/// most frames of whole runs that no page had joined at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunCounts {
    /// The runs taken.
    pub taken: u64,
    /// The runs for which no block was free.
    pub fallbacks: u64,
    /// The runs split.
    pub splits: u64,
    /// The most frames without a page.
    pub most_unused: u64,
}

/// `Memory` hands out the frames of a lane.
pub trait Memory {
    /// Returns the frame of a page.
    fn frame_of(&self, page: PageId) -> Option<u64>;
    /// Notes a reference to a resident page.
    fn touch(&mut self, page: PageId);
    /// Gives a page a frame, which is not yet touched. Returns the frame, and the page that was evicted.
    fn place(&mut self, request: &PageRequest) -> (u64, Option<PageId>);
    /// Gives a page of the operating system a frame, by the ordinal among wired pages. Returns the frame, and
    /// the page that was evicted.
    fn wire(&mut self, page: PageId, ordinal: u64) -> (u64, Option<PageId>);
    /// Frees the frame of a wired page that dies.
    fn unwire(&mut self, page: PageId);
    /// Frees the frame of a page that dies.
    fn release(&mut self, page: PageId);
    /// Returns whether a run of frames is whole.
    fn holds_run(&self, _run: u32) -> bool {
        false
    }
    /// Returns the runs that were split so far, in order.
    fn splits(&self) -> &[u32] {
        &[]
    }
    /// Returns the counts of runs.
    fn run_counts(&self) -> RunCounts {
        RunCounts::default()
    }
}

/// Draws a number below `n` for a wired page.
fn draw_wired(seed: u64, ordinal: u64, n: usize) -> usize {
    Rng::new(seed).below(Stream::new(Domain::Wired, 0), ordinal, n as u64) as usize
}

/// Returns the order in which list `number` of a seed starts.
#[must_use]
pub fn order(seed: u64, number: u64, mut frames: Vec<u64>) -> Vec<u64> {
    Rng::new(seed).shuffle(Stream::new(Domain::FrameOrder, number), &mut frames);
    frames
}

/// Returns the upper 32 bits of asid × 2⁶⁴/φ, modulo 2⁶⁴.
#[must_use]
pub fn hash(asid: u32) -> u64 {
    (u128::from(asid) * 11_400_714_819_323_198_485 % (1 << 64)) as u64 / (1 << 32)
}

macro_rules! rules {
    ($($(#[$doc:meta])* $rule:ident = $policy:literal,)*) => {
        /// `Rule` is the rule by which a policy picks a frame from the pool.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Rule { $($(#[$doc])* $rule,)* }

        impl Rule {
            /// Returns the rule of a policy, if the policy picks from the pool.
            #[must_use]
            pub fn of(policy: &str) -> Option<Self> {
                match policy {
                    $($policy => Some(Self::$rule),)*
                    _ => None,
                }
            }
        }
    };
}

/// The source line of the lists below, for the message of the test that finds a policy without an oracle.
pub const LISTS_AT: &str = concat!(file!(), ":", line!());

rules! {
    /// The rule takes any frame.
    Random = "random",
    /// The rule takes the least recently used frame.
    First = "first",
    /// The rule takes the bin of the page number.
    Equal = "page-coloring-equal",
    /// The rule takes the bin of the page number and the hash of the address space.
    PidHash = "page-coloring-pid-hash",
    /// The rule takes the bin of the page number and an offset.
    Offset = "page-coloring-offset",
    /// The rule takes the next bin.
    BinHopping = "bin-hopping",
    /// The rule takes the best of all bins.
    Sequential = "sequential",
    /// The rule takes the better half of the bins, again and again.
    Hierarchical = "hierarchical",
}

/// The policies without an oracle, because they choose nothing: physical = virtual, and a recording.
pub const WITHOUT_CHOICE: &[&str] = &["identity", "recorded"];

/// `Settings` holds what a policy is told.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The number of frames.
    pub frames: u64,
    /// The number of frames in the pool.
    pub pool: usize,
    /// The number of bins.
    pub bins: u64,
    /// The number of colors.
    pub colors: u64,
    /// True if a policy keeps its state per address space; otherwise per segment.
    pub by_space: bool,
    /// True if a hash of the address space enters into a page's color.
    pub pid_hash: bool,
    /// The percentage of memory that holds old pages at the start.
    pub fragmentation: u64,
}

/// Returns the oracle of a policy: the memory of one lane. `None`: the policy has no oracle.
#[must_use]
pub fn memory(policy: &str, settings: &Settings, seed: u64) -> Option<Box<dyn Memory>> {
    let Settings { frames, pool, bins, colors, by_space, pid_hash, fragmentation } = *settings;
    match policy {
        "colored-lists" => Some(Box::new(Colors::new(frames, colors, pid_hash, seed))),
        "buddy" => Some(Box::new(Buddy::new(frames, fragmentation, seed))),
        _ => {
            let rule = Rule::of(policy)?;
            Some(Box::new(Pooled::new(rule, frames, pool, bins, by_space, seed)))
        }
    }
}

/// `Pooled` is a memory whose policy picks from a pool.
pub struct Pooled {
    rule: Rule,
    bins: u64,
    by_space: bool,
    seed: u64,
    faults: u64,
    /// The list of frames.
    pub frames: Frames,
    /// The segment and the address space of each page at its placement.
    owners: BTreeMap<PageId, (u32, u32)>,
    pointers: BTreeMap<u32, u64>,
}

impl Pooled {
    /// Makes unused frames in the seed's order. State is kept by address space if `by_space`, and otherwise
    /// by segment.
    #[must_use]
    pub fn new(rule: Rule, frames: u64, pool: usize, bins: u64, by_space: bool, seed: u64) -> Self {
        let frames = Frames::new(&order(seed, 0, (0..frames).collect()), pool);
        let (owners, pointers) = (BTreeMap::new(), BTreeMap::new());
        Self { rule, bins, by_space, seed, faults: 0, frames, owners, pointers }
    }

    fn draw(&self, n: u64) -> u64 {
        Rng::new(self.seed).below(Stream::new(Domain::Placement, 0), self.faults, n)
    }

    fn draw_of(&self, thing: u32, n: u64) -> u64 {
        Rng::new(self.seed).below(Stream::new(Domain::PlacementOf, 0), thing.into(), n)
    }

    /// Returns two counts of frames whose number is `low` modulo `modulus`: the frames that the requesting
    /// address space uses, and the frames in the pool.
    #[must_use]
    pub fn pair(&self, request: &PageRequest, modulus: u64, low: u64) -> (usize, usize) {
        let here = |frame: &&Frame| frame.number % modulus == low;
        let its = |page: &PageId| {
            let (segment, asid) = self.owners[page];
            if self.by_space { asid == request.asid } else { request.segments.contains(&segment) }
        };
        let used = self.frames.list.iter().filter(here).filter_map(|frame| frame.page).filter(its).count();
        (used, self.frames.pool().iter().filter(here).count())
    }

    /// Returns the bin that a tree of `bins` bins chooses now.
    #[must_use]
    pub fn hierarchical(&self, request: &PageRequest, bins: u64) -> u64 {
        let (mut modulus, mut low) = (1, 0);
        while modulus < bins {
            let (left, right) = (low, low + modulus);
            let ((used_left, free_left), (used_right, free_right)) =
                (self.pair(request, modulus * 2, left), self.pair(request, modulus * 2, right));
            let coins = Rng::new(self.seed).draw(Stream::new(Domain::Placement, 0), self.faults);
            low = if free_right == 0 {
                left
            } else if free_left == 0 {
                right
            } else if used_left != used_right {
                if used_left < used_right { left } else { right }
            } else if free_left != free_right {
                if free_left > free_right { left } else { right }
            } else if (coins / modulus).is_multiple_of(2) {
                left
            } else {
                right
            };
            modulus *= 2;
        }
        low
    }

    fn sequential(&self, request: &PageRequest) -> u64 {
        let pairs: Vec<_> = (0..self.bins).map(|bin| self.pair(request, self.bins, bin)).collect();
        let mut left: Vec<usize> = (0..pairs.len()).filter(|&bin| pairs[bin].1 > 0).collect();
        let fewest = left.iter().map(|&bin| pairs[bin].0).min().expect("a pool has a frame");
        left.retain(|&bin| pairs[bin].0 == fewest);
        let most = left.iter().map(|&bin| pairs[bin].1).max().expect("a pool has a frame");
        left.retain(|&bin| pairs[bin].1 == most);
        let chosen = if left.len() == 1 { 0 } else { self.draw(left.len() as u64) };
        left[chosen as usize] as u64
    }

    fn bin_hopping(&mut self, request: &PageRequest) -> u64 {
        let start = self.draw_of(request.asid, self.bins);
        let pointer = *self.pointers.entry(request.asid).or_insert(start);
        let mut bin = (pointer + 1) % self.bins;
        while self.pair(request, self.bins, bin).1 == 0 {
            bin = (bin + 1) % self.bins;
        }
        self.pointers.insert(request.asid, bin);
        bin
    }

    fn oldest_in(&self, bin: u64) -> Option<usize> {
        self.frames.pool().iter().position(|frame| frame.number % self.bins == bin % self.bins)
    }

    fn choose(&mut self, request: &PageRequest) -> usize {
        let bin = match self.rule {
            Rule::Random => return self.draw(self.frames.pool().len() as u64) as usize,
            Rule::First => return 0,
            Rule::Equal => request.page_no,
            Rule::PidHash => request.page_no ^ hash(request.asid),
            Rule::Offset => {
                let thing = if self.by_space { request.asid } else { request.segment };
                request.page_no % self.bins + self.draw_of(thing, self.bins)
            }
            Rule::BinHopping => self.bin_hopping(request),
            Rule::Sequential => self.sequential(request),
            Rule::Hierarchical => self.hierarchical(request, self.bins),
        };
        self.oldest_in(bin).unwrap_or(0)
    }
}

impl Memory for Pooled {
    fn frame_of(&self, page: PageId) -> Option<u64> {
        self.frames.frame_of(page)
    }

    fn touch(&mut self, page: PageId) {
        self.frames.touch(page);
    }

    fn place(&mut self, request: &PageRequest) -> (u64, Option<PageId>) {
        let rank = self.choose(request);
        let frame = self.frames.pool()[rank].number;
        let evicted = self.frames.place(request.page, rank);
        self.owners.insert(request.page, (request.segment, request.asid));
        self.faults += 1;
        (frame, evicted)
    }

    fn wire(&mut self, page: PageId, ordinal: u64) -> (u64, Option<PageId>) {
        let rank = draw_wired(self.seed, ordinal, self.frames.pool().len());
        self.frames.wire(page, rank)
    }

    fn unwire(&mut self, page: PageId) {
        self.frames.unwire(page);
    }

    fn release(&mut self, page: PageId) {
        self.frames.release(page);
    }
}

/// `Colors` is a memory of colored lists (LF91 §2). Each color has a list of frames, which is kept in the
/// same way as the one list of a memory with a pool.
pub struct Colors {
    lists: Vec<Frames>,
    /// The color of each page, which the page's first placement decides.
    colors: BTreeMap<PageId, usize>,
    pid_hash: bool,
    seed: u64,
}

impl Colors {
    /// Makes unused frames, with each color's frames in the seed's order.
    #[must_use]
    pub fn new(frames: u64, colors: u64, pid_hash: bool, seed: u64) -> Self {
        let of = |color| (0..frames).filter(|frame| frame % colors == color).collect();
        let list = |color| Frames::new(&order(seed, color, of(color)), 1);
        Self { lists: (0..colors).map(list).collect(), colors: BTreeMap::new(), pid_hash, seed }
    }
}

impl Memory for Colors {
    fn frame_of(&self, page: PageId) -> Option<u64> {
        self.lists.iter().find_map(|list| list.frame_of(page))
    }

    fn touch(&mut self, page: PageId) {
        let list = self.lists.iter_mut().find(|list| list.frame_of(page).is_some());
        list.expect("the page is resident").touch(page);
    }

    fn place(&mut self, request: &PageRequest) -> (u64, Option<PageId>) {
        let is_hashed = self.pid_hash && !request.in_kernel;
        let number = if is_hashed { request.page_no ^ hash(request.asid) } else { request.page_no };
        let color = (number % self.lists.len() as u64) as usize;
        let list = &mut self.lists[*self.colors.entry(request.page).or_insert(color)];
        (list.pool()[0].number, list.place(request.page, 0))
    }

    fn wire(&mut self, page: PageId, ordinal: u64) -> (u64, Option<PageId>) {
        let mut color = draw_wired(self.seed, ordinal, self.lists.len());
        while self.lists[color].list.is_empty() {
            color = (color + 1) % self.lists.len();
        }
        self.lists[color].wire(page, 0)
    }

    fn unwire(&mut self, page: PageId) {
        self.lists.iter_mut().for_each(|list| list.unwire(page));
    }

    fn release(&mut self, page: PageId) {
        self.lists.iter_mut().for_each(|list| list.release(page));
    }
}

/// `Buddy` is Linux's allocator. The free blocks of each order stand in a list, and the first block of the
/// list is taken first.
pub struct Buddy {
    frames: u64,
    free: [Vec<u64>; 11],
    processor: Vec<u64>,
    /// The frames with pages of other programs. The last frame leaves first.
    old: Vec<u64>,
    /// The resident pages, least recently used first.
    pages: Vec<(PageId, u64)>,
    wired: Vec<(PageId, u64)>,
    /// The whole runs, in the order in which they were taken: the number, and for each frame whether a page joined.
    runs: Vec<(u32, Vec<(u64, bool)>)>,
    splits: Vec<u32>,
    counts: RunCounts,
}

impl Buddy {
    /// Makes the memory at the start: as after boot, or with old pages in `fragmentation` percent of the
    /// frames.
    #[must_use]
    pub fn new(frames: u64, fragmentation: u64, seed: u64) -> Self {
        let empty = || (Vec::new(), Vec::new());
        let ((processor, old), pages) = (empty(), Vec::new());
        let wired = Vec::new();
        let (runs, splits, counts) = (Vec::new(), Vec::new(), RunCounts::default());
        let free = Default::default();
        let mut buddy = Self { frames, free, processor, old, pages, wired, runs, splits, counts };
        if fragmentation == 0 {
            let mut start = 0;
            while start < frames {
                let mut order = 10;
                while start % (1 << order) != 0 || start + (1 << order) > frames {
                    order -= 1;
                }
                buddy.free[order].push(start);
                start += 1 << order;
            }
            return buddy;
        }
        let order = order(seed, 0, (0..frames).collect());
        let (old, free) = order.split_at((frames * fragmentation / 100) as usize);
        buddy.old = old.to_vec();
        free.iter().for_each(|&frame| buddy.give_back(frame));
        buddy
    }

    fn give_back(&mut self, mut block: u64) {
        for order in 0..10 {
            let buddy = block ^ (1 << order);
            let Some(at) = self.free[order].iter().position(|&other| other == buddy) else {
                self.free[order].insert(0, block);
                return;
            };
            self.free[order].remove(at);
            block = block.min(buddy);
        }
        assert!(block + 1024 <= self.frames);
        self.free[10].insert(0, block);
    }

    fn split_off(&mut self, least: usize) -> Option<u64> {
        let order = (least..11).find(|&order| !self.free[order].is_empty())?;
        let block = self.free[order].remove(0);
        for half in (least..order).rev() {
            self.free[half].insert(0, block + (1 << half));
        }
        Some(block)
    }

    fn refill(&mut self) {
        while self.processor.len() < 63 {
            let Some(frame) = self.split_off(0) else { break };
            self.processor.push(frame);
        }
    }

    /// Splits the run at a place of the list. Its frames without a page are free.
    fn split(&mut self, at: usize) {
        let (number, frames) = self.runs.remove(at);
        self.splits.push(number);
        self.counts.splits += 1;
        frames.into_iter().filter(|(_, joined)| !joined).for_each(|(frame, _)| self.give_back(frame));
    }

    fn split_around(&mut self, frame: u64) {
        if let Some(at) = self.runs.iter().position(|(_, run)| run.iter().any(|&(other, _)| other == frame)) {
            self.split(at);
        }
    }

    /// Returns the frame of a page that has a place in a whole run.
    fn in_run(&mut self, place: Option<RunPlace>) -> Option<u64> {
        let place = place?;
        if place.begins {
            match self.split_off(place.frames_log2 as usize) {
                Some(first) => {
                    let frames = (first..first + (1 << place.frames_log2)).map(|frame| (frame, false));
                    self.runs.push((place.number, frames.collect()));
                    self.counts.taken += 1;
                }
                None => self.counts.fallbacks += 1,
            }
        }
        let (_, run) = self.runs.iter_mut().find(|(number, _)| *number == place.number)?;
        let (frame, joined) = &mut run[place.index as usize];
        *joined = true;
        let frame = *frame;
        let unused = self.runs.iter().flat_map(|(_, run)| run).filter(|(_, joined)| !joined).count() as u64;
        self.counts.most_unused = self.counts.most_unused.max(unused);
        Some(frame)
    }
}

impl Memory for Buddy {
    fn frame_of(&self, page: PageId) -> Option<u64> {
        self.pages.iter().chain(&self.wired).find(|(other, _)| *other == page).map(|&(_, frame)| frame)
    }

    fn touch(&mut self, page: PageId) {
        let at = self.pages.iter().position(|(other, _)| *other == page).expect("the page is resident");
        let entry = self.pages.remove(at);
        self.pages.push(entry);
    }

    fn place(&mut self, request: &PageRequest) -> (u64, Option<PageId>) {
        if let Some(frame) = self.in_run(request.run) {
            self.pages.push((request.page, frame));
            return (frame, None);
        }
        if self.processor.is_empty() {
            self.refill();
        }
        let unused = |(_, run): &(u32, Vec<(u64, bool)>)| run.iter().any(|(_, joined)| !joined);
        if self.processor.is_empty()
            && self.old.is_empty()
            && let Some(at) = self.runs.iter().position(unused)
        {
            self.split(at);
            self.refill();
        }
        let (frame, evicted) = if !self.processor.is_empty() {
            (self.processor.remove(0), None)
        } else if let Some(frame) = self.old.pop() {
            (frame, None)
        } else {
            let (page, frame) = self.pages.remove(0);
            self.split_around(frame);
            (frame, Some(page))
        };
        self.pages.push((request.page, frame));
        (frame, evicted)
    }

    fn wire(&mut self, page: PageId, _: u64) -> (u64, Option<PageId>) {
        let request = PageRequest {
            page,
            asid: 0,
            page_no: 0,
            segment: 0,
            segments: Vec::new(),
            run: None,
            in_kernel: false,
        };
        let placed = self.place(&request);
        self.wired.extend(self.pages.pop());
        placed
    }

    fn unwire(&mut self, page: PageId) {
        self.release(page);
    }

    fn release(&mut self, page: PageId) {
        let Some(frame) = self.frame_of(page) else { return };
        self.split_around(frame);
        self.pages.retain(|(other, _)| *other != page);
        self.wired.retain(|(other, _)| *other != page);
        self.processor.insert(0, frame);
        if self.processor.len() >= 378 {
            for _ in 0..63 {
                let frame = self.processor.pop().expect("the list holds 378 frames");
                self.give_back(frame);
            }
        }
    }

    fn holds_run(&self, run: u32) -> bool {
        self.runs.iter().any(|&(number, _)| number == run)
    }

    fn splits(&self) -> &[u32] {
        &self.splits
    }

    fn run_counts(&self) -> RunCounts {
        self.counts
    }
}
