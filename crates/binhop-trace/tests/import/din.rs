//! These tests import din: labels, words, runs, comments, and lines of no form.

use super::{imported, refused, sample};

#[test]
fn each_label_has_its_event() {
    let it = imported("din", "0 1000\n1 2004\n2 400000\n3 dead\n4 0\n");
    assert_eq!(it.plain(), [("load", 0x1000, 4, 1), ("store", 0x2004, 4, 1), ("fetch", 0x400000, 4, 1)]);
    assert_eq!(
        it.notes,
        [
            "3 references have no size: a reference becomes the aligned 4-byte word at its address",
            "1 line of label 3 (other) is left out",
            "1 line of label 4 (flush) is left out, so caches stay warm where Dinero would empty them",
        ]
    );
    assert_eq!(it.meta.sizes.as_deref(), Some("assumed"));
}

#[test]
fn an_address_is_rounded_down_to_its_word() {
    let it = imported("din", "0 1003\n1 7\n2 9\n");
    assert_eq!(it.plain(), [("load", 0x1000, 4, 1), ("store", 4, 4, 1), ("fetch", 8, 4, 1)]);
}

#[test]
fn a_run_ends_at_the_instruction_that_makes_a_data_reference() {
    let it = imported("din", "2 100\n2 104\n2 108\n0 9000\n2 10c\n2 110\n1 9000\n1 9004\n2 114\n");
    assert_eq!(
        it.plain(),
        [
            ("fetch", 0x100, 12, 3),
            ("load", 0x9000, 4, 1),
            ("fetch", 0x10c, 8, 2),
            ("store", 0x9000, 4, 1),
            ("store", 0x9004, 4, 1),
            ("fetch", 0x114, 4, 1),
        ]
    );
}

#[test]
fn a_run_ends_at_a_jump() {
    // The jumps go back, to the instruction itself, far ahead, and over one word. A run over that word would
    // hold a word that was never fetched.
    assert_eq!(imported("din", "2 100\n2 fc\n").plain(), [("fetch", 0x100, 4, 1), ("fetch", 0xfc, 4, 1)]);
    assert_eq!(imported("din", "2 100\n2 100\n").plain(), [("fetch", 0x100, 4, 1); 2]);
    assert_eq!(imported("din", "2 100\n2 110\n").plain(), [("fetch", 0x100, 4, 1), ("fetch", 0x110, 4, 1)]);
    assert_eq!(imported("din", "2 100\n2 108\n").plain(), [("fetch", 0x100, 4, 1), ("fetch", 0x108, 4, 1)]);
}

#[test]
fn variable_length_instructions_join_while_their_words_touch() {
    // The words are 100, 100, 104 and 108: four instructions in twelve bytes.
    assert_eq!(imported("din", "2 101\n2 103\n2 106\n2 10b\n").plain(), [("fetch", 0x100, 12, 4)]);
    // The step is seven bytes, into the next word.
    assert_eq!(imported("din", "2 100\n2 107\n").plain(), [("fetch", 0x100, 8, 2)]);
    // The step is five bytes, beyond the next word.
    assert_eq!(imported("din", "2 103\n2 108\n").plain(), [("fetch", 0x100, 4, 1), ("fetch", 0x108, 4, 1)]);
}

#[test]
fn a_run_has_at_most_1024_instructions() {
    let text: String = (0..2050).map(|i| format!("2 {:x}\n", 0x1000 + 4 * i)).collect();
    assert_eq!(
        imported("din", &text).plain(),
        [("fetch", 0x1000, 4096, 1024), ("fetch", 0x2000, 4096, 1024), ("fetch", 0x3000, 8, 2)]
    );
}

#[test]
fn a_size_makes_a_reference_exact() {
    let it = imported("din", "0 1003 2\n1 1001 16\n2 100 3\n2 103 2\n2 105 4096\n");
    assert_eq!(it.plain(), [("load", 0x1003, 2, 1), ("store", 0x1001, 16, 1), ("fetch", 0x100, 4101, 3)]);
    assert_eq!(it.meta.sizes.as_deref(), Some("exact"));
    assert_eq!(it.notes, Vec::<String>::new());
}

#[test]
fn other_text_behind_the_address_is_a_comment() {
    let it = imported("din", "0 1003 0\n0 1003 4097\n0 1003 lw\n0 1003 8 # eight\n");
    assert_eq!(
        it.plain(),
        [("load", 0x1000, 4, 1), ("load", 0x1000, 4, 1), ("load", 0x1000, 4, 1), ("load", 0x1003, 8, 1)]
    );
    assert_eq!(
        it.notes[1],
        "3 lines have text behind the address that is not a size from 1 to 4096; the text is ignored as a comment"
    );
    assert_eq!(it.meta.sizes.as_deref(), Some("assumed"));
}

#[test]
fn spellings_are_accepted() {
    // Tabs, leading blanks, carriage returns, 0x, capitals, leading zeros, blank lines, no newline at the
    // end.
    let it =
        imported("din", "  0\t1000\r\n\n \t\r\n1   0xABC\n0 00000000000000000000ABCD\n2 FFFFFFFFFFFFFFFF");
    assert_eq!(
        it.plain(),
        [
            ("load", 0x1000, 4, 1),
            ("store", 0xabc, 4, 1),
            ("load", 0xabcc, 4, 1),
            ("fetch", 0xffff_ffff_ffff_fffc, 4, 1)
        ]
    );
}

#[test]
fn a_run_does_not_wrap_around_the_end_of_the_address_space() {
    let it = imported("din", "2 fffffffffffffff8\n2 fffffffffffffffc\n2 0\n2 4\n");
    let top = 0xffff_ffff_ffff_fff8;
    assert_eq!(it.plain(), [("fetch", top, 4, 1), ("fetch", top + 4, 4, 1), ("fetch", 0, 8, 2)]);
}

#[test]
fn a_line_that_is_no_din_line_is_named() {
    assert_eq!(
        refused("din", "2 408ed4\n\n7 100\n2 408ed8\n"),
        "test: line 3: \"7 100\": a din line is a label from 0 to 4, a blank and a hexadecimal address of at most 64 bits; mend or delete the line, or name the right format with --format"
    );
    for wrong in [
        "2",
        "x 100",
        "22 100",
        "2 xyz",
        "2 0x",
        "2 10000000000000000",
        "2100",
        "# 1",
        "2 -4",
        "r 100 4",
        "0 ffffffffffffffff 2",
    ] {
        let problem = refused("din", &format!("0 0\n{wrong}\n0 4\n"));
        assert!(problem.starts_with(&format!("test: line 2: \"{wrong}\": ")), "{problem}");
    }
}

#[test]
fn a_wrong_line_is_clipped_and_escaped() {
    let problem = refused("din", &format!("0 0\n\u{1b}[31m\u{fc}{}\n", "z".repeat(100)));
    let clipped = "z".repeat(53);
    assert!(problem.starts_with(&format!("test: line 2: \"\\x1b[31m\\xc3\\xbc{clipped}…\": ")), "{problem}");
}

#[test]
fn the_number_of_a_wrong_line_counts_all_blocks_before_it() {
    let good = 100_000;
    let text = "2 408ed4\n".repeat(good) + "nonsense\n";
    assert!(refused("din", &text).starts_with("test: line 100001: \"nonsense\": "));
}

#[test]
fn a_line_without_end_is_refused() {
    let problem = refused("din", &"2".repeat(17 << 20));
    assert!(problem.contains("line 1: ") && problem.contains("is longer than 16777215 bytes"), "{problem}");
}

#[test]
fn a_text_without_a_reference_is_refused() {
    assert_eq!(
        refused("din", "3 100\n\n4 0\n"),
        "test: 3 lines: a trace holds at least one reference; check the command that wrote it; a line of this format is `2 408ed4`"
    );
}

#[test]
fn cc1_is_read_whole() {
    let Some(path) = sample("cc1.din") else { return };
    let text = std::fs::read_to_string(&path).unwrap();
    let it = imported("din", &text);
    let sum =
        |name: &str| it.plain().iter().filter(|row| row.0 == name).map(|row| u64::from(row.3)).sum::<u64>();
    assert_eq!((sum("load"), sum("store"), sum("fetch")), (1571, 829, 6741));

    // Undoing the runs gives back the word of every line of the file, in order.
    let mut lines = text.lines();
    for (op, addr, size, count) in it.plain() {
        assert_eq!(size, 4 * count, "MIPS instructions are one word each");
        for step in 0..u64::from(count) {
            let label = ["load", "store", "fetch"].iter().position(|name| *name == op).unwrap();
            let line = lines.next().expect("no more references than lines");
            let (label_text, at) = line.split_once(' ').unwrap();
            let word = u64::from_str_radix(at, 16).unwrap() / 4 * 4;
            assert_eq!((label_text.parse(), word), (Ok(label), addr + 4 * step), "{line}");
        }
    }
    assert_eq!(lines.next(), None);
}
