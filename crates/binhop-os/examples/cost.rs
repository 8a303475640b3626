//! `cost` measures what a decision, a placement and a touch cost: `cargo run --release -p binhop-os --example
//! cost`.
//!
//! - A *decision* is [`PoolPolicy::choose`] alone. It is measured in a memory half full and in a memory that
//!   evicts, both filled by the policy itself, by bins and by the size of the pool.
//!   - *In a row*: at some faults the policy decides many times, each time about another page and with the
//!     draws of another fault; no draws come twice. A decision changes nothing but a pointer, so the state
//!     that it reads stays the same and stays in the caches.
//!   - *Alone*: the decision that places the page is timed once at each fault, within its placement. The cost of
//!     reading the clock twice is subtracted. Nothing overlaps with this decision, and branch predictors have seen
//!     only other states.
//! - A *placement* is the whole of [`Frames::place`]. It is measured in a memory that is never full, and
//!   under steady eviction. Between two faults ten random pages of the pages placed last are touched; the
//!   time of these touches, measured alone, is subtracted. A policy with lists of its own has no decision
//!   apart from its placement.
//! - A *touch* looks up a page by its address.
//! - A *walk* lists the entries that a walk reads. Each of four address spaces maps a quarter of the pages.
//!
//! Each figure is a median over pieces of some hundreds or thousands of operations. A piece is too short for
//! other programs on the machine to interfere. The figure of decisions alone is a mean without the shortest
//! and the longest twentieth, because a clock may count in steps of 10 ns.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use binhop_base::{Asid, Bytes, Domain, FrameNo, PageId, PageNo, PowerOfTwo, Result, Rng, Stream};
use binhop_os::page_table::{PageTables, TableConfig, TableKind};
use binhop_os::placement::{self, Policy, Settings};
use binhop_os::{BinCounts, Draws, Frames, PageRequest, Pool, PoolPolicy, Recency, SegmentId, Spaces};

/// `Size` is the size of a memory and of its pool, in frames.
#[derive(Clone, Copy)]
struct Size {
    frames: u64,
    pool: u64,
}

/// The last size has KH90's proportion in pages of 4 KiB: 512 MiB, of which 256 MiB are the pool.
const SIZES: [Size; 3] = [
    Size { frames: 8192, pool: 16 },
    Size { frames: 8192, pool: 256 },
    Size { frames: 131_072, pool: 65_536 },
];
const BINS: [u64; 4] = [64, 256, 1024, 4096];

/// The number of decisions that are timed in a row.
const PIECE: usize = 256;
/// The number of rows at a fault.
const PIECES: usize = 4;
/// The number of faults of each state at which rows are timed.
const FAULTS: u64 = 32;
/// The number of faults of each state at which a decision is timed alone.
const ALONE: u64 = 1000;
/// The number of states of memory: half full, and evicting.
const STATES: usize = 2;

fn request(page: u32) -> PageRequest {
    let (page_no, segment) = (PageNo(page.into()), SegmentId(0));
    PageRequest {
        page: PageId(page),
        asid: Asid(0),
        page_no,
        segment,
        segments: Arc::new([segment]),
        run: None,
        in_kernel: false,
    }
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Returns the mean without the shortest and the longest twentieth, with which another program may have
/// interfered.
fn mean(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    let most = &times[times.len() / 20..times.len() * 19 / 20];
    most.iter().sum::<f64>() / most.len() as f64
}

/// Returns the median over `pieces` pieces of the nanoseconds for one operation. `piece` does `length`
/// operations and returns the time that they took.
fn median_of(pieces: u64, length: u64, mut piece: impl FnMut(u64) -> Duration) -> f64 {
    median((0..pieces).map(|_| piece(length).as_nanos() as f64 / length as f64).collect())
}

/// `Collecting` is a policy that keeps the draws that it gets.
struct Collecting(Arc<Mutex<Vec<Draws>>>);

impl PoolPolicy for Collecting {
    fn name(&self) -> &str {
        "collecting"
    }

    fn choose(&mut self, _: &PageRequest, pool: &Pool<'_>, draws: Draws) -> Result<FrameNo> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(draws);
        Ok(pool.frame(0))
    }
}

/// Returns the draws of `faults` faults.
fn collect(faults: usize) -> Vec<Draws> {
    let draws = Arc::default();
    let policy = Box::new(Collecting(Arc::clone(&draws)));
    let mut frames = Frames::new(faults as u64, 1, policy, 1).expect("a pool smaller than memory");
    for page in 0..faults as u32 {
        frames.place(&request(page), &Recency::new()).expect("the oldest is in the pool");
    }
    std::mem::take(&mut draws.lock().unwrap_or_else(PoisonError::into_inner))
}

/// `Times` holds the measured times of one decision in one state of memory.
#[derive(Default)]
struct Times {
    in_a_row: Vec<f64>,
    alone: Vec<f64>,
    /// The times between two readings of the clock with no operation between them.
    nothing: Vec<f64>,
}

/// `Timing` is a policy that times another policy.
struct Timing {
    inner: Box<dyn PoolPolicy>,
    /// The draws. There are so many that no draw is used twice.
    draws: std::vec::IntoIter<Draws>,
    /// The first fault of each state.
    starts: [u64; STATES],
    times: Arc<Mutex<[Times; STATES]>>,
}

impl Timing {
    /// Returns the nanoseconds of one decision among many.
    fn in_a_row(&mut self, of: &PageRequest, pool: &Pool<'_>) -> f64 {
        let ask = |draws: Draws| {
            (PageRequest { page_no: PageNo(draws.below(u64::from(u32::MAX), 1 << 30)), ..of.clone() }, draws)
        };
        let questions: Vec<(PageRequest, Draws)> = self.draws.by_ref().take(PIECE).map(ask).collect();
        assert_eq!(questions.len(), PIECE, "enough draws were collected");
        let start = Instant::now();
        for (request, draws) in &questions {
            std::hint::black_box(self.inner.choose(request, pool, *draws).is_ok());
        }
        start.elapsed().as_nanos() as f64 / PIECE as f64
    }
}

impl PoolPolicy for Timing {
    fn name(&self) -> &str {
        "timing"
    }

    fn bin_counts(&self) -> Option<BinCounts> {
        self.inner.bin_counts()
    }

    fn choose(&mut self, of: &PageRequest, pool: &Pool<'_>, draws: Draws) -> Result<FrameNo> {
        // The first reading of the clock warms the caches.
        let (_, early, start) = (Instant::now(), Instant::now(), Instant::now());
        let chosen = self.inner.choose(of, pool, draws);
        let (alone, nothing) = (start.elapsed().as_nanos() as f64, (start - early).as_nanos() as f64);
        for (state, start) in self.starts.into_iter().enumerate() {
            let since = draws.fault().wrapping_sub(start);
            if since >= ALONE {
                continue;
            }
            let in_a_row: Vec<f64> =
                match since.is_multiple_of(ALONE / FAULTS) && since / (ALONE / FAULTS) < FAULTS {
                    true => (0..PIECES).map(|_| self.in_a_row(of, pool)).collect(),
                    false => Vec::new(),
                };
            let times = &mut self.times.lock().unwrap_or_else(PoisonError::into_inner)[state];
            times.in_a_row.extend(in_a_row);
            times.alone.push(alone);
            times.nothing.push(nothing);
        }
        chosen
    }
}

/// Measures a decision in a row and alone, in each state of memory, which is filled with one segment's pages.
fn deciding(policy: &Policy, settings: &Settings, draws: Vec<Draws>) -> [[f64; STATES]; 2] {
    let times = Arc::default();
    let inner = policy.build(settings).expect("it picks from a pool");
    let starts = [settings.frames / 2, settings.frames + 64];
    let timing = Box::new(Timing { inner, draws: draws.into_iter(), starts, times: Arc::clone(&times) });
    let mut frames =
        Frames::new(settings.frames, settings.pool, timing, 1).expect("a pool smaller than memory");
    let mut recency = Recency::new();
    for page in 0..(starts[1] + ALONE) as u32 {
        recency.note(PageId(page), u64::from(page) + 1);
        // The page is random, because branch predictors would learn a sequence of neighbouring pages.
        let page_no = PageNo(Rng::new(5).below(Stream::new(Domain::Test, 0), page.into(), 1 << 30));
        let request = PageRequest { page_no, ..request(page) };
        frames.place(&request, &recency).expect("built-in policies stay in the pool");
    }
    assert!(frames.evictions() > ALONE);
    let times = std::mem::take(&mut *times.lock().unwrap_or_else(PoisonError::into_inner));
    let [half, full] = times.map(|times| [median(times.in_a_row), mean(times.alone) - mean(times.nothing)]);
    [[half[0], full[0]], [half[1], full[1]]]
}

/// Measures a placement in a memory that is never full. The time to make the memories does not count.
fn filling(policy: &Policy, settings: &Settings) -> f64 {
    let recency = Recency::new();
    let mut seed = 0;
    let length = settings.frames - settings.pool;
    let requests: Vec<PageRequest> = (0..length as u32).map(request).collect();
    median_of((400_000 / length).max(5), length, |_| {
        seed += 1;
        let mut frames = policy.frames(settings, seed).expect("the settings are good");
        let start = Instant::now();
        for request in &requests {
            frames.place(request, &recency).expect("built-in policies stay in the pool");
        }
        start.elapsed()
    })
}

/// Measures a placement under eviction. `between` random pages of the pages placed last are touched before
/// each placement.
fn evicting(policy: &Policy, settings: &Settings, between: u64) -> f64 {
    let run = |placing: bool| {
        let mut frames = policy.frames(settings, 1).expect("the settings are good");
        let mut recency = Recency::new();
        let (mut now, mut page) = (0, 0);
        let mut piece = |count: u64| {
            let requests: Vec<PageRequest> = (page..page + count).map(|page| request(page as u32)).collect();
            let start = Instant::now();
            for request in &requests {
                for _ in 0..between.min(page) {
                    now += 1;
                    let last = page.min(settings.frames);
                    let back = Rng::new(3).below(Stream::new(Domain::Test, 0), now, last) + 1;
                    recency.note(PageId((page - back) as u32), now);
                }
                now += 1;
                recency.note(request.page, now);
                if placing {
                    frames.place(request, &recency).expect("built-in policies stay in the pool");
                }
                page += 1;
            }
            start.elapsed()
        };
        piece(settings.frames + 8192);
        // Pools of every size are measured over equally many frames.
        let length = (400_000 / settings.pool).clamp(50, 2_000);
        median_of(50, length, piece)
    };
    run(true) - run(false)
}

/// Measures a touch of one of `pages` known pages in random order.
fn touching(pages: u64) -> f64 {
    let mut spaces = Spaces::new(PowerOfTwo::from_log2(12), Bytes(4096));
    let mut sum = 0u64;
    for page in 0..pages {
        sum += u64::from(spaces.touch(Asid(1), PageNo(page), false).expect("few pages").page.0);
    }
    let mut index = 0;
    let time = median_of(100, 10_000, |count| {
        let order: Vec<PageNo> = (0..count)
            .map(|i| PageNo(Rng::new(4).below(Stream::new(Domain::Test, 0), index + i, pages)))
            .collect();
        index += count;
        let start = Instant::now();
        for &page in &order {
            sum += u64::from(spaces.touch(Asid(1), page, false).expect("few pages").page.0);
        }
        start.elapsed()
    });
    assert!(sum > 0);
    time
}

fn head(text: &str, columns: impl IntoIterator<Item = String>) {
    println!("{text:24}{}", columns.into_iter().map(|column| format!("{column:>8}")).collect::<String>());
}

fn decisions() {
    let draws = collect(STATES * FAULTS as usize * PIECES * PIECE);
    println!("One decision, ns, one segment, by bins:");
    println!(
        "{:24}{:32}{:32}{:32}{:32}",
        "", "  in a row, half full", "  evicting", "  alone, half full", "  evicting"
    );
    for Size { frames, pool } in SIZES {
        let title = format!("pool of {pool} of {frames}");
        head(&title, [BINS; 4].concat().iter().map(ToString::to_string));
        for policy in placement::POLICIES {
            let settings = BINS.map(|bins| {
                let bins = PowerOfTwo::new(Bytes(bins)).expect("a power of two");
                Settings { bins, ..Settings::new(frames, pool) }
            });
            if policy.build(&settings[0]).is_none() {
                continue;
            }
            let times = settings.map(|settings| deciding(policy, &settings, draws.clone()));
            let columns = [(0, 0), (0, 1), (1, 0), (1, 1)].into_iter();
            let columns =
                columns.flat_map(|(how, state)| times.map(|time| format!("{:.1}", time[how][state])));
            head(policy.name, columns);
        }
    }
}

fn placements() {
    println!("\nOne placement, ns, 256 bins or colors:");
    for Size { frames, pool } in SIZES {
        head(&format!("pool of {pool} of {frames}"), ["filling", "evicts"].map(String::from));
        let settings = Settings {
            bins: PowerOfTwo::from_log2(8),
            colors: 256,
            fragmentation: 50,
            ..Settings::new(frames, pool)
        };
        let sized = |policy: &&&Policy| !matches!(policy.name, "identity" | "recorded");
        for policy in placement::POLICIES.iter().filter(sized) {
            let (fill, evict) = (filling(policy, &settings), evicting(policy, &settings, 10));
            head(policy.name, [fill, evict].map(|time| format!("{time:.0}")));
        }
    }
}

fn walking(kind: TableKind, pages: u32) -> Result<f64> {
    let page = PowerOfTwo::from_log2(12);
    let config = TableConfig {
        kind,
        page,
        entry: kind.form().usual_entry(kind),
        reserve: 65_536,
        frames: pages.into(),
    };
    let mut tables = PageTables::new(&config)?;
    let place = |number: u32| (Asid(number % 4), PageNo(0x5_5555 + u64::from(number / 4)));
    for number in 0..pages {
        let (asid, page_no) = place(number);
        tables.map(asid, page_no, PageId(number), 12)?;
    }
    let draw = |index: u64| Rng::new(6).below(Stream::new(Domain::Test, 0), index, pages.into()) as u32;
    let mut steps = Vec::new();
    let mut times = Vec::new();
    for piece in 0..256 {
        let numbers: Vec<u32> = (0..PIECE).map(|i| draw((piece * PIECE + i) as u64)).collect();
        let start = Instant::now();
        for number in numbers {
            steps.clear();
            let (asid, page_no) = place(number);
            std::hint::black_box(tables.walk(asid, page_no, &mut steps));
            std::hint::black_box(&steps);
        }
        times.push(start.elapsed().as_secs_f64() * 1e9 / PIECE as f64);
    }
    Ok(median(times))
}

fn main() {
    decisions();
    placements();
    println!("\nOne touch, ns:");
    for pages in [1_000, 100_000] {
        println!("{pages:7} known pages at random {:5.1}", touching(pages));
    }
    println!("\nOne walk, ns:");
    let radix = |levels| TableKind::Radix { levels };
    for kind in [TableKind::Mips, radix(4), radix(5), TableKind::Hashed, TableKind::Inverted] {
        for pages in [1_000, 100_000] {
            let time = walking(kind, pages).expect("the pages fit");
            println!("{pages:7} known pages at random {time:5.1}  {kind:?}");
        }
    }
}
