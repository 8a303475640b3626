//! `reuse_bench` prints how fast the reuse distances of a recorded trace are measured, in lines and in pages.
//! Each figure is the best of three passes over the file, decoding included.
//!
//! `cargo run --release -p binhop-sim --example reuse_bench TRACE [REFERENCES]`
#![allow(clippy::unwrap_used)]

use std::time::Instant;

use binhop_base::Bytes;
use binhop_sim::reuse::{ReuseKinds, ReuseOptions, reuse};
use binhop_trace::TraceReader;

/// The Python extension uses the same allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const PASSES: usize = 3;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let length = arguments.get(2).map(|text| text.parse().unwrap());
    for unit in [64, 4096] {
        let options = ReuseOptions { unit: Bytes(unit), kinds: ReuseKinds::All, length, ahead: false };
        let mut best = f64::MAX;
        let mut units = 0;
        let mut references = 0;
        for _ in 0..PASSES {
            let source = Box::new(TraceReader::open(arguments[1].as_ref()).unwrap());
            let start = Instant::now();
            let found = reuse(source, &options, &mut |_| Ok(())).unwrap();
            best = best.min(start.elapsed().as_secs_f64());
            units = found.curve.units();
            references = found.references;
        }
        let rate = references as f64 / best / 1e6;
        println!("{unit:>4} bytes: {units:>8} units, {rate:.1} M references/s, {:.1} ns each", 1e3 / rate);
    }
}
