//! What a decision, a placement and a touch cost: `cargo run --release -p binhop-os --example cost`.
//!
//! - A *decision* is [`Placement::choose`] alone, asked again and again about one state of memory: half full, one
//!   segment, by bins and by the size of the pool. A decision changes nothing but a pointer, so the
//!   state stays as it is; the request and the draws differ each time.
//! - A *placement* is the whole of [`Frames::place`], under steady eviction: 8192 frames, ten random pages of the last
//!   8192 touched between two faults (the touches' own time, measured alone, taken off), and in a memory never
//!   full. A policy with lists of its own has no other decision.
//! - A *touch* is a page looked up by its address.
//!
//! Each figure is the median over pieces of some thousand, each too short for other programs on the machine to
//! come between.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use binhop_base::{Asid, Bytes, Domain, FrameNo, PageId, PageNo, PowerOfTwo, Result, Rng, Stream};
use binhop_os::placement::{self, Draws, Placement, Policy, Settings};
use binhop_os::{Counts, Frames, Pool, Recency, Request, SegmentId, Spaces};

const FRAMES: u64 = 8192;
const PLACEMENTS: u64 = 400_000;

fn request(page: u32) -> Request {
    let (page_no, segment) = (PageNo(page.into()), SegmentId(0));
    Request { page: PageId(page), asid: Asid(0), page_no, segment, segments: Arc::new([segment]) }
}

/// The median, over the pieces of `total`, of the nanoseconds for each. `piece` does what is measured a number
/// of times and says how long that took.
fn median(total: u64, length: u64, mut piece: impl FnMut(u64) -> Duration) -> f64 {
    let nanoseconds = |time: Duration| time.as_nanos() as f64 / length as f64;
    let mut times: Vec<f64> = (0..total / length).map(|_| nanoseconds(piece(length))).collect();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// A policy that, asked once, asks another a thousand times over and notes how long one answer takes.
struct Timing {
    inner: Box<dyn Placement>,
    took: Arc<Mutex<f64>>,
}

impl Placement for Timing {
    fn name(&self) -> &str {
        "timing"
    }

    fn counts(&self) -> Option<Counts> {
        self.inner.counts()
    }

    fn choose(&mut self, of: &Request, pool: &Pool<'_>, draws: Draws) -> Result<FrameNo> {
        if draws.fault() < FRAMES / 2 {
            return self.inner.choose(of, pool, draws);
        }
        let mut requests: Vec<Request> = (0..1000).map(request).collect();
        requests
            .iter_mut()
            .for_each(|request| request.page_no.0 = draws.below(request.page_no.0 + 9, 1 << 30));
        let time = median(20_000, 1000, |_| {
            let start = Instant::now();
            for request in &requests {
                std::hint::black_box(self.inner.choose(request, pool, draws).is_ok());
            }
            start.elapsed()
        });
        *self.took.lock().unwrap_or_else(PoisonError::into_inner) = time;
        self.inner.choose(of, pool, draws)
    }
}

/// One decision in a memory half full of one segment's pages; the median over some faults.
fn deciding(policy: &Policy, settings: &Settings) -> f64 {
    let took = Arc::new(Mutex::new(0.0));
    let inner = policy.build(settings).expect("it picks from a pool");
    let timing = Timing { inner, took: Arc::clone(&took) };
    let mut frames =
        Frames::new(FRAMES, settings.pool, Box::new(timing), 1).expect("a pool smaller than memory");
    let recency = Recency::new();
    let mut times = Vec::new();
    for page in 0..(FRAMES / 2 + 15) as u32 {
        frames.place(&request(page), &recency).expect("built-in policies stay in the pool");
        times.push(*took.lock().unwrap_or_else(PoisonError::into_inner));
    }
    let mut times = times.split_off((FRAMES / 2) as usize);
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// A placement in a memory never full; making the memories is not counted.
fn filling(policy: &Policy, settings: &Settings) -> f64 {
    let recency = Recency::new();
    let mut seed = 0;
    let requests: Vec<Request> = (0..FRAMES as u32).map(request).collect();
    median(PLACEMENTS, FRAMES / 2, |count| {
        seed += 1;
        let mut frames = policy.frames(settings, seed).expect("the settings are good");
        let start = Instant::now();
        for request in &requests[..count as usize] {
            frames.place(request, &recency).expect("built-in policies stay in the pool");
        }
        start.elapsed()
    })
}

/// A placement under eviction, `between` random pages of the last 8192 touched before it.
fn evicting(policy: &Policy, settings: &Settings, between: u64) -> f64 {
    let run = |placing: bool| {
        let mut frames = policy.frames(settings, 1).expect("the settings are good");
        let mut recency = Recency::new();
        let (mut now, mut page) = (0, 0);
        let mut piece = |count: u64| {
            let requests: Vec<Request> = (page..page + count).map(|page| request(page as u32)).collect();
            let start = Instant::now();
            for request in &requests {
                for _ in 0..between.min(page) {
                    now += 1;
                    let back = Rng::new(3).below(Stream::new(Domain::Test, 0), now, page.min(FRAMES)) + 1;
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
        piece(2 * FRAMES);
        median(PLACEMENTS, 2_000, piece)
    };
    run(true) - run(false)
}

/// A touch of one of `pages` pages in random order, that the table of places knows.
fn touching(pages: u64) -> f64 {
    let mut spaces = Spaces::new(PowerOfTwo::from_log2(12), Bytes(4096));
    let mut sum = 0u64;
    for page in 0..pages {
        sum += u64::from(spaces.touch(Asid(1), PageNo(page), false).expect("few pages").page.0);
    }
    let mut index = 0;
    let time = median(1_000_000, 10_000, |count| {
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

fn main() {
    let bins = [64, 256, 1024, 4096].map(|bins| PowerOfTwo::new(Bytes(bins)).expect("a power of two"));
    println!("One decision, ns, one segment, by the number of bins:");
    for pool in [16, 256] {
        println!(
            "{:24} {}",
            format!("pool of {pool}"),
            bins.map(|bins| format!("{:>8}", bins.bytes())).join("")
        );
        for policy in placement::POLICIES {
            let settings = bins.map(|bins| Settings { bins, ..Settings::new(FRAMES, pool) });
            if policy.build(&settings[0]).is_none() {
                continue;
            }
            let times = settings.map(|settings| format!("{:8.1}", deciding(policy, &settings)));
            println!("{:24} {}", policy.name, times.join(""));
        }
    }
    println!("\nOne placement, ns, 8192 frames, pool of 256, 256 bins or colors:");
    println!("{:24} {:>12} {:>12}", "", "never full", "evicting");
    let settings = Settings {
        bins: PowerOfTwo::from_log2(8),
        colors: 256,
        fragmentation: 50,
        ..Settings::new(FRAMES, 256)
    };
    for policy in placement::POLICIES.iter().filter(|policy| !matches!(policy.name, "identity" | "recorded"))
    {
        let (fill, evict) = (filling(policy, &settings), evicting(policy, &settings, 10));
        println!("{:24} {fill:12.0} {evict:12.0}", policy.name);
    }
    println!("\nOne touch, ns:");
    for pages in [1_000, 100_000] {
        println!("{pages:7} known pages at random {:5.1}", touching(pages));
    }
}
