//! The input layer: packings, members, pipes, and what is wrong with them.

use std::fs::File;
use std::io::{Cursor, Read, Write};

use super::{Drip, drain, importer};
use binhop_trace::input::Input;

type Pack = fn(&[u8]) -> Vec<u8>;

const PACKINGS: [Pack; 3] = [gzip, xz, zst];
const NAMES: [&str; 3] = ["gzip", "xz", "zstd"];

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

/// Text that does not compress to nothing: addresses from a fixed linear congruence.
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
    let mut all = vec![0; 64 << 20];
    let length = input.fill(&mut all)?;
    all.truncate(length);
    Ok(all)
}

#[test]
fn each_packing_gives_the_text_back() {
    let text = text(50_000);
    assert_eq!(read_all(text.clone()).unwrap(), text);
    for pack in PACKINGS {
        assert_eq!(read_all(pack(&text)).unwrap(), text);
    }
}

#[test]
fn members_one_behind_another_are_one_text() {
    let text = text(1000);
    for pack in PACKINGS {
        // Cut in the middle of a line.
        let (first, second) = text.split_at(1234);
        let mut packed = pack(first);
        packed.extend(pack(second));
        assert_eq!(read_all(packed).unwrap(), text);
    }
}

#[test]
fn packed_text_imports_like_plain_text_however_it_arrives() {
    let text = text(3000);
    let plain = drain(importer("din", Cursor::new(text.clone())).unwrap()).unwrap();
    for pack in PACKINGS {
        for step in [1, 7, 1 << 16] {
            let drip = Drip { from: Cursor::new(pack(&text)), step };
            let it = drain(importer("din", drip).unwrap()).unwrap();
            assert_eq!((&it.rows, &it.batches), (&plain.rows, &plain.batches));
        }
    }
}

#[test]
fn a_truncated_packing_is_said_to_end_in_the_middle() {
    let text = text(10_000);
    for (pack, name) in PACKINGS.into_iter().zip(NAMES) {
        let whole = pack(&text);
        for length in [7, 20, whole.len() / 2, whole.len() - 1] {
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
    for (pack, name) in PACKINGS.into_iter().zip(NAMES) {
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
fn nothing_at_all_is_refused() {
    let expected =
        "test: 0 bytes: a trace holds at least one reference; check the command that should have written it";
    assert_eq!(read_all(Vec::new()).unwrap_err().to_string(), expected);
    // A packed nothing is found out by the importer, which then has no reference.
    for pack in PACKINGS {
        let problem = importer("din", Cursor::new(pack(b""))).and_then(drain).err().unwrap().to_string();
        assert!(problem.starts_with("test: 0 lines: a trace holds at least one reference; "), "{problem}");
    }
}

#[test]
fn other_containers_are_refused_with_the_way_around() {
    for (head, name, way) in [
        (&b"BZh91AY&SY"[..], "bzip2", "bzip2 -dc FILE |"),
        (b"\x04\x22\x4d\x18....", "lz4", "lz4 -dc FILE |"),
        (b"PK\x03\x04....", "zip", "unzip -p FILE |"),
        (b"PAR1....", "Parquet", "binhop run"),
    ] {
        let problem = read_all(head.to_vec()).unwrap_err().to_string();
        assert!(problem.starts_with(&format!("test: {name}: ")) && problem.contains(way), "{problem}");
    }
}

#[test]
fn a_path_that_cannot_be_read_is_named() {
    let problem = |path: &str| Input::open(path).err().unwrap().to_string();
    assert_eq!(
        problem("/no/such.din"),
        "/no/such.din: cannot be opened (No such file or directory (os error 2)); check the path; `-` reads standard input"
    );
    assert!(problem("/tmp").starts_with("/tmp: is a directory, "));
}

#[test]
fn a_failing_reader_is_no_damaged_file() {
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
fn an_interrupted_read_goes_on() {
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
