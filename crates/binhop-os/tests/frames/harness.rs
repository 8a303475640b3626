//! `Harness` drives the frames and the plain list together, with a policy that reports what the pool shows
//! it.

use std::sync::{Arc, Mutex};

use binhop_base::{Asid, Bin, Domain, FrameNo, PageId, PageNo, PowerOfTwo, Result, Rng, Stream};
use binhop_oracle::frames as oracle;
use binhop_os::{BinCounts, Draws, Frames, PageRequest, Pool, PoolPolicy, Recency, SegmentId, StateScope};

/// `Seen` holds for each frame of the pool its number and the page that it still holds.
pub(crate) type Seen = Arc<Mutex<Vec<(u64, Option<PageId>)>>>;

/// `SeenBins` holds for each bin the number of the pool's frames, the oldest of these frames, and the number of
/// frames that the address space uses.
pub(crate) type SeenBins = Arc<Mutex<Vec<(u32, Option<u64>, u32)>>>;

/// The number of bins: more than some memories have frames.
const BINS: PowerOfTwo = PowerOfTwo::from_log2(2);
const SEGMENTS: u32 = 3;

/// `Watching` is a policy that notes what the pool shows it, and chooses by a rule of its own.
pub(crate) struct Watching {
    pub(crate) seen: Seen,
    pub(crate) bins: SeenBins,
    pub(crate) rule: Rule,
}

/// `Rule` is the rule by which `Watching` chooses.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Rule {
    Random,
    First,
    Last,
    /// The rule takes this frame, in the pool or not.
    Frame(u64),
}

impl Rule {
    fn rank(self, seed: u64, fault: u64, pool: usize) -> usize {
        match self {
            Rule::Random => {
                Rng::new(seed).below(Stream::new(Domain::Placement, 0), fault, pool as u64) as usize
            }
            Rule::Last => pool - 1,
            Rule::First | Rule::Frame(_) => 0,
        }
    }
}

impl PoolPolicy for Watching {
    fn name(&self) -> &str {
        "watching"
    }

    fn bin_counts(&self) -> Option<BinCounts> {
        Some(BinCounts { bins: BINS, tree: false, used: Some(StateScope::Segment) })
    }

    fn choose(&mut self, _: &PageRequest, pool: &Pool<'_>, draws: Draws) -> Result<FrameNo> {
        let used = |bin: usize| pool.used_parts().map(|part| part[bin]).sum();
        let oldest = |bin| pool.oldest_in(Bin(bin as u32)).map(|frame| frame.0);
        let ask = |bin| (pool.available()[bin], oldest(bin), used(bin));
        *self.bins.lock().unwrap() = (0..BINS.bytes() as usize).map(ask).collect();
        *self.seen.lock().unwrap() = pool.iter().map(|(frame, page)| (frame.0, page)).collect();
        Ok(match self.rule {
            Rule::Random => pool.frame(draws.below(0, pool.len() as u64) as usize),
            Rule::Frame(frame) => FrameNo(frame),
            rule => pool.frame(rule.rank(0, 0, pool.len())),
        })
    }
}

/// Returns a request for a page. The page's number decides its virtual page and its segment.
pub(crate) fn request(page: u32) -> PageRequest {
    let page_no = PageNo(u64::from(page) + 100);
    let segment = page % SEGMENTS;
    // The address space has the page's own segment and the next segment.
    let segments = [SegmentId(segment), SegmentId((segment + 1) % SEGMENTS)].into();
    PageRequest {
        page: PageId(page),
        asid: Asid(3),
        page_no,
        segment: SegmentId(segment),
        segments,
        run: None,
        in_kernel: false,
    }
}

/// `Harness` drives the fast model and the plain list together.
pub(crate) struct Harness {
    pub(crate) frames: Frames,
    pub(crate) list: oracle::Frames,
    pub(crate) seen: Seen,
    bins: SeenBins,
    rule: Rule,
    seed: u64,
    pool: usize,
    recency: Recency,
    /// The time of each page's last reference. `recency` gets these times once the frames need it.
    times: Vec<u64>,
    now: u64,
    /// True if the faulting reference is noted before its placement.
    pub(crate) note_first: bool,
    faults: u64,
}

impl Harness {
    pub(crate) fn new(size: u64, pool: u64, seed: u64, rule: Rule) -> Self {
        let mut order: Vec<u64> = (0..size).collect();
        Rng::new(seed).shuffle(Stream::new(Domain::FrameOrder, 0), &mut order);
        let (seen, bins) = (Seen::default(), SeenBins::default());
        let policy = Watching { seen: Arc::clone(&seen), bins: Arc::clone(&bins), rule };
        Self {
            frames: Frames::new(size, pool, Box::new(policy), seed).unwrap(),
            list: oracle::Frames::new(&order, pool as usize),
            seen,
            bins,
            rule,
            seed,
            pool: pool as usize,
            recency: Recency::new(),
            times: Vec::new(),
            now: 0,
            note_first: false,
            faults: 0,
        }
    }

    fn note(&mut self, page: u32) {
        self.now += 1;
        self.times.resize(self.times.len().max(page as usize + 1), 0);
        self.times[page as usize] = self.now;
        if self.frames.needs_recency() {
            self.recency.note(PageId(page), self.now);
        }
    }

    /// Notes a reference. Returns the page that it evicted.
    pub(crate) fn touch(&mut self, page: u32) -> Option<PageId> {
        if self.list.frame_of(PageId(page)).is_some() {
            self.note(page);
            self.list.touch(PageId(page));
            return None;
        }
        if self.note_first {
            self.note(page);
        }
        let unused = self.list.list.len() as u64 - self.faults.min(self.list.list.len() as u64);
        if self.frames.evictions() == 0 && !self.has_released() {
            assert_eq!(self.frames.needs_recency(), unused < self.pool as u64, "fault {}", self.faults);
        }
        if !self.frames.needs_recency() {
            self.recency = Recency::new(); // the frames must not read it
        }
        let placed = self.frames.place(&request(page), &self.recency).unwrap();
        let shown = self.list.pool().iter().map(|frame| (frame.number, frame.page)).collect::<Vec<_>>();
        assert_eq!(*self.seen.lock().unwrap(), shown, "pool at fault {}", self.faults);
        self.check_bins(&request(page));
        let rank = self.rule.rank(self.seed, self.faults, self.pool);
        assert_eq!(placed.frame.0, shown[rank].0);
        assert_eq!(placed.evicted, self.list.place(PageId(page), rank));
        self.list.touch(PageId(page));
        self.faults += 1;
        if self.frames.needs_recency() && self.recency.last(PageId(page)) == 0 {
            // From here on the frames read recency, so it gets all times that were kept back.
            for (page, &time) in self.times.iter().enumerate().filter(|(_, time)| **time > 0) {
                self.recency.note(PageId(page as u32), time);
            }
        }
        if !self.note_first {
            self.note(page);
        }
        placed.evicted
    }

    /// Compares the bins that the policy was shown with counts of the plain list.
    fn check_bins(&self, request: &PageRequest) {
        for (bin, &(available, oldest, used)) in (0..).zip(&*self.bins.lock().unwrap()) {
            let inside = |frame: &&oracle::Frame| frame.number % BINS.bytes() == bin;
            let count = self.list.pool().iter().filter(inside).count();
            assert_eq!(available as usize, count, "bin {bin}");
            assert_eq!(oldest, self.list.pool().iter().find(inside).map(|frame| frame.number), "bin {bin}");
            let pages = self.list.list.iter().filter(inside).filter_map(|frame| frame.page);
            let count = pages.filter(|page| request.segments.contains(&SegmentId(page.0 % SEGMENTS))).count();
            assert_eq!(used as usize, count, "bin {bin}");
        }
    }

    fn has_released(&self) -> bool {
        self.faults != self.frames.evictions() + self.frames.mapped()
    }

    pub(crate) fn release(&mut self, page: u32) {
        let frame = self.frames.release(PageId(page)).map(|frame| frame.0);
        assert_eq!(frame, self.list.frame_of(PageId(page)));
        self.list.release(PageId(page));
    }

    pub(crate) fn check(&self, pages: u32) {
        self.frames.check().unwrap();
        assert_eq!(self.frames.mapped(), self.list.mapped() as u64);
        assert_eq!(self.frames.free().unwrap() + self.frames.mapped(), self.frames.frames().unwrap());
        assert_eq!(self.frames.faults(), self.faults);
        for page in (0..pages).map(PageId) {
            assert_eq!(
                self.frames.frame_of(page).map(|frame| frame.0),
                self.list.frame_of(page),
                "page {page}"
            );
        }
    }
}
