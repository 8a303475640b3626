//! `dma_bench` measures the events per second of each scheme for device data. The command is
//! `cargo run --release -p binhop-hw --example dma_bench`.
//!
//! The stream is fixed: 4 M events, kept in memory and repeated 10 times. A device writes requests of 64 KiB, which
//! the processor reads and later evicts; the processor reads and writes back lines of its own; a device reads
//! requests that the processor wrote. The shares are about those of file-copy in TB10: 33% processor reads, 28%
//! processor writes, 20% reads of devices, 19% writes of devices. The figure is the mean of the repetitions, so other
//! work on the machine makes it smaller. It contains the simulation alone.

use std::{hint::black_box, time::Instant};

use binhop_base::{Domain, Rng, Stream};
use binhop_hw::{FixedLatency, SchemeConfig, SchemeKind, TapEvent, WritePolicy, make_scheme};

const EVENTS: usize = 4 << 20;
const REPEATS: usize = 10;
/// The number of lines in a request.
const REQUEST: u64 = 1024;
/// The lines of the buffers, then of the processor's own data, then of the data that devices read.
const BUFFERS: u64 = 1 << 20;
const OWN: u64 = 1 << 18;
const SENT: u64 = 1 << 20;
const OWN_FROM: u64 = BUFFERS;
const SENT_FROM: u64 = BUFFERS + OWN;

fn draw(index: u64, which: u64, below: u64) -> u64 {
    Rng::new(1).below(Stream::new(Domain::Test, which), index, below)
}

fn stream() -> Vec<TapEvent> {
    let mut events = Vec::with_capacity(EVENTS + 8 * REQUEST as usize);
    let mut request = 0;
    while events.len() < EVENTS {
        let number = u64::from(request);
        let (from, to) = (number * REQUEST % BUFFERS, SENT_FROM + number * REQUEST % SENT);
        let lines = 0..REQUEST;
        events.extend(lines.clone().map(|at| TapEvent::DeviceWrite {
            line: from + at,
            whole: true,
            request,
        }));
        for at in lines.clone() {
            let own = OWN_FROM + draw(number * REQUEST + at, 0, OWN);
            events.push(TapEvent::Read { line: from + at, store: false });
            events.push(TapEvent::CleanEviction { line: from + at, whole: true });
            events.push(TapEvent::WriteBack { line: to + at });
            if at % 4 < 2 {
                events.push(TapEvent::Read { line: own, store: true });
                events.push(TapEvent::WriteBack { line: own });
            } else {
                events.push(TapEvent::Read { line: own, store: false });
                events.push(TapEvent::CleanEviction { line: own, whole: true });
            }
        }
        let late = SENT_FROM + (number + SENT / REQUEST / 2) * REQUEST % SENT;
        events.extend(lines.map(|at| TapEvent::DeviceRead { line: late + at, request }));
        request += 1;
    }
    events.truncate(EVENTS);
    events
}

fn main() {
    let events = stream();
    for &kind in SchemeKind::ALL {
        for write in [WritePolicy::Back, WritePolicy::Through] {
            if write == WritePolicy::Back && !kind.has_write_policy() {
                continue;
            }
            let config = SchemeConfig { write, ..SchemeConfig::tb10(kind) };
            let mut scheme = make_scheme(&config).expect("the machine of TB10 is accepted");
            let mut memory = FixedLatency { cycles: 200 };
            let start = Instant::now();
            for _ in 0..REPEATS {
                for &event in &events {
                    black_box(scheme.event(event, &mut memory));
                }
            }
            let seconds = start.elapsed().as_secs_f64();
            let million = (REPEATS * events.len()) as f64 / 1e6;
            println!(
                "{:<14} write {:<7} {million:.0} M events in {seconds:5.2} s: {:5.1} M events/s, {} cycles",
                kind.name(),
                if kind.has_write_policy() { write.name() } else { "-" },
                million / seconds,
                scheme.counters().classes.iter().map(|class| class.cycles).sum::<u64>(),
            );
        }
    }
}
