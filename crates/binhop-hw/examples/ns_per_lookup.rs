//! `ns_per_lookup` measures the time of one lookup in a TLB. The command is
//! `cargo run --release -p binhop-hw --example ns_per_lookup`.
//!
//! Each figure is the best of 100 passes over one stream kept in memory, because other work on the machine can only add
//! time. "hits" looks up pages drawn uniformly from half of the TLB. "fills" looks up twice as many pages in turn as
//! the TLB has entries, and fills after each miss; every lookup misses, except under random replacement. "steps" makes
//! references as a program does: 85% are to the page of the reference before, and are dropped.

use std::{hint::black_box, time::Instant};

use binhop_base::{Domain, Rng, Stream};
use binhop_hw::{DATA_PORT, FETCH_PORT, Mmu, MmuConfig, TlbConfig, TlbOutcome, TlbPage, TlbReplacement};

const REFERENCES: u64 = 1 << 18;

fn best_ns(mut pass: impl FnMut()) -> f64 {
    let time = |_| {
        let start = Instant::now();
        pass();
        start.elapsed().as_nanos() as f64 / REFERENCES as f64
    };
    (0..100).map(time).fold(f64::INFINITY, f64::min)
}

fn draw(index: u64, which: u64, below: u64) -> u64 {
    Rng::new(1).below(Stream::new(Domain::Test, which), index, below)
}

fn tlb(name: &str, entries: u32, ways: u32, replacement: TlbReplacement) -> TlbConfig {
    TlbConfig { name: name.into(), entries, ways, replacement, wired: 0, pages: vec![12], next: None }
}

fn mmu(tlbs: Vec<TlbConfig>, fetch: usize, data: usize) -> Mmu {
    let mut mmu = Mmu::new(&MmuConfig {
        base_log2: 12,
        tlbs,
        fetch: vec![fetch],
        data: vec![data],
        tagged: true,
        spaces: None,
        walk_caches: vec![],
    });
    mmu.switch(1);
    mmu
}

/// Looks up every page, and fills after each miss. Returns the time of one lookup, and the share that missed.
fn measure(mut mmu: Mmu, pages: &[u64]) -> (f64, f64) {
    let ns = best_ns(|| {
        for &number in pages {
            let page = TlbPage { space: 1, number, size_log2: 12 };
            if black_box(mmu.look_up(DATA_PORT, page)) == TlbOutcome::Miss {
                mmu.fill(DATA_PORT, page);
            }
        }
    });
    (ns, share_missed(&mmu))
}

fn share_missed(mmu: &Mmu) -> f64 {
    let ports = mmu.counts().tlbs[0].ports;
    let sum = |of: fn(&binhop_hw::TlbPortCounters) -> u64| ports.iter().map(of).sum::<u64>() as f64;
    100.0 * sum(|port| port.misses) / sum(|port| port.accesses)
}

fn main() {
    for (entries, ways) in [(64, 64_u32), (1536, 12)] {
        for &replacement in TlbReplacement::ALL {
            let ways = if replacement == TlbReplacement::Plru { ways.next_power_of_two() } else { ways };
            let entries = entries / ways * ways;
            let made = || mmu(vec![tlb("tlb", entries, ways, replacement)], 0, 0);
            let near: Vec<u64> =
                (0..REFERENCES).map(|index| draw(index, 0, u64::from(entries) / 2)).collect();
            let turns: Vec<u64> = (0..REFERENCES).map(|index| index % (2 * u64::from(entries))).collect();
            let (hits, hits_missed) = measure(made(), &near);
            let (fills, fills_missed) = measure(made(), &turns);
            let name = format!("{entries} entries, {ways} ways, {}", replacement.name());
            println!(
                "{name:<32} hits {hits:6.2} ns/lookup ({hits_missed:.1}% missed)   \
                 fills {fills:6.2} ns ({fills_missed:.1}% missed)"
            );
        }
    }

    // A third of the references are data; the page of a port changes at 15% of its references.
    let mut last = [0, 0];
    let steps: Vec<(usize, u64)> = (0..REFERENCES)
        .map(|index| {
            let port = if draw(index, 1, 3) == 0 { DATA_PORT } else { FETCH_PORT };
            if draw(index, 2, 100) < 15 {
                let pages = if draw(index, 3, 100) < 98 { 24 } else { 1000 };
                last[port] = 4096 * port as u64 + draw(index, 4, pages);
            }
            (port, last[port])
        })
        .collect();
    let lru = TlbReplacement::Lru;
    let with_next = |tlb: TlbConfig| TlbConfig { next: Some(2), ..tlb };
    let two_levels = vec![
        with_next(tlb("itlb", 64, 64, lru)),
        with_next(tlb("dtlb", 72, 72, lru)),
        tlb("stlb", 1536, 12, lru),
    ];
    for (name, mut mmu) in [
        ("unified, 64 entries, lru", mmu(vec![tlb("tlb", 64, 64, lru)], 0, 0)),
        ("unified, 64 entries, random", mmu(vec![tlb("tlb", 64, 64, TlbReplacement::Random)], 0, 0)),
        ("split, 64 + 72, second 1536, lru", mmu(two_levels, 0, 1)),
    ] {
        let ns = best_ns(|| {
            for (now, &(port, number)) in steps.iter().enumerate() {
                if mmu.is_last(port, number) {
                    mmu.note_last_use(port, 1, now as u64);
                    continue;
                }
                let page = TlbPage { space: 1, number, size_log2: 12 };
                if black_box(mmu.look_up(port, page)) == TlbOutcome::Miss {
                    mmu.fill(port, page);
                }
            }
        });
        println!("{name:<32} steps {ns:5.2} ns/reference ({:.2}% missed)", share_missed(&mmu));
    }
}
