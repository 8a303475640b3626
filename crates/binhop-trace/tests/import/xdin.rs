//! These tests import xdin: letters, exact sizes, and lines without an event.

use super::{imported, refused};

#[test]
fn each_letter_has_its_event() {
    let it = imported("xdin", "r 1003 2\nw 2001 10\ni 400000 3\nm 3000 8\nc 0 0\nv 4000 20\n");
    assert_eq!(
        it.plain(),
        [("load", 0x1003, 2, 1), ("store", 0x2001, 16, 1), ("fetch", 0x400000, 3, 1), ("load", 0x3000, 8, 1)]
    );
    assert_eq!(
        it.notes,
        [
            "1 line of label m (other) becomes a load of the same address",
            "1 line of label c (copy back) is left out",
            "1 line of label v (invalidate) is left out, so lines stay where Dinero would drop them",
        ]
    );
    assert_eq!(it.meta.sizes.as_deref(), Some("exact"));
}

#[test]
fn fetches_join_only_without_a_gap() {
    let it = imported("xdin", "i 100 3\ni 103 5\ni 108 1\nr 9000 8\ni 109 2\ni 10c 2\ni 10d 2\n");
    assert_eq!(
        it.plain(),
        [
            ("fetch", 0x100, 9, 3),
            ("load", 0x9000, 8, 1),
            ("fetch", 0x109, 2, 1),
            ("fetch", 0x10c, 2, 1),
            ("fetch", 0x10d, 2, 1),
        ]
    );
}

#[test]
fn a_run_has_at_most_16_kib() {
    let text: String = (0..3).map(|i| format!("i {:x} 2000\n", 0x10000 + 0x2000 * i)).collect();
    assert_eq!(
        imported("xdin", &text).plain(),
        [("fetch", 0x10000, 0x4000, 2), ("fetch", 0x14000, 0x2000, 1)]
    );
}

#[test]
fn comments_and_spellings_are_accepted() {
    let it = imported("xdin", "\tr  0x10 0x4\tload d12\r\nw FF 1 2 3\n\nr ffffffffffffffff 1");
    assert_eq!(it.plain(), [("load", 0x10, 4, 1), ("store", 0xff, 1, 1), ("load", u64::MAX, 1, 1)]);
}

#[test]
fn lines_of_no_form_are_named() {
    for wrong in [
        "r 100",
        "r 100 0",
        "i 100 0",
        "q 100 4",
        "rr 100 4",
        "r xyz 4",
        "r 100 4q",
        "2 100 4",
        "r 100 100000000",
        "r 10000000000000000 4",
        "r ffffffffffffffff 2",
        "r",
    ] {
        let problem = refused("xdin", &format!("r 0 4\n{wrong}\n"));
        assert!(
            problem.starts_with(&format!("test: line 2: \"{wrong}\": an xdin line is one of ")),
            "{problem}"
        );
    }
}
