//! These tests check properties of every text format: delivery does not matter, no input panics, and runs touch the
//! lines of their fetches.

use std::io::Cursor;

use proptest::prelude::*;

use super::{Drip, Imported, drain, import_bytes, importer};
use binhop_trace::Op;
use binhop_trace::import::FORMATS;

/// Returns a line of a format, mostly a sound line. Addresses lie near each other, so that runs form and
/// break.
fn line(format: &str, label: usize, addr: u64, size: u32) -> String {
    match format {
        "din" if size > 15 => format!("{} {addr:x} {size}\n", label % 5),
        "din" => format!("{} {addr:x}\n", b"222013"[label] as char),
        "xdin" => format!("{} {addr:x} {size:x}\n", b"iirwmv"[label] as char),
        "text" if label == 5 => format!("switch asid={addr} tid={size}\n"),
        "text" => format!(
            "{} {addr:#x} size={size} count=1\n",
            ["fetch", "load", "store", "modify", "fetch"][label]
        ),
        "lackey" => format!("{} {addr:08x},{size}\n", ["I ", "I ", " L", " S", " M", "I "][label]),
        other => unreachable!("{other} is not among TEXTS"),
    }
}

/// The formats that are text. `line` makes the lines of each.
const TEXTS: [&str; 4] = ["din", "xdin", "lackey", "text"];

#[test]
fn every_text_format_has_lines_here() {
    let line =
        include_str!("properties.rs").lines().position(|line| line.starts_with("const TEXTS")).unwrap();
    let is_text = |byte: &u8| byte.is_ascii_graphic() || *byte == b' ';
    for format in FORMATS.iter().filter(|format| format.example.iter().all(is_text)) {
        let name = format.name;
        let place = format!("{}:{}", file!(), line + 1);
        assert!(TEXTS.contains(&name), "{place}: add {name} here, and its lines to the function above");
    }
}

fn texts() -> impl Strategy<Value = (&'static str, String)> {
    let lines = proptest::collection::vec((0..6_usize, 0..64_u64, 1..20_u32), 1..200);
    (0..TEXTS.len(), lines).prop_map(|(format, lines)| {
        let name = TEXTS[format];
        (name, lines.into_iter().map(|(label, addr, size)| line(name, label, addr, size)).collect())
    })
}

fn outcome(
    it: binhop_base::Result<Imported>,
) -> binhop_base::Result<(Vec<super::Row>, Vec<usize>, Vec<String>)> {
    it.map(|it| (it.rows, it.batches, it.notes))
}

/// Pieces of the grammars, in any order.
const PIECES: &[&str] = &[
    "0",
    "2",
    "4",
    "r",
    "i",
    "c",
    " ",
    "  ",
    "\n",
    "\n",
    "\t",
    "\r",
    ",",
    "I  ",
    " L ",
    " S ",
    " M ",
    "0401ab70",
    "ffffffffffffffff",
    "8",
    "0",
    "==12== ",
    "--12-- ",
    "Command: ls",
    "  SCHED[1]: ",
    " acquired lock (x)",
    "releasing lock (",
    "SYSCALL[12,1](0)",
    " sys_read ( 3, 0x1ffe, 832 )",
    " sys_mmap ( 0x0, 8192, 3, 34, 4294967295, 0 )",
    " sys_munmap ( 0x1000, 4096 )",
    " ... ",
    "[async]",
    "[sync]",
    " --> ",
    "Success(0x10)",
    "Failure(0x2)",
    "[pre-success] ",
    "exit_group( 0 )",
    "(56) sys_clone ( 1200011, 0x0 )",
    "SYSCALL[13,2](231)",
    "clone(fork): process 12 created child 13",
    "0x",
    "fetch ",
    "map ",
    "flags=rw-",
    "count=",
    "# meta {",
    "# meta {\"page_size\":4096}",
    "(",
    ")",
    "\u{fc}",
    "\0",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn the_arrival_of_the_bytes_does_not_matter((format, text) in texts(), step in 1..9_usize) {
        let whole = outcome(import_bytes(format, text.clone()));
        prop_assert!(whole.is_ok() || !text.is_empty());
        let dripped = importer(format, Drip { from: Cursor::new(text.into_bytes()), step }).and_then(drain);
        prop_assert_eq!(whole, outcome(dripped));
    }

    #[test]
    fn random_bytes_never_panic(format in 0..FORMATS.len(), bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = import_bytes(FORMATS[format].name, bytes);
    }

    #[test]
    fn random_pieces_never_panic(
        format in 0..FORMATS.len(),
        pieces in proptest::collection::vec(proptest::sample::select(PIECES), 0..60),
    ) {
        let _ = import_bytes(FORMATS[format].name, pieces.concat());
    }

    #[test]
    fn damaged_recordings_never_panic(
        name in proptest::sample::select(&["threads.lackey", "processes.lackey"][..]),
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), 0..4_u8), 1..8),
    ) {
        let mut text = super::data(name).into_bytes();
        for (at, from, how) in damage {
            let (at, from) = (at.index(text.len()), from.index(text.len()));
            match how {
                0 => text[at] = text[from],
                1 => drop(text.remove(at)),
                2 => text.insert(at, text[from]),
                _ => drop(text.drain(at.min(from)..at.max(from).min(at.min(from) + 80))),
            }
        }
        let _ = import_bytes("lackey", text);
    }

    /// A din run covers the words of its lines in their order, and no other word. So it makes the same
    /// misses.
    #[test]
    fn runs_touch_the_words_of_their_lines(steps in proptest::collection::vec((0..8_u8, 0..20_u64), 1..300)) {
        let (mut addr, mut text, mut want) = (0x1000_u64, String::from("1 0\n"), vec![(Op::Store, 0)]);
        let mut fetches = 0;
        for (kind, step) in steps {
            addr = if kind == 7 { addr - step.min(addr) } else { addr + step };
            let (label, op) = if kind == 6 { (0, Op::Load) } else { (2, Op::Fetch) };
            text += &format!("{label} {addr:x}\n");
            want.push((op, addr / 4));
            fetches += u64::from(op == Op::Fetch);
        }
        let it = import_bytes("din", text).unwrap();
        let mut got = Vec::new();
        for &(op, addr, size, ..) in &it.rows {
            got.extend((0..u64::from(size / 4)).map(|word| (op, addr / 4 + word)));
        }
        // A word that is fetched twice in sequence occurs once in a run.
        let repeated = |a: &mut (Op, u64), b: &mut (Op, u64)| a == b && a.0 == Op::Fetch;
        want.dedup_by(repeated);
        got.dedup_by(repeated);
        prop_assert_eq!(got, want);
        prop_assert_eq!(it.rows.iter().filter(|row| row.0 == Op::Fetch).map(|row| u64::from(row.3)).sum::<u64>(), fetches);
    }
}

#[test]
fn blocks_and_batches_do_not_change_long_texts() {
    for format in TEXTS {
        let mut state = 1_u64;
        let mut text = String::new();
        for _ in 0..150_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            text += &line(format, (state >> 40) as usize % 6, state >> 56, (state >> 50) as u32 % 19 + 1);
        }
        let whole = import_bytes(format, text.clone()).unwrap();
        assert!(whole.batches.len() > 1, "{format}: {:?}", whole.batches);
        for step in [7, 4096, 1 << 16] {
            let drip = Drip { from: Cursor::new(text.clone().into_bytes()), step };
            let dripped = drain(importer(format, drip).unwrap()).unwrap();
            assert!(dripped.batches == whole.batches && dripped.rows == whole.rows, "{format}, {step}");
        }
        // Both halves of the text give the rows of the whole text, except for the run that the cut ends.
        let cut = text[..text.len() / 2].rfind("\n").unwrap() + 1;
        let halves = [&text[..cut], &text[cut..]].map(|half| import_bytes(format, half).unwrap());
        let instructions = |rows: &[super::Row]| rows.iter().map(|row| u64::from(row.3)).sum::<u64>();
        assert_eq!(
            instructions(&whole.rows),
            halves.iter().map(|half| instructions(&half.rows)).sum::<u64>()
        );
        let rows = halves.iter().map(|half| half.rows.len()).sum::<usize>();
        assert!((whole.rows.len()..=whole.rows.len() + 1).contains(&rows));
    }
}
