//! These tests check the input layer: packings, members, pipes, and their errors.

use std::fs::File;
use std::io::{Cursor, Read, Write};

use super::{Drip, drain, importer};
use binhop_trace::input::{Input, PACKINGS};

type Pack = fn(&[u8]) -> Vec<u8>;

const PACKERS: [Pack; 7] = [gzip, xz, zst, bzip2, lz4, zip, snappy];
const NAMES: [&str; 7] = ["gzip", "xz", "zstd", "bzip2", "lz4", "zip", "snappy"];

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

fn xz(text: &[u8]) -> Vec<u8> {
    let mut encoder = liblzma::write::XzEncoder::new(Vec::new(), 1);
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

fn zst(text: &[u8]) -> Vec<u8> {
    zstd::encode_all(text, 1).unwrap()
}

fn bzip2(text: &[u8]) -> Vec<u8> {
    let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

/// Packs with both checksums and with blocks that refer to earlier blocks, as `lz4` and drmemtrace do.
fn lz4(text: &[u8]) -> Vec<u8> {
    let info = lz4_flex::frame::FrameInfo::new()
        .block_size(lz4_flex::frame::BlockSize::Max64KB)
        .block_mode(lz4_flex::frame::BlockMode::Linked)
        .block_checksums(true)
        .content_checksum(true);
    let mut encoder = lz4_flex::frame::FrameEncoder::with_frame_info(info, Vec::new());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

fn snappy(text: &[u8]) -> Vec<u8> {
    let mut encoder = snap::write::FrameEncoder::new(Vec::new());
    encoder.write_all(text).unwrap();
    encoder.into_inner().unwrap()
}

fn zip(text: &[u8]) -> Vec<u8> {
    super::zip::archive(&[("a.din", text)], super::zip::Way::Deflated)
}

/// Returns text that stays long when it is packed: addresses from a fixed linear congruence.
fn text(lines: u64) -> Vec<u8> {
    let mut state: u64 = 1;
    let mut text = Vec::new();
    for _ in 0..lines {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        writeln!(text, "{} {:x}", (state >> 60) % 3, state >> 32).unwrap();
    }
    text
}

fn read_all(bytes: Vec<u8>) -> binhop_base::Result<Vec<u8>> {
    let mut input = Input::from_reader("test", Cursor::new(bytes))?;
    let mut all = vec![0; 2 << 20];
    let length = input.fill(&mut all)?;
    all.truncate(length);
    Ok(all)
}

#[test]
fn each_packing_is_unpacked() {
    let text = text(50_000);
    assert_eq!(read_all(text.clone()).unwrap(), text);
    for pack in PACKERS {
        assert!(read_all(pack(&text)).unwrap() == text);
    }
}

#[test]
fn consecutive_members_are_one_text() {
    let text = text(1000);
    for pack in PACKERS {
        // The members are cut in the middle of a line.
        let (first, second) = text.split_at(1234);
        let mut packed = pack(first);
        packed.extend(pack(second));
        assert!(read_all(packed).unwrap() == text);
    }
}

#[test]
fn packed_text_is_imported_like_plain_text_however_it_arrives() {
    let text = text(3000);
    let plain = drain(importer("din", Cursor::new(text.clone())).unwrap()).unwrap();
    for pack in PACKERS {
        for step in [1, 7, 1 << 16] {
            let drip = Drip { from: Cursor::new(pack(&text)), step };
            let it = drain(importer("din", drip).unwrap()).unwrap();
            assert_eq!((&it.rows, &it.batches), (&plain.rows, &plain.batches));
        }
    }
}

#[test]
fn a_truncated_packing_is_reported_as_truncated() {
    let text = text(10_000);
    for (pack, name) in PACKERS.into_iter().zip(NAMES) {
        let whole = pack(&text);
        for length in [12, 20, whole.len() / 2, whole.len() - 1] {
            let problem = match importer("din", Cursor::new(whole[..length].to_vec())).and_then(drain) {
                Ok(it) => panic!("{name} cut at {length} gave {} rows", it.rows.len()),
                Err(problem) => problem.to_string(),
            };
            assert!(
                problem.starts_with(&format!("test: {name} data: ends in the middle; ")),
                "{length}: {problem}"
            );
        }
    }
}

#[test]
fn a_damaged_packing_is_refused() {
    let text = text(10_000);
    for (pack, name) in PACKERS.into_iter().zip(NAMES) {
        let mut packed = if name == "zstd" { zstd_with_checksum(&text) } else { pack(&text) };
        let middle = packed.len() / 2;
        packed[middle] ^= 0x10;
        let problem = read_all(packed).unwrap_err().to_string();
        assert!(problem.starts_with(&format!("test: {name} data: is damaged (")), "{problem}");
    }
}

fn zstd_with_checksum(text: &[u8]) -> Vec<u8> {
    let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
    encoder.include_checksum(true).unwrap();
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn an_empty_input_is_refused() {
    let expected =
        "test: 0 bytes: a trace holds at least one reference; check the command that should have written it";
    assert_eq!(read_all(Vec::new()).unwrap_err().to_string(), expected);
    // The importer refuses packed data of 0 bytes, because it holds no reference.
    for pack in PACKERS.into_iter().filter(|pack| !pack(b"").is_empty()) {
        let problem = importer("din", Cursor::new(pack(b""))).and_then(drain).err().unwrap().to_string();
        assert!(problem.starts_with("test: 0 lines: a trace holds at least one reference; "), "{problem}");
    }
}

#[test]
fn every_packing_is_tested() {
    let listed: Vec<&str> = PACKINGS.iter().map(|(name, _)| *name).collect();
    assert_eq!(listed, NAMES);
}

#[test]
fn other_containers_are_refused_with_a_remedy() {
    for (head, name, way) in [
        (&b"\x1f\x9d......"[..], "compress", "uncompress -c FILE |"),
        (b"\x02\x21\x4c\x18....", "legacy lz4", "lz4 -dc FILE |"),
        (b"LZIP\x01...", "lzip", "lzip -dc FILE |"),
        (b"7z\xbc\xaf\x27\x1c..", "7-Zip", "7z x -so FILE |"),
        (b"PK\x05\x06....", "empty zip", "check the command"),
        (b"PAR1....", "Parquet", "binhop run"),
    ] {
        let problem = read_all(head.to_vec()).unwrap_err().to_string();
        assert!(problem.starts_with(&format!("test: {name}: ")) && problem.contains(way), "{problem}");
        assert!(problem.contains("gzip, xz, zstd, bzip2, lz4, zip, snappy"), "{problem}");
    }
}

/// An input that is cut anywhere, or has any flipped bit, is read or refused.
#[test]
fn damaged_inputs_are_read_or_refused() {
    let text = text(40);
    for (pack, name) in PACKERS.into_iter().zip(NAMES) {
        let whole = pack(&text);
        for length in 0..whole.len() {
            // The input is refused, or too short to be told from plain bytes. A cut between two frames of
            // Snappy cannot be noticed.
            let Ok(read) = read_all(whole[..length].to_vec()) else { continue };
            let plain = length < 10 && read == whole[..length];
            assert!(plain || name == "snappy" && text.starts_with(&read), "{name} cut at {length}");
        }
        for at in 0..whole.len() {
            for bit in [0x01, 0x80] {
                let mut damaged = whole.clone();
                damaged[at] ^= bit;
                let _ = read_all(damaged);
            }
        }
    }
}

/// A thousand million zeros in a few kB are read in pieces and never held.
#[test]
fn an_input_that_unpacks_to_gigabytes_is_read_in_pieces() {
    let zeros = vec![b'0'; 32 << 20];
    for (pack, name) in PACKERS.into_iter().zip(NAMES) {
        let packed = pack(&zeros);
        assert!(packed.len() < zeros.len() / 15, "{name}");
        let problem = importer("din", Cursor::new(packed)).and_then(drain).err().unwrap().to_string();
        assert!(problem.contains("is longer than 16777215 bytes"), "{name}: {problem}");
    }
}

#[test]
fn an_unreadable_path_is_named() {
    let problem = |path: &str| Input::open(path).err().unwrap().to_string();
    assert_eq!(
        problem("/no/such.din"),
        "/no/such.din: cannot be opened (No such file or directory (os error 2)); check the path; `-` reads standard input"
    );
    assert!(problem("/tmp").starts_with("/tmp: is a directory, "));
}

#[test]
fn a_failing_reader_is_not_called_damaged() {
    struct Fails(Cursor<Vec<u8>>);
    impl Read for Fails {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            match self.0.read(buffer)? {
                0 => Err(std::io::Error::from_raw_os_error(5)),
                more => Ok(more),
            }
        }
    }
    for bytes in [b"0 1\n0 2\n".to_vec(), gzip(b"0 1\n0 2\n")[..15].to_vec()] {
        let problem = importer("din", Fails(Cursor::new(bytes))).and_then(drain).err().unwrap().to_string();
        assert_eq!(
            problem,
            "test: cannot be read (Input/output error (os error 5)); check the disk, or the program that writes it"
        );
    }
}

#[test]
fn an_interrupted_read_continues() {
    struct Interrupted(Cursor<Vec<u8>>, bool);
    impl Read for Interrupted {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            self.1 = !self.1;
            if self.1 { Err(std::io::ErrorKind::Interrupted.into()) } else { self.0.read(buffer) }
        }
    }
    let it =
        drain(importer("din", Interrupted(Cursor::new(b"0 10\n1 20\n".to_vec()), false)).unwrap()).unwrap();
    assert_eq!(it.plain(), [("load", 0x10, 4, 1), ("store", 0x20, 4, 1)]);
}

#[test]
fn a_named_file_is_read() {
    let path = std::env::temp_dir().join(format!("binhop-input-{}.din.gz", std::process::id()));
    File::create(&path).unwrap().write_all(&gzip(b"0 10\n")).unwrap();
    let it = drain(binhop_trace::import::open(path.to_str().unwrap(), None).unwrap());
    std::fs::remove_file(&path).unwrap();
    assert_eq!(it.unwrap().plain(), [("load", 0x10, 4, 1)]);
}
