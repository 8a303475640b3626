//! `lines_per_second` measures the speed of the importers; `make bench` runs it.
//!
//! One thread reads text from memory, counts the rows and drops them. The wall time and the processor time of
//! the thread are printed. On a busy machine only the processor time is meaningful.

use std::io::{Cursor, Write};
use std::time::Instant;

use super::importer;

/// Returns text like a program's: runs of 1 to 12 instructions, and a data reference behind each run.
fn text(format: &str, lines: u64) -> Vec<u8> {
    let mut state = 1_u64;
    let (mut text, mut addr, mut left) = (Vec::new(), 0x40_0000_u64, 0);
    for _ in 0..lines {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let random = state >> 33;
        let fetch = left > 0;
        if fetch {
            left -= 1;
            addr += 4;
        } else {
            left = random % 12 + 1;
            addr = 0x40_0000 + random % 0x4_0000 * 4;
        }
        let data = 0x7fff_0000 + random % 0x10_0000 * 4;
        let _ = match (format, fetch) {
            ("din", true) => writeln!(text, "2 {addr:x}"),
            ("din", false) => writeln!(text, "{} {data:x}", random & 1),
            ("xdin", true) => writeln!(text, "i {addr:x} 4"),
            ("xdin", false) => writeln!(text, "r {data:x} 8"),
            (_, true) => writeln!(text, "I  {addr:08x},4"),
            (_, false) => writeln!(text, " L {data:08x},8"),
        };
    }
    text
}

/// Returns the processor time of this thread in seconds.
fn on_processor() -> Option<f64> {
    let schedstat = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    schedstat.split(' ').next()?.parse::<f64>().ok().map(|nanoseconds| nanoseconds / 1e9)
}

#[test]
#[ignore = "a measurement, which `make bench` runs"]
fn lines_per_second() {
    const LINES: u64 = 10_000_000;
    for format in ["din", "xdin", "lackey"] {
        let text = text(format, LINES);
        let (wall, had) = (Instant::now(), on_processor());
        let mut importer = importer(format, Cursor::new(text)).unwrap();
        let mut rows = 0;
        while let Some(batch) = importer.next_batch().unwrap() {
            rows += batch.len();
        }
        let wall = wall.elapsed().as_secs_f64();
        let rate = |seconds: f64| LINES as f64 / seconds / 1e6;
        let busy = on_processor().zip(had).map(|(now, then)| now - then);
        let busy = busy
            .map_or(String::new(), |seconds| format!(", {:.1} M lines per processor second", rate(seconds)));
        println!("{format}: {rows} rows, {:.1} M lines/s{busy}", rate(wall));
    }
}
