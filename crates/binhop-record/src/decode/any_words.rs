//! These tests decode arbitrary words. Streams that are cut, damaged or random are read or refused, and no
//! length is trusted.

use binhop_trace::event::Op;
use proptest::prelude::*;

use super::*;

fn record(kind: u64, words: &[u64]) -> Vec<u64> {
    let mut all = vec![wire::RECORD << 56 | kind << 48 | words.len() as u64];
    all.extend(words);
    all
}

fn instruction(addr: u64, size: u64) -> u64 {
    size << wire::ITEM_LENGTH | addr
}

fn reference(kind: u64, size: u64) -> u64 {
    1 << wire::ITEM_REFERENCE | kind << wire::ITEM_KIND | size
}

fn run(number: u64, addresses: &[u64]) -> Vec<u64> {
    let mut all = vec![wire::RUN << 56 | number];
    all.extend(addresses);
    all
}

/// Returns a stream in which every kind of record occurs.
fn every_kind() -> Vec<u64> {
    let name = [4, u64::from_le_bytes(*b"prog\0\0\0\0")];
    let block = [
        instruction(0x40_1000, 4),
        reference(wire::LOAD, 8),
        instruction(0x40_1004, 2),
        1 << wire::ITEM_GUARDED | reference(wire::STORE, 4),
    ];
    let call = 1 << 32;
    [
        record(wire::START, &[&[100, 1, 1][..], &name].concat()),
        record(wire::FILE, &[&[8, 77, 1, 5000][..], &name].concat()),
        record(wire::MAP, &[0x40_1000, 0x2000, 5 | wire::MAPPED_FILE << wire::KIND, 8, 77, 0x1000]),
        record(wire::MAP, &[0x80_0000, 0x4000, 3 | wire::HEAP << wire::KIND, 0, 0, 0]),
        record(wire::BLOCK, &[&[0][..], &block].concat()),
        run(0, &[0x80_0000, 0x80_0100]),
        run(0, &[0x80_0008, wire::NOT_MADE << 56]),
        record(wire::ENTER, &[call, 1000, 1, 3, 0x80_0000, 100, 0, 0, 0]),
        record(
            wire::LEAVE,
            &[call, 2000, 10, 0x80_0000, 8, 77, 4096, 0, 0, u64::MAX, 0x80_0000, 100 | 1 << 63, 0x80_0200, 8],
        ),
        record(wire::PROTECT, &[0x80_0000, 0x1000, 1]),
        record(wire::MOVE, &[0x80_1000, 0x90_0000, 0x1000]),
        record(wire::UNMAP, &[0x80_1000, 0x1000]),
        record(wire::TIME, &[3000]),
        record(wire::THREAD, &[2, wire::LEFT_CALL, 202]),
        run(0, &[0x90_0000, 0x90_0004]),
        record(wire::FORK, &[101]),
        record(wire::PARTIAL, &[0x40_1004, wire::RUN << 56, 0x80_0000, 0, 0]),
        record(wire::EXIT, &[0, 4000]),
    ]
    .concat()
}

fn decoder() -> Decoder {
    Decoder::new(FetchRows::Run, Arc::default())
}

/// Returns every piece as text. Rows are listed one by one, so that the cuts between batches make no difference.
fn pieces_as_text(decoder: &mut Decoder) -> Vec<String> {
    let mut lines = Vec::new();
    while let Some(piece) = decoder.piece() {
        match piece {
            Piece::Rows(rows) => lines.extend((0..rows.len()).map(|row| {
                let args = [rows.arg0_column(), rows.arg1_column()]
                    .map(|column| column.map(|column| format!("{:?}", column.slice(row, 1))));
                let (op, addr) = (rows.op()[row], rows.addr()[row]);
                format!("{op} {addr:#x} {} {} {args:?}", rows.size()[row], rows.count()[row])
            })),
            point => lines.push(format!("{point:?}")),
        }
    }
    lines
}

#[test]
fn a_stream_with_every_kind_is_decoded() {
    let mut decoder = decoder();
    decoder.feed(&every_kind()).unwrap();
    assert!(decoder.ended());
    assert_eq!(decoder.command(), "prog");
    assert_eq!(decoder.take_children().len(), 1);
    let lines = pieces_as_text(&mut decoder);
    // A short read of a file: 10 bytes of a buffer of 100, with the file's offset.
    let syscall = Op::Syscall as u8;
    assert!(lines.iter().any(|line| line.starts_with(&format!("{syscall} 0x800000 10 0 "))), "{lines:#?}");
    assert_eq!(lines.iter().filter(|line| line.contains("0x401000")).count(), 5, "{lines:#?}");
}

/// A kind that is added to the header needs a record in `every_kind`, and a meaning in the decoder.
#[test]
fn every_kind_of_record_occurs() {
    let words = every_kind();
    for (name, kind) in wire::record_kinds() {
        let starts = |&word: &u64| wire::tag(word) == wire::RECORD && word >> 48 & 0xff == kind;
        assert!(
            words.iter().any(starts),
            "{}: every_kind() has no record WIRE_{name}: add one, and its meaning to `Decoder::record`",
            file!()
        );
    }
}

/// A pipe may end anywhere. The pieces before the end are complete, whatever the chunks were.
#[test]
fn a_stream_cut_anywhere_gives_a_prefix() {
    let words = every_kind();
    let mut all = decoder();
    all.feed(&words).unwrap();
    let all = pieces_as_text(&mut all);
    for end in 0..=words.len() {
        for chunk in [1, 3, 1000] {
            let mut cut = decoder();
            for part in words[..end].chunks(chunk) {
                cut.feed(part).unwrap();
            }
            cut.image_ends();
            let mut lines = pieces_as_text(&mut cut);
            // The last fetch row may be longer in the complete stream.
            if lines.last().is_some_and(|line| line.starts_with("0 ")) && !all.starts_with(&lines) {
                lines.pop();
            }
            assert!(all.starts_with(&lines), "cut at {end}: {lines:#?}");
        }
    }
}

/// A record's length is trusted up to a limit: the decoder does not wait for gigabytes that never come.
#[test]
fn a_length_beyond_any_record_is_refused() {
    for length in [MAX_RECORD_WORDS + 1, u64::from(u32::MAX)] {
        let wrong = decoder().feed(&[wire::RECORD << 56 | wire::TIME << 48 | length]).unwrap_err();
        assert_eq!(wrong, format!("word 0: a record of {length} words"));
    }
    let mut decoder = decoder();
    decoder.feed(&[wire::RECORD << 56 | wire::BLOCK << 48 | MAX_RECORD_WORDS]).unwrap();
    assert!(decoder.rest.capacity() < 1 << 10);
}

#[test]
fn memory_does_not_move_beyond_the_addresses() {
    let mut decoder = decoder();
    decoder.feed(&record(wire::MAP, &[0x1000, 0x2000, 3, 0, 0, 0])).unwrap();
    let wrong = decoder.feed(&record(wire::MOVE, &[0x1000, u64::MAX - 0xfff, 0x2000])).unwrap_err();
    assert!(wrong.starts_with("word 7: 8192 bytes at"), "{wrong}");
}

/// Draws words that resemble a recorder's words more often than random words do.
fn word() -> impl Strategy<Value = u64> {
    let kind = prop_oneof![Just(wire::BLOCK), Just(wire::LEAVE), Just(wire::MAP), Just(wire::MOVE), 0u64..20];
    prop_oneof![
        any::<u64>(),
        0u64..300,
        (0u64..4).prop_map(|number| wire::RUN << 56 | number),
        (kind, 0u64..14).prop_map(|(kind, words)| wire::RECORD << 56 | kind << 48 | words),
        (0u64..64, 1u64..16).prop_map(|(addr, size)| instruction(addr, size)),
        (0u64..4, 0u64..64).prop_map(|(kind, size)| reference(kind, size)),
        (0u64..1 << 20).prop_map(|page| page * PAGE),
        (0u64..64).prop_map(|page| 0u64.wrapping_sub(page * PAGE)),
    ]
}

proptest! {
    #[test]
    fn any_words_are_read_or_refused(words in prop::collection::vec(word(), 0..200), single in any::<bool>()) {
        let fetch = if single { FetchRows::Instruction } else { FetchRows::Run };
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        if let Err(wrong) = read_pipe(&bytes, fetch) {
            prop_assert!(wrong.starts_with("word "), "{}", wrong);
        }
    }

    #[test]
    fn a_damaged_stream_is_read_or_refused(hits in prop::collection::vec((any::<prop::sample::Index>(), word()), 1..4)) {
        let mut words = every_kind();
        for (place, word) in hits {
            let place = place.index(words.len());
            words[place] = word;
        }
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let _ = read_pipe(&bytes, FetchRows::Run);
    }
}
