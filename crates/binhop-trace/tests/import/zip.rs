//! These tests read zip archives: every form of an entry's length, and archives that are refused.

use std::io::{Cursor, Write};

use super::Drip;
use binhop_trace::input::Input;

/// The form in which entries are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Lengths before the data.
    Stored,
    Deflated,
    /// Lengths of 64 bits before the data.
    Stored64,
    Deflated64,
    /// Lengths behind the data, with or without a signature, of 32 or 64 bits.
    Behind,
    BehindBare,
    Behind64,
}

pub(super) const WAYS: [Way; 7] =
    [Way::Stored, Way::Deflated, Way::Stored64, Way::Deflated64, Way::Behind, Way::BehindBare, Way::Behind64];

/// Returns the number of bytes behind the last entry.
pub(super) fn directory(entries: &[(&str, &[u8])]) -> usize {
    entries.iter().map(|(name, _)| 46 + name.len()).sum::<usize>() + 22
}

pub(super) fn archive(entries: &[(&str, &[u8])], way: Way) -> Vec<u8> {
    let (mut out, mut central) = (Vec::new(), Vec::new());
    for &(name, data) in entries {
        let start = out.len() as u32;
        entry(&mut out, name, data, way);
        central.extend(b"PK\x01\x02\x14\x00");
        central.extend(&out[start as usize + 4..start as usize + 28]);
        central.extend([0; 12]);
        central.extend(start.to_le_bytes());
        central.extend(name.as_bytes());
    }
    let (at, size, number) = (out.len() as u32, central.len() as u32, entries.len() as u16);
    out.extend(central);
    out.extend(b"PK\x05\x06\0\0\0\0");
    out.extend(number.to_le_bytes());
    out.extend(number.to_le_bytes());
    out.extend(size.to_le_bytes());
    out.extend(at.to_le_bytes());
    out.extend([0; 2]);
    out
}

fn entry(out: &mut Vec<u8>, name: &str, data: &[u8], way: Way) {
    let stored = matches!(way, Way::Stored | Way::Stored64);
    let behind = matches!(way, Way::Behind | Way::BehindBare | Way::Behind64);
    let wide = matches!(way, Way::Stored64 | Way::Deflated64 | Way::Behind64);
    let packed = if stored { data.to_vec() } else { deflate(data) };
    let mut crc = flate2::Crc::new();
    crc.update(data);
    let sizes = [packed.len() as u64, data.len() as u64];
    out.extend(b"PK\x03\x04\x14\x00");
    out.extend(if behind { 8_u16 } else { 0 }.to_le_bytes());
    out.extend(if stored { 0_u16 } else { 8 }.to_le_bytes());
    out.extend([0; 4]);
    out.extend(if behind { 0 } else { crc.sum() }.to_le_bytes());
    for size in sizes {
        let size = if wide {
            u32::MAX
        } else if behind {
            0
        } else {
            size as u32
        };
        out.extend(size.to_le_bytes());
    }
    out.extend((name.len() as u16).to_le_bytes());
    // Another extra field, a time, comes first.
    let mut extra = b"UT\x05\x00\x01....".to_vec();
    if wide {
        extra.extend([1, 0, 16, 0]);
        for size in [sizes[1], sizes[0]] {
            extra.extend(if behind { 0 } else { size }.to_le_bytes());
        }
    }
    out.extend((extra.len() as u16).to_le_bytes());
    out.extend(name.as_bytes());
    out.extend(extra);
    out.extend(packed);
    if behind {
        if way != Way::BehindBare {
            out.extend(b"PK\x07\x08");
        }
        out.extend(crc.sum().to_le_bytes());
        for size in sizes {
            out.extend(&size.to_le_bytes()[..if wide { 8 } else { 4 }]);
        }
    }
}

fn deflate(data: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

fn read(bytes: &[u8], step: usize) -> Result<Vec<u8>, String> {
    let drip = Drip { from: Cursor::new(bytes.to_vec()), step };
    let mut input = Input::from_reader("test", drip).map_err(|problem| problem.to_string())?;
    let mut all = vec![0; 1 << 20];
    let length = input.fill(&mut all).map_err(|problem| problem.to_string())?;
    all.truncate(length);
    Ok(all)
}

#[test]
fn entries_of_every_form_are_one_stream() {
    let long: Vec<u8> = (0..100_000_u32).flat_map(|n| (n ^ n << 7).to_le_bytes()).collect();
    let entries: &[(&str, &[u8])] =
        &[("chunk.0000", b"first"), ("chunk.0001", &long), ("none", b""), ("chunk.0002", b"last")];
    let whole: Vec<u8> = entries.iter().flat_map(|(_, data)| data.to_vec()).collect();
    for way in WAYS {
        for step in [1, 1000, usize::MAX] {
            assert_eq!(read(&archive(entries, way), step).as_ref(), Ok(&whole), "{way:?}");
        }
    }
}

#[test]
fn directories_and_the_notes_of_another_system_are_skipped() {
    let entries: &[(&str, &[u8])] = &[("dir/", b""), ("__MACOSX/._a", b"notes"), ("dir/a", b"text")];
    for way in [Way::Stored, Way::Deflated, Way::Behind] {
        assert_eq!(read(&archive(entries, way), 9), Ok(b"text".to_vec()));
    }
}

#[test]
fn a_cut_archive_is_refused() {
    let entries: &[(&str, &[u8])] = &[("a", b"some text of an entry"), ("b", b"and another")];
    for way in WAYS {
        let whole = archive(entries, way);
        for length in 4..whole.len() {
            let problem = read(&whole[..length], usize::MAX).unwrap_err();
            assert!(problem.contains("ends in the middle"), "{way:?} cut at {length}: {problem}");
        }
    }
}

#[test]
fn a_wrong_checksum_or_length_is_found() {
    let entries: &[(&str, &[u8])] = &[("a", b"some text of an entry, stored as it is")];
    for way in [Way::Stored, Way::Behind, Way::BehindBare, Way::Behind64] {
        let mut wrong = archive(entries, way);
        let at = wrong.len() - directory(entries) - 1;
        wrong[at] ^= 1;
        let problem = read(&wrong, usize::MAX).unwrap_err();
        assert!(problem.starts_with("test: zip data: is damaged (an entry"), "{way:?}: {problem}");
    }
}

#[test]
fn other_entries_are_refused_by_name() {
    let whole = archive(&[("a.din", b"0 1000\n")], Way::Stored);
    let with = |at: usize, byte: u8| {
        let mut bytes = whole.clone();
        bytes[at] = byte;
        read(&bytes, usize::MAX).unwrap_err()
    };
    for (problem, reason) in [
        (with(8, 93), "entry a.din is packed by method 93 (zstd); only stored and deflated entries are read"),
        (with(8, 12), "packed by method 12 (bzip2)"),
        (with(8, 77), "packed by method 77 (unknown)"),
        (with(6, 1), "entry a.din is encrypted"),
    ] {
        assert!(problem.contains(reason) && problem.contains("`unzip -p FILE |"), "{problem}");
    }
    let mut endless = archive(&[("a.din", b"")], Way::Stored);
    endless[6] = 8;
    assert!(read(&endless, usize::MAX).unwrap_err().contains("its end cannot be found"));
}
