//! What a placement and a touch cost: `cargo run --release -p binhop-os --example cost`.
//!
//! Memory of 8192 frames, a pool of 256, the policy `random`, one million placements in all: in memories
//! never full (a new one each 7,900 placements), and under steady eviction with three kinds of traffic between
//! two faults. Each figure is the median over pieces of some thousand placements, each too short for other
//! programs on the machine to come between.

use std::time::{Duration, Instant};

use binhop_base::{Asid, Bytes, Domain, PageId, PageNo, PowerOfTwo, Rng, Stream};
use binhop_os::{Frames, Recency, Request, SegmentId, Spaces, placement};

const FRAMES: u64 = 8192;
const POOL: u64 = 256;
const PLACEMENTS: u64 = 1_000_000;

fn memory(seed: u64) -> Frames {
    let policy =
        placement::policy("random").and_then(placement::Policy::build).expect("it picks from a pool");
    Frames::new(FRAMES, POOL, policy, seed).expect("a pool smaller than memory")
}

fn place(frames: &mut Frames, recency: &Recency, page: u32) {
    let page_no = PageNo(page.into());
    let request = Request { page: PageId(page), asid: Asid(0), page_no, segment: SegmentId(0) };
    frames.place(&request, recency).expect("random stays in the pool");
}

/// The median, over the pieces of `PLACEMENTS`, of the nanoseconds for each. `piece` does what is measured a
/// number of times and says how long that took.
fn median(length: u64, mut piece: impl FnMut(u64) -> Duration) -> f64 {
    let nanoseconds = |time: Duration| time.as_nanos() as f64 / length as f64;
    let mut times: Vec<f64> = (0..PLACEMENTS / length).map(|_| nanoseconds(piece(length))).collect();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// A placement while unused frames remain; making the memories is not counted.
fn filling() -> f64 {
    let recency = Recency::new();
    let mut seed = 0;
    median(FRAMES - POOL - 36, |count| {
        seed += 1;
        let mut frames = memory(seed);
        let start = Instant::now();
        for page in 0..count {
            place(&mut frames, &recency, page as u32);
        }
        start.elapsed()
    })
}

/// A placement under eviction, `between` random pages of the last 8192 touched before it. The time of the
/// touches themselves, run alone, is taken off.
fn evicting(between: u64) -> f64 {
    let run = |placing: bool| {
        let mut frames = memory(1);
        let mut recency = Recency::new();
        let (mut now, mut page) = (0, 0);
        let mut piece = |count: u64| {
            let start = Instant::now();
            for _ in 0..count {
                for _ in 0..between.min(page) {
                    now += 1;
                    let back = Rng::new(3).below(Stream::new(Domain::Test, 0), now, page.min(FRAMES)) + 1;
                    recency.note(PageId((page - back) as u32), now);
                }
                now += 1;
                recency.note(PageId(page as u32), now);
                if placing {
                    place(&mut frames, &recency, page as u32);
                }
                page += 1;
            }
            start.elapsed()
        };
        piece(2 * FRAMES);
        median(2_000, piece)
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
    let time = median(10_000, |count| {
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
    println!("placement, unused frames remain           {:7.0} ns", filling());
    for between in [0, 10, 100] {
        println!("placement, evicting, {between:3} touches between {:7.0} ns", evicting(between));
    }
    for pages in [1_000, 100_000] {
        println!("touch, {pages:6} known pages at random     {:7.1} ns", touching(pages));
    }
}
