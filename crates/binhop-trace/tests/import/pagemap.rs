//! These tests read raw pagemaps: both forms, packed files, wrong lengths, and frames that the kernel hides.

use std::io::{Seek, SeekFrom, Write};
use std::path::PathBuf;

use binhop_base::{Problem, Result};
use binhop_trace::placements::Span;
use binhop_trace::{Placements, read_placements};

const PRESENT: u64 = 1 << 63;
const SWAPPED: u64 = 1 << 62;
/// The bits soft-dirty, exclusively mapped and file-mapped, which are no part of the frame.
const FLAGS: u64 = 1 << 55 | 1 << 56 | 1 << 61;

const MAPS: &str = "\
00400000-00403000 r-xp 00000000 08:01 131 /bin/cc1\n\
7ffe0000-7ffe2000 rw-p 00000000 00:00 0    [stack]\n\
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0 [vsyscall]\n";

/// Two pages in frames 7 and 8, a page that was never touched, a page that is swapped out, and a page in
/// frame 3.
const ENTRIES: [u64; 5] = [PRESENT | FLAGS | 7, PRESENT | 8, 0, SWAPPED | 99, PRESENT | FLAGS | 3];

/// `PagemapDump` is a directory with a raw pagemap and its maps. It is removed at the end.
struct PagemapDump(PathBuf);

impl PagemapDump {
    fn new(raw: &[u8], maps: impl AsRef<[u8]>) -> Self {
        let name = format!("binhop-pagemap-{}-{:?}", std::process::id(), std::thread::current().id());
        let place = Self(std::env::temp_dir().join(name));
        std::fs::create_dir_all(&place.0).unwrap();
        std::fs::write(place.0.join("p"), raw).unwrap();
        std::fs::write(place.0.join("p.maps"), maps).unwrap();
        place
    }

    fn read(&self) -> Result<Placements> {
        read_placements(&self.0.join("p").display().to_string(), "--v2p")
    }
}

impl Drop for PagemapDump {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn bytes(entries: &[u64]) -> Vec<u8> {
    entries.iter().flat_map(|entry| entry.to_le_bytes()).collect()
}

fn spans(page: u64) -> [Span; 2] {
    let span = |virtual_address, frame, pages| Span {
        asid: 0,
        virtual_address,
        physical_address: frame * page,
        bytes: pages * page,
    };
    [span(0x40_0000, 7, 2), span(0x7ffe_1000, 3, 1)]
}

fn refused(raw: &[u8], maps: impl AsRef<[u8]>) -> Box<Problem> {
    PagemapDump::new(raw, maps).read().unwrap_err()
}

#[test]
fn consecutive_ranges_are_read() {
    let map = PagemapDump::new(&bytes(&ENTRIES), MAPS).read().unwrap();
    assert_eq!(map.spans, spans(4096));
    assert!(!map.evicts);
    // The kernel's half may have entries, which are mostly zeros.
    let with_the_kernels = bytes(&[&ENTRIES[..], &[PRESENT | 5]].concat());
    assert_eq!(PagemapDump::new(&with_the_kernels, MAPS).read().unwrap().spans, spans(4096));
}

#[test]
fn entries_at_the_positions_of_the_kernel_are_read() {
    let raw = PagemapDump::new(&[], MAPS);
    let mut file = std::fs::File::create(raw.0.join("p")).unwrap();
    let mut put = |page: u64, entries: &[u64]| {
        file.seek(SeekFrom::Start(page * 8)).unwrap();
        file.write_all(&bytes(entries)).unwrap();
    };
    // An entry that the maps do not name is ignored.
    put(0x300, &[PRESENT | 77]);
    put(0x400, &ENTRIES[..3]);
    put(0x7_ffe0, &ENTRIES[3..]);
    assert_eq!(raw.read().unwrap().spans, spans(4096));
}

#[test]
fn packed_files_and_other_page_sizes_are_read() {
    let packed = zstd::encode_all(&bytes(&ENTRIES)[..], 3).unwrap();
    assert_eq!(PagemapDump::new(&packed, MAPS).read().unwrap().spans, spans(4096));
    let maps = "# a 64 KiB kernel\npage_size 65536\n\n400000-420000 r-xp\n7ffd0000-7fff0000\n";
    let map = PagemapDump::new(&bytes(&[PRESENT | 7, PRESENT | 8, 0, PRESENT | 3]), maps).read().unwrap();
    let span = |virtual_address, frame: u64, pages: u64| Span {
        asid: 0,
        virtual_address,
        physical_address: frame << 16,
        bytes: pages << 16,
    };
    assert_eq!(map.spans, [span(0x40_0000, 7, 2), span(0x7ffe_0000, 3, 1)]);
}

#[test]
fn a_range_of_many_entries_is_read_in_blocks() {
    let entries: Vec<u64> = (0..5000).map(|page| PRESENT | (2 * page + 1)).collect();
    let map = PagemapDump::new(&bytes(&entries), "10000000-11388000 rw-p\n").read().unwrap();
    let want: Vec<(u64, u64)> =
        (0..5000).map(|page| ((0x1_0000 + page) << 12, (2 * page + 1) << 12)).collect();
    let got: Vec<(u64, u64)> =
        map.spans.iter().map(|span| (span.virtual_address, span.physical_address)).collect();
    assert_eq!(got, want);
}

#[test]
fn two_pages_in_one_frame_evict_each_other() {
    let map = PagemapDump::new(&bytes(&[PRESENT | 7, PRESENT | 7]), "1000-3000 rw-p\n").read().unwrap();
    assert!(map.evicts);
}

#[test]
fn the_error_of_a_wrong_length_names_the_right_lengths() {
    for raw in
        [bytes(&ENTRIES[..4]), bytes(&[&ENTRIES[..], &[0, 0]].concat()), bytes(&ENTRIES)[..39].to_vec()]
    {
        let problem = refused(&raw, MAPS);
        assert_eq!(problem.value, format!("{} bytes", raw.len()));
        assert!(problem.place.starts_with("--v2p: ") && problem.place.ends_with("/p"), "{problem}");
        // With every entry in its place, the file reaches the end of the entry of page 0x7ffe1: 0x7ffe2 × 8 bytes.
        let rule = "names 5 pages of 4096 bytes: a raw pagemap has 40 bytes for that, or, with every entry in its place, \
                    4194064 and more";
        assert!(problem.rule.ends_with(rule), "{problem}");
        assert!(problem.remedy.contains("examples/placement/pagemap.py"), "{problem}");
    }
}

#[test]
fn hidden_frames_are_reported_as_hidden() {
    let hidden: Vec<u64> = ENTRIES.iter().map(|entry| entry & !((1 << 55) - 1)).collect();
    let problem = refused(&bytes(&hidden), MAPS);
    assert_eq!(problem.value, "3 pages, which all lie in frame 0");
    assert!(problem.rule.contains("CAP_SYS_ADMIN"), "{problem}");
    assert_eq!(problem.remedy, "save the pagemap as root");
    assert_eq!(refused(&bytes(&[0, 0, 0, SWAPPED | 5, 0]), MAPS).value, "no page in memory");
}

#[test]
fn files_that_are_no_maps_are_refused() {
    for (maps, rule) in [
        ("nonsense\n", "begins with START-END"),
        ("1000-\n", "begins with START-END"),
        ("1000-3000\n3000-3000\n", "one or more whole pages, here of 4096 bytes"),
        ("1000-3800\n", "one or more whole pages"),
        ("page_size 1000\n", "power of two"),
        ("page_size\n", "power of two"),
        // A late page_size would change the ranges before it, including the ranges of the kernel's half.
        ("1000-2000\npage_size 65536\n", "page_size stands before the first range"),
        ("7ffffffff000-800000000000\npage_size 9223372036854775808\n", "before the first range"),
        ("ffffffffff600000-ffffffffff601000\npage_size 65536\n", "before the first range"),
    ] {
        let problem = refused(&bytes(&ENTRIES), maps);
        let line = maps.lines().count();
        assert!(problem.place.ends_with(&format!("/p.maps: line {line}")), "{problem}");
        assert!(problem.rule.contains(rule), "{problem}");
    }
    let twice =
        PagemapDump::new(&bytes(&[PRESENT | 1, PRESENT | 2]), "1000-2000\n1000-2000\n").read().unwrap();
    assert!(twice.in_pages(4096, "m").unwrap_err().rule.contains("the map gives two"));
    let far = refused(&bytes(&[PRESENT | ((1 << 55) - 1)]), "1000-2000\n");
    assert_eq!((&*far.value, &*far.rule), ("0x807fffffffffffff", "a frame ends within 64 bits"));
}

#[test]
fn names_in_the_maps_need_not_be_utf8() {
    let maps = b"00400000-00403000 r-xp 00000000 08:01 131 /tmp/\xff\xfe\r\n7ffe0000-7ffe2000 rw-p \xc3\n";
    assert_eq!(PagemapDump::new(&bytes(&ENTRIES), maps).read().unwrap().spans, spans(4096));
    let problem = refused(&bytes(&ENTRIES), b"00400000-00403000\n7ffe\xff-7ffe2000 rw-p\n");
    assert_eq!(problem.value, "\"7ffe\u{fffd}-7ffe2000 rw-p\"");
    assert!(problem.place.ends_with("/p.maps: line 2"), "{problem}");
    assert!(problem.rule.contains("begins with START-END"), "{problem}");
}

#[test]
fn a_line_without_end_is_refused_early() {
    let long = [b"00400000-00403000 ", &[b'x'; 70_000][..], b"\n"].concat();
    for maps in [zstd::encode_all(&long[..], 3).unwrap(), long] {
        let problem = refused(&bytes(&ENTRIES), maps);
        assert_eq!(problem.rule, "a line of a map is shorter than 64 KiB");
        assert!(problem.place.ends_with("/p.maps: line 1"), "{problem}");
    }
}

#[test]
fn the_kernels_half_may_have_any_length() {
    let maps = format!("page_size 1\n{}1000-1001\n", "8000000000000000-ffffffffffffffff\n".repeat(3));
    let map = PagemapDump::new(&bytes(&[PRESENT | 7]), maps).read().unwrap();
    assert_eq!(map.spans, [Span { asid: 0, virtual_address: 0x1000, physical_address: 7, bytes: 1 }]);
}

#[test]
fn an_unreadable_file_is_named_at_its_option() {
    let place = PagemapDump::new(&bytes(&ENTRIES), MAPS);
    let maps = place.0.join("p.maps");
    std::fs::remove_file(&maps).unwrap();
    std::fs::create_dir(&maps).unwrap();
    let problem = place.read().unwrap_err();
    assert_eq!((&*problem.place, &*problem.value), ("--v2p", &*maps.display().to_string()));
    assert!(problem.to_string().starts_with(&format!("--v2p: {}: is a directory", maps.display())));
}

#[test]
fn the_error_of_a_pagemap_without_maps_names_the_maps() {
    let place = PagemapDump::new(&bytes(&ENTRIES), MAPS);
    std::fs::remove_file(place.0.join("p.maps")).unwrap();
    let problem = place.read().unwrap_err();
    assert!(problem.rule.contains("a raw pagemap has its maps beside it"), "{problem}");
    let live = read_placements("/proc/self/pagemap", "--v2p").unwrap_err();
    assert!(live.remedy.contains("pagemap.py PID FILE"), "{live}");
}
