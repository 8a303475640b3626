//! The decoder is compared with the descriptions of blocks, item by item. Further tests state the rules of
//! calls and mappings.

use proptest::prelude::*;

use binhop_trace::Op;
use binhop_trace::event::Event;

use super::*;

type Row = (u8, u64, u32, u32);

fn record(kind: u64, words: &[u64]) -> Vec<u64> {
    let mut all = vec![wire::RECORD << 56 | kind << 48 | words.len() as u64];
    all.extend_from_slice(words);
    all
}

fn starts(name: &str, wanted: u64) -> Vec<u64> {
    let mut bytes = name.as_bytes().to_vec();
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    let mut words = vec![1, 0, wanted, name.len() as u64];
    words.extend(bytes.chunks(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())));
    record(wire::START, &words)
}

fn decoder(fetch: FetchRows) -> Decoder {
    let mut decoder = Decoder::new(fetch, Arc::default());
    decoder.feed(&starts("program", 1)).unwrap();
    decoder
}

/// Ends the image and returns all rows, without the other pieces.
fn rows(decoder: &mut Decoder) -> Vec<Row> {
    decoder.image_ends();
    let mut rows = Vec::new();
    while let Some(piece) = decoder.piece() {
        if let Piece::Rows(batch) = piece {
            rows.extend(
                (0..batch.len())
                    .map(|row| (batch.op()[row], batch.addr()[row], batch.size()[row], batch.count()[row])),
            );
        }
    }
    rows
}

/// `BlockItem` is one item of a generated block.
#[derive(Clone, Copy, Debug)]
enum BlockItem {
    Instruction { gap: u64, length: u64 },
    Reference { kind: u64, size: u64, guarded: bool },
}

fn block_item() -> impl Strategy<Value = BlockItem> {
    prop_oneof![
        3 => (prop_oneof![4 => Just(0), 1 => 1u64..5000], 1u64..16)
            .prop_map(|(gap, length)| BlockItem::Instruction { gap, length }),
        2 => (1u64..4, 1u64..600, any::<bool>())
            .prop_map(|(kind, size, guarded)| BlockItem::Reference { kind, size, guarded }),
    ]
}

/// Joins fetches that follow each other without a gap, because a run does not keep its inner boundaries.
fn joined(rows: &[Row]) -> Vec<Row> {
    let mut all: Vec<Row> = Vec::new();
    for &(op, addr, size, count) in rows {
        match all.last_mut() {
            Some((0, start, bytes, n)) if op == 0 && *start + u64::from(*bytes) == addr => {
                *bytes += size;
                *n += count;
            }
            _ => all.push((op, addr, size, count)),
        }
    }
    all
}

proptest! {
    /// However the words are cut into chunks, the rows are the items of the blocks that ran, in order.
    #[test]
    fn runs_of_blocks_become_the_rows_of_their_items(
        blocks in prop::collection::vec(prop::collection::vec(block_item(), 1..12), 1..6),
        runs in prop::collection::vec((0usize..6, any::<u64>()), 0..60),
        chunk in 1usize..40,
    ) {
        let (mut words, mut described) = (Vec::new(), Vec::new());
        for (number, parts) in blocks.iter().enumerate() {
            let mut at = 0x40_0000 + 0x1_0000 * number as u64;
            let (mut items, mut known) = (vec![number as u64], Vec::new());
            for block_item in parts {
                match *block_item {
                    BlockItem::Instruction { gap, length } => {
                        at += gap;
                        items.push(at | length << wire::ITEM_LENGTH);
                        known.push((0, at, length as u32, false));
                        at += length;
                    }
                    BlockItem::Reference { kind, size, guarded } => {
                        let guard = u64::from(guarded) << wire::ITEM_GUARDED;
                        items.push(1 << wire::ITEM_REFERENCE | kind << wire::ITEM_KIND | guard | size);
                        known.push((kind as u8, 0, size as u32, guarded));
                    }
                }
            }
            words.extend(record(wire::BLOCK, &items));
            described.push(known);
        }
        let mut expected: Vec<Row> = Vec::new();
        for (number, mut seed) in runs {
            let number = number % described.len();
            words.push(wire::RUN << 56 | number as u64);
            for &(op, addr, size, guarded) in &described[number] {
                if op == 0 {
                    expected.push((0, addr, size, 1));
                    continue;
                }
                seed = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(1);
                let addr = seed >> 20;
                if guarded && seed & 1 == 1 {
                    words.push(wire::NOT_MADE << 56);
                } else {
                    words.push(addr);
                    expected.push((op, addr, size, 1));
                }
            }
        }
        for fetch in [FetchRows::Instruction, FetchRows::Run] {
            let mut decoder = decoder(fetch);
            for piece in words.chunks(chunk) {
                decoder.feed(piece).unwrap();
            }
            let found = rows(&mut decoder);
            if fetch == FetchRows::Instruction {
                prop_assert_eq!(&found, &expected);
            } else {
                prop_assert_eq!(joined(&found), joined(&expected));
            }
        }
    }

    /// Words that no recorder writes are refused without a panic.
    #[test]
    fn arbitrary_words_are_read_or_refused(words in prop::collection::vec(prop_oneof![
        any::<u64>(),
        (0u64..16, 0u64..20).prop_map(|(kind, length)| wire::RECORD << 56 | kind << 48 | length),
        (0u64..4).prop_map(|number| wire::RUN << 56 | number),
        0u64..5000,
    ], 0..200)) {
        let mut decoder = decoder(FetchRows::Run);
        let _ = decoder.feed(&words);
        let _ = rows(&mut decoder);
    }
}

#[test]
fn a_signal_cuts_a_block_at_the_instruction_it_struck() {
    let load = 1 << wire::ITEM_REFERENCE | wire::LOAD << wire::ITEM_KIND | 8;
    let at = |addr: u64| addr | 4 << wire::ITEM_LENGTH;
    let block = [0, at(0x1000), load, at(0x1004), load, at(0x1008), load];
    let mut noted = vec![0; wire::PARTIAL_WORDS as usize];
    noted[..3].copy_from_slice(&[wire::RUN << 56, 0x2000, 0x3000]);
    let cut = |struck: u64| {
        let mut decoder = decoder(FetchRows::Instruction);
        decoder.feed(&record(wire::BLOCK, &block)).unwrap();
        let mut words = vec![struck];
        words.extend(&noted);
        decoder.feed(&record(wire::PARTIAL, &words)).unwrap();
        rows(&mut decoder)
    };
    // The instruction that the signal struck was fetched; its load was not made.
    assert_eq!(cut(0x1004), [(0, 0x1000, 4, 1), (1, 0x2000, 8, 1), (0, 0x1004, 4, 1)]);
    assert_eq!(cut(0x1000), [(0, 0x1000, 4, 1)]);
    // A signal from outside struck no instruction of the block.
    assert_eq!(cut(0x5000), []);
}

#[test]
fn a_call_moves_at_most_its_result() {
    let call = |number: u64, result: i64, ranges: &[u64]| {
        let mut decoder = decoder(FetchRows::Run);
        let mut words = vec![1 << 32 | number, 5, result as u64, 0x2000, 3, 7, 4096, 0, 0, u64::MAX];
        words.extend_from_slice(ranges);
        decoder.feed(&record(wire::LEAVE, &words)).unwrap();
        rows(&mut decoder)
    };
    let (syscall, range, by_kernel) = (5, 6, 1 << wire::BY_KERNEL);
    // recvfrom reports the whole buffer, and the sender's address as a range of its own.
    let ranges = [0x2000, 4096 | by_kernel, 0x3000, 16 | by_kernel];
    assert_eq!(call(45, 100, &ranges), [(syscall, 0x2000, 100, 45), (range, 0x3000, 16, 2)]);
    // A short write, and a write that failed.
    assert_eq!(call(1, 10, &[0x2000, 4096]), [(syscall, 0x2000, 10, 1)]);
    assert_eq!(call(1, -11, &[0x2000, 4096]), [(syscall, 0, 0, 1)]);
    // writev reads its list of buffers completely, and the buffers up to the result.
    let list = [0x8000, 32, 0x2000, 4096, 0x9000, 4096];
    let expected = [(syscall, 0x2000, 4096, 20), (range, 0x8000, 32, 1), (range, 0x9000, 904, 1)];
    assert_eq!(call(20, 5000, &list), expected);
    assert_eq!(call(20, -11, &list), [(syscall, 0, 0, 20), (range, 0x8000, 32, 1)]);
    // The kernel reads a path even if the call fails. The longest range is the main range.
    assert_eq!(call(257, -2, &[0x2000, 12]), [(syscall, 0x2000, 12, 257)]);
    let vectors = [0x4000, 32, 0x5000, 100 | by_kernel, 0x6000, 200 | by_kernel];
    let expected = [(syscall, 0x6000, 200, 19), (range, 0x4000, 32, 1), (range, 0x5000, 100, 2)];
    assert_eq!(call(19, 300, &vectors), expected);
}

/// A list of buffers, or the header of a message, is never the main range of its call, however short the buffers are.
#[test]
fn a_list_that_is_longer_than_its_buffers_is_no_data() {
    let call = |number: u64, result: i64, ranges: &[u64]| {
        let mut decoder = decoder(FetchRows::Run);
        let mut words = vec![1 << 32 | number, 5, result as u64, 0x8000, 3, 7, 4096, 0, 0, u64::MAX];
        words.extend_from_slice(ranges);
        decoder.feed(&record(wire::LEAVE, &words)).unwrap();
        rows(&mut decoder)
    };
    let (syscall, range, by_kernel) = (5, 6, 1 << wire::BY_KERNEL);
    let of_message = 1 << wire::OF_A_MESSAGE;
    for reads in [20, 296, 328, 278] {
        let list = [0x8000, 48, 0x2000, 11, 0x9000, 10, 0xa000, 11];
        let number = reads as u32;
        let expected = [
            (syscall, 0x2000, 11, number),
            (range, 0x8000, 48, 1),
            (range, 0x9000, 10, 1),
            (range, 0xa000, 11, 1),
        ];
        assert_eq!(call(reads, 32, &list), expected);
        assert_eq!(call(reads, 5, &list), [(syscall, 0x2000, 5, number), (range, 0x8000, 48, 1)]);
    }
    for writes in [19, 295, 327, 278] {
        let list = [0x8000, 32, 0x2000, 11 | by_kernel, 0x9000, 12 | by_kernel];
        let expected = [(syscall, 0x9000, 12, writes as u32), (range, 0x8000, 32, 1), (range, 0x2000, 11, 2)];
        assert_eq!(call(writes, 23, &list), expected);
    }
    // The caller's list, the list of the other process, and two buffers.
    let lists = [0x8000, 32, 0x8100, 64];
    let (first, second) = ((range, 0x8000, 32, 1), (range, 0x8100, 64, 1));
    let read = [&lists[..], &[0x2000, 11 | by_kernel, 0x9000, 12 | by_kernel]].concat();
    assert_eq!(call(310, 23, &read), [(syscall, 0x9000, 12, 310), first, second, (range, 0x2000, 11, 2)]);
    let written = [&lists[..], &[0x2000, 11, 0x9000, 12]].concat();
    assert_eq!(call(311, 15, &written), [(syscall, 0x2000, 11, 311), first, second, (range, 0x9000, 4, 1)]);
    assert_eq!(call(310, -3, &lists), [(syscall, 0, 0, 310), first, second]);
    // The header of a message, the list of its buffers, and two buffers.
    let sent = [0x8000, 56, 0x8100, 32, 0x2000, 11 | of_message, 0x9000, 12 | of_message];
    for (number, result) in [(46, 23), (307, 1)] {
        let expected = [
            (syscall, 0x9000, 12, number as u32),
            (range, 0x8000, 56, 1),
            (range, 0x8100, 32, 1),
            (range, 0x2000, 11, 4),
        ];
        assert_eq!(call(number, result, &sent), expected);
    }
    let buffer = by_kernel | of_message;
    let received = [0x8000, 56, 0x2000, 11 | buffer, 0x9000, 2 | buffer, 0x7000, 16 | by_kernel];
    for (number, result) in [(47, 13), (299, 1)] {
        let expected = [
            (syscall, 0x2000, 11, number as u32),
            (range, 0x8000, 56, 1),
            (range, 0x9000, 2, 5),
            (range, 0x7000, 16, 2),
        ];
        assert_eq!(call(number, result, &received), expected);
    }
    assert_eq!(call(47, -11, &[0x8000, 56]), [(syscall, 0, 0, 47), (range, 0x8000, 56, 1)]);
}

/// Returns the words that name inode 7 of device 3.
fn named(birth: u64, name: &str) -> Vec<u64> {
    let mut bytes = name.as_bytes().to_vec();
    bytes.resize(8, 0);
    let path = [name.len() as u64, u64::from_le_bytes(bytes.try_into().unwrap())];
    record(wire::FILE, &[&[3, 7, birth, 5000][..], &path].concat())
}

/// An inode belongs to another file if it was made at another time. A mapping whose path no longer leads to its file
/// does not know the time, but keeps the inode.
#[test]
fn a_file_keeps_its_number_under_another_name() {
    let mut decoder = decoder(FetchRows::Run);
    let mut name = |birth: u64, name: &str| {
        decoder.feed(&named(birth, name)).unwrap();
        decoder.catalog().file((3, 7), false)
    };
    assert_eq!(name(100, "/a"), 1);
    assert_eq!(name(100, "/b"), 1, "renamed, or a hard link");
    assert_eq!(name(200, "/b"), 2, "made anew");
    assert_eq!(name(wire::NO_BIRTH, "/b"), 2, "mapped");
    assert_eq!(name(200, "/c"), 2, "the time is still known");
    assert_eq!(name(wire::NO_BIRTH, "/d"), 2, "mapped");
    assert_eq!(name(300, "/d"), 3, "made anew");
}

/// The name decides if the file system does not know when a file was made.
#[test]
fn a_file_of_unknown_birth_is_known_by_its_name() {
    let mut decoder = decoder(FetchRows::Run);
    let mut name = |birth: u64, name: &str| {
        decoder.feed(&named(birth, name)).unwrap();
        decoder.catalog().file((3, 7), false)
    };
    assert_eq!(name(wire::NO_BIRTH, "/a"), 1);
    assert_eq!(name(wire::NO_BIRTH, "/a"), 1);
    assert_eq!(name(wire::NO_BIRTH, "/b"), 2);
    assert_eq!(name(100, "/b"), 2);
    assert_eq!(name(100, "/c"), 2, "the time is known since");
    assert_eq!(name(200, "/c"), 3);
}

/// The calls, the direct calls and the mapping of a renamed file have one path, by which readers of a trace join them.
/// A file that is made anew has the new path.
#[test]
fn a_renamed_file_has_one_path() {
    let mut decoder = decoder(FetchRows::Run);
    let mut paths = |birth: u64| {
        decoder.feed(&named(birth, "/t")).unwrap();
        let calls = decoder.catalog().file((3, 7), false);
        decoder.feed(&named(birth, "/final")).unwrap();
        let direct = decoder.catalog().file((3, 7), true);
        let segment = decoder.catalog().file_segment((3, 7));
        let mut meta = binhop_trace::Meta::default();
        decoder.catalog().write_to(&mut meta);
        let path = |file: u64| meta.files[&file].clone();
        [path(calls), path(direct), meta.segments[&segment].file.clone().unwrap()]
    };
    assert_eq!(paths(100), ["/t", "/t", "/t"]);
    let second = "/t (file 2)";
    assert_eq!(paths(200), [second; 3], "made anew");
    decoder.feed(&named(300, "/final")).unwrap();
    let anew = decoder.catalog().file_segment((3, 7));
    let mut meta = binhop_trace::Meta::default();
    decoder.catalog().write_to(&mut meta);
    assert_eq!(meta.segments[&anew].file.as_deref(), Some("/final"));
}

/// Two inodes that had one path, one after the other, are two files: neither their calls nor their mappings are joined.
/// Objects without a path keep their name.
#[test]
fn two_files_of_one_path_have_two_names() {
    let mut decoder = decoder(FetchRows::Run);
    let mut name = |inode: u64, name: &str| {
        let mut words = named(wire::NO_BIRTH, name);
        let at = words.iter().position(|&word| word == 7).unwrap();
        words[at] = inode;
        decoder.feed(&words).unwrap();
        let number = decoder.catalog().file((3, inode), false);
        let segment = decoder.catalog().file_segment((3, inode));
        let mut meta = binhop_trace::Meta::default();
        decoder.catalog().write_to(&mut meta);
        (meta.files[&number].clone(), meta.segments[&segment].file.clone().unwrap(), segment)
    };
    let of = |name: &str, segment: u64| (name.to_owned(), name.to_owned(), segment);
    assert_eq!(name(8, "/a.so"), of("/a.so", 1));
    assert_eq!(name(9, "/a.so"), of("/a.so (file 2)", 2));
    assert_eq!(name(8, "/a.so"), of("/a.so", 1));
    assert_eq!(name(9, "/a.so"), of("/a.so (file 2)", 2));
    assert_eq!(name(10, "/b"), of("/b", 3));
    assert_eq!(name(11, "anon:"), of("anon:", 4));
    assert_eq!(name(12, "anon:"), of("anon:", 5));
}

/// A call between two files names both, each with its offset, and the bytes that it moved.
#[test]
fn a_call_between_two_files_names_both() {
    let call = |result: i64, to: [u64; 3]| {
        let mut decoder = decoder(FetchRows::Run);
        let words = [[1 << 32 | 326, 5, result as u64, 0, 3, 7, 4096].as_slice(), &to].concat();
        decoder.feed(&record(wire::LEAVE, &words)).unwrap();
        decoder.image_ends();
        let mut events = Vec::new();
        while let Some(piece) = decoder.piece() {
            if let Piece::Rows(batch) = piece {
                events.extend((0..batch.len()).map(|row| Event::of(&batch, row)));
            }
        }
        events
    };
    let row = |op, size, count, arg0, arg1| Event { op, addr: 0, size, count, arg0, arg1 };
    let main = row(Op::Syscall, 0, 326, Some(1), Some(4096));
    let target = |offset| row(Op::Range, 5000, 3, Some(2), offset);
    assert_eq!(call(5000, [3, 8, 64]), [main, target(Some(64))]);
    assert_eq!(call(5000, [3, 8, u64::MAX]), [main, target(None)]);
    assert_eq!(call(-11, [3, 8, 64]), [main], "a call that failed moved nothing");
}

/// A file has one number for direct calls and another one for calls through the page cache.
#[test]
fn a_file_of_direct_calls_has_a_number_of_its_own() {
    let mut decoder = decoder(FetchRows::Run);
    let path = [7, u64::from_le_bytes(*b"/a/file\0")];
    decoder.feed(&record(wire::FILE, &[&[3, 7, 1, 5000][..], &path].concat())).unwrap();
    for device in [3, 3 | 1 << wire::DIRECT, 3, 3 | 1 << wire::DIRECT] {
        let words = [1 << 32, 5, 4096, 0x2000, device, 7, 0, 0, 0, u64::MAX, 0x2000, 4096];
        decoder.feed(&record(wire::LEAVE, &words)).unwrap();
    }
    decoder.image_ends();
    let mut files = Vec::new();
    while let Some(piece) = decoder.piece() {
        if let Piece::Rows(batch) = piece {
            files.extend((0..batch.len()).map(|row| batch.arg0(row).unwrap()));
        }
    }
    assert_eq!(files, [1, 2, 1, 2]);
    let mut meta = binhop_trace::Meta::default();
    decoder.catalog().write_to(&mut meta);
    let path = "/a/file".to_owned();
    assert_eq!(meta.files, [(1, path.clone()), (2, path)].into());
    assert_eq!(meta.file_bytes, [(1, 5000), (2, 5000)].into());
    assert_eq!(meta.direct_files, [2].into());
}

#[test]
fn mappings_keep_their_segments_and_offsets() {
    let map = |start: u64, pages: u64, kind: u64, inode: u64, offset: u64| {
        record(wire::MAP, &[start, pages * PAGE, 3 | kind << wire::KIND, 1, inode, offset])
    };
    let mut decoder = decoder(FetchRows::Run);
    decoder.feed(&map(0x10_0000, 4, wire::MAPPED_FILE, 9, 0x2000)).unwrap();
    decoder.feed(&map(0x20_0000, 2, wire::HEAP, 0, 0)).unwrap();
    decoder.feed(&map(0x20_2000, 1, wire::HEAP, 0, 0)).unwrap();
    decoder.feed(&record(wire::PROTECT, &[0x10_1000, PAGE, 1])).unwrap();
    decoder.feed(&record(wire::MOVE, &[0x10_2000, 0x30_0000, 2 * PAGE])).unwrap();
    // The range of this unmap is larger than what is mapped.
    decoder.feed(&record(wire::UNMAP, &[0x0f_f000, 3 * PAGE])).unwrap();
    decoder.image_ends();
    let mut found = Vec::new();
    while let Some(Piece::Rows(batch)) = decoder.piece() {
        for row in 0..batch.len() {
            let what = (batch.op()[row], batch.addr()[row], batch.size()[row], batch.count()[row]);
            found.push((what, batch.arg0(row), batch.arg1(row)));
        }
    }
    let (map, protect, unmap) = (7, 8, 9);
    assert_eq!(
        found,
        [
            ((map, 0x10_0000, 3, 4), Some(1), Some(0x2000)),
            ((map, 0x20_0000, 3, 2), Some(2), Some(0)),
            ((map, 0x20_2000, 3, 1), Some(2), Some(0x2000)),
            ((protect, 0x10_1000, 1, 1), None, None),
            ((map, 0x30_0000, 3, 2), Some(1), Some(0x4000)),
            ((unmap, 0x10_0000, 0, 1), None, None),
            ((unmap, 0x10_1000, 0, 1), None, None),
        ]
    );
}

#[test]
fn a_program_that_is_not_wanted_leaves_no_rows() {
    let mut decoder = Decoder::new(FetchRows::Run, Arc::default());
    decoder.feed(&starts("other", 0)).unwrap();
    decoder.feed(&record(wire::MAP, &[0x1000, PAGE, 3, 0, 0, 0])).unwrap();
    decoder.feed(&record(wire::EXIT, &[0, 17])).unwrap();
    assert_eq!(decoder.command(), "other");
    assert!(decoder.ended());
    assert!(matches!(decoder.piece(), Some(Piece::Exit { time: 17 })));
    assert!(decoder.piece().is_none());
}
