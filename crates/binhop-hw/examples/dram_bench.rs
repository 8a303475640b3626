//! `dram_bench` measures the requests per second of the memory controller. The command is
//! `cargo run --release -p binhop-hw --example dram_bench`.
//!
//! The stream is fixed: 8 M requests, kept in memory. A device makes half of the requests, line by line through 256
//! MiB. The processor makes the other half, at random in another 256 MiB. A third of all requests are writes.
//! Requests arrive as fast as the queues take them, so the controller always has a choice. The figure is the best
//! of three passes.

use std::{hint::black_box, time::Instant};

use binhop_base::{Domain, Rng, Stream};
use binhop_hw::{AddressMapping, DRAM_PRESETS, Dram, DramConfig, DramRequest, PagePolicy};

const REQUESTS: u64 = 8_000_000;
/// The processor's lines, and the first line of the device's buffers.
const OWN: u64 = 4 << 20;

fn draw(index: u64, which: u64, below: u64) -> u64 {
    Rng::new(1).below(Stream::new(Domain::Test, which), index, below)
}

fn stream() -> Vec<DramRequest> {
    let mut device = 0;
    (0..REQUESTS)
        .map(|index| {
            let is_device = index % 2 == 0;
            device += u64::from(is_device);
            let line = if is_device { OWN + device % OWN } else { draw(index, 0, OWN) };
            DramRequest {
                arrival: 0,
                line,
                write: draw(index, 1, 3) == 0,
                class: if is_device { 2 } else { 0 },
            }
        })
        .collect()
}

fn main() {
    let requests = stream();
    for preset in DRAM_PRESETS {
        let config = DramConfig {
            organisation: preset.organisation,
            timing: preset.timing,
            mapping: AddressMapping::parse(AddressMapping::ROW_FIRST, "mapping").expect("a mapping of ours"),
            queue: 32,
            drain_high: 24,
            drain_low: 8,
            pages: PagePolicy::Open,
        };
        let mut best = f64::INFINITY;
        for _ in 0..3 {
            let mut dram = Dram::new(config).expect("a preset can be built");
            let start = Instant::now();
            for request in &requests {
                dram.push(request, &mut ());
            }
            dram.finish(&mut ());
            best = best.min(start.elapsed().as_secs_f64());
            black_box(dram.counters());
        }
        println!("{:>10}: {:5.1} M requests/s", preset.name, REQUESTS as f64 / best / 1e6);
    }
}
