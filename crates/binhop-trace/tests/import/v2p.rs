//! These tests read maps of virtual to physical addresses: the three forms, and files that are no maps.

use std::io::{Cursor, Read, Write};

use proptest::prelude::*;

use super::sample;
use binhop_trace::Placements;
use binhop_trace::input::Input;
use binhop_trace::placements::v2p;
use binhop_trace::placements::{FrameRun, PlacedPage, Span};

fn read(text: &str) -> binhop_base::Result<Placements> {
    v2p::read_from(Input::from_reader("test", Cursor::new(text.as_bytes().to_vec()))?)
}

fn span(asid: u32, virtual_address: u64, physical_address: u64, bytes: u64) -> Span {
    Span { asid, virtual_address, physical_address, bytes }
}

fn run(asid: u32, page_no: u64, frame: u64, pages: u64) -> FrameRun {
    FrameRun { first: PlacedPage { asid, page_no, frame }, pages }
}

const PROTO: &str = "# a map\naddress_mapping_group {\n  page_size: 2097152\n  name: \"a {curious} name\"\n  address_mapping {\n    virtual_address: 4194304\n    physical_address: 2097152\n  }\n  address_mapping { virtual_address: 0x600000, physical_address: 0x600000 }\n  information { page_count: 2 page_size: 7 }\n}\naddress_mapping_group { page_size: 4096 address_mapping { virtual_address: 4096 physical_address: 0 } }\n";

#[test]
fn the_textproto_of_workload_traces_is_read() {
    let map = read(PROTO).unwrap();
    let huge = 2 << 20;
    assert_eq!(
        map.spans,
        [span(0, 2 * huge, huge, huge), span(0, 3 * huge, 3 * huge, huge), span(0, 4096, 0, 4096)]
    );
    assert!(!map.evicts);
    // A frame of 2 MiB is 512 frames of 4 KiB.
    assert_eq!(
        map.in_pages(4096, "m").unwrap().1,
        [run(0, 1, 0, 1), run(0, 1024, 512, 512), run(0, 1536, 1536, 512)]
    );
}

#[test]
fn the_sample_is_read_whole() {
    let Some(path) = sample("v2p.textproto") else { return };
    let map = binhop_trace::read_placements(&path.display().to_string(), "placement.file").unwrap();
    assert_eq!(map.spans.len(), 9);
    assert_eq!(map.spans.iter().map(|span| span.bytes).sum::<u64>(), 18_874_368);
    assert!(!map.evicts);
    let (pages, runs) = map.in_pages(4096, "m").unwrap();
    assert_eq!((pages.len(), runs.len()), (0, 9));
    assert_eq!(runs[0], run(0, 1024, 512, 512));
    assert_eq!(runs.iter().map(|run| run.pages).sum::<u64>(), 9 * 512);
    // On a machine with pages of 2 MiB each run is one page.
    assert_eq!(map.in_pages(2 << 20, "m").unwrap().1[0], run(0, 2, 1, 1));
}

#[test]
fn the_output_of_page_types_is_read() {
    let map = read("voffset\toffset\tlen\tflags\n400\t1f0\t2\t__RU_lA____M\n7fff0\t22\t1\t___\n\n             flags\tpage-count\n0x0\t3\n").unwrap();
    assert_eq!(map.spans, [span(0, 0x40_0000, 0x1f_0000, 0x2000), span(0, 0x7fff_0000, 0x2_2000, 0x1000)]);
    let map = read("voffset\toffset\tflags\n400\t1f0\t__RU\n401\t1f1\t__RU\n").unwrap();
    assert_eq!(map.in_pages(4096, "m").unwrap().1, [run(0, 0x400, 0x1f0, 2)]);
}

#[test]
fn plain_lines_are_read() {
    let map =
        read("# pid 12\n400000 10000 # text\n2:0x400000 0x11000\npage_size 65536\nf0000 abc0000\n").unwrap();
    assert_eq!(
        map.spans,
        [
            span(0, 0x40_0000, 0x1_0000, 4096),
            span(2, 0x40_0000, 0x1_1000, 4096),
            span(0, 0xf_0000, 0xabc_0000, 65536)
        ]
    );
    assert!(!map.evicts);
    assert!(read("1000 5000\n2000 5000\n").unwrap().evicts, "two pages take turns in one frame");
}

#[test]
fn pages_of_another_size_are_split_and_joined() {
    let map = read("1000 5000\n2000 6000\n3000 7000\n8000 1000\n").unwrap();
    assert_eq!(map.in_pages(2048, "m").unwrap().1, [run(0, 2, 10, 6), run(0, 16, 2, 2)]);
    let problem = map.in_pages(8192, "m").unwrap_err();
    assert_eq!(problem.value, "12288 bytes at 0x1000 of asid 0, in physical memory at 0x5000");
    assert!(problem.remedy.contains("4096 bytes or smaller"), "{problem}");
    let whole = read("2000 6000\n3000 7000\n").unwrap();
    assert_eq!(whole.in_pages(8192, "m").unwrap().1, [run(0, 1, 3, 1)]);
    // The pages of a Parquet file that gives their size.
    let pages = vec![PlacedPage { asid: 1, page_no: 2, frame: 3 }];
    let sized = Placements { page_size: Some(8192), pages: pages.clone(), ..Placements::default() };
    assert_eq!(sized.in_pages(4096, "m").unwrap(), (vec![], vec![run(1, 4, 6, 2)]));
    assert_eq!(sized.in_pages(8192, "m").unwrap(), (pages, vec![]));
}

#[test]
fn a_file_that_is_no_map_is_refused() {
    let problem = |text: &str| read(text).unwrap_err().to_string();
    assert!(problem("1000\n").starts_with("test: line 1: \"1000\": a line of a map is"));
    assert!(problem("1000 5000 6000\n").contains("a line of a map is"));
    assert!(problem("x:1000 5000\n").contains("a line of a map is"));
    assert!(problem("1000 +5000\n").contains("a line of a map is"));
    assert!(problem("1001 5000\n").contains("lies at a multiple of its size"));
    assert!(problem("# nothing\n").contains("names at least one page"));
    assert!(problem("page_size 4095\n").contains("power of two"));
    assert!(problem("fffffffffffff000 5000\npage_size 8192\nffffffffffffffff 1\n").contains("multiple"));
    assert!(problem("address_mapping_group {\n address_mapping {\n").contains("ends inside this block"));
    assert!(
        problem("address_mapping_group {\n address_mapping { virtual_address: 1 }\n}\n")
            .contains("has a virtual_address and")
    );
    assert!(
        problem("address_mapping_group { page_size: 4096 address_mapping { virtual_address: x } }\n")
            .contains("is a number")
    );
    assert!(problem("a_b { } }\n").contains("a block that ends has begun"));
    assert!(problem(&"a_b {\n".repeat(17)).contains("at most 16 deep"));
    assert!(problem(&"1".repeat(70_000)).contains("shorter than 64 KiB"));
    assert!(problem("voffset offset len flags\n1 2\n").contains("a line of page-types"));
    let twice = read("1000 5000\n1000 6000\n").unwrap().in_pages(4096, "m").unwrap_err();
    assert!(twice.rule.contains("the map gives two"), "{twice}");
    // Repeating a page with its frame changes nothing.
    assert!(read("1000 5000\n1000 5000\n").unwrap().in_pages(4096, "m").is_ok());
}

#[test]
#[cfg(unix)]
fn a_pipe_is_not_read_by_is_map() {
    let path = std::env::temp_dir().join(format!("binhop-v2p-{}", std::process::id()));
    assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    // A pipe that is open for both directions does not wait, and holds more than `is_map` would read.
    let mut pipe = std::fs::File::options().read(true).write(true).open(&path).unwrap();
    let map = b"voffset\toffset\tlen\tflags\n".repeat(256);
    pipe.write_all(&map).unwrap();
    let name = path.display().to_string();
    let (is_map, problem) = (v2p::is_map(&name), binhop_trace::import::open(&name, None).err().unwrap());
    std::fs::remove_file(&path).unwrap();
    assert!(!is_map);
    assert_eq!(problem.rule, "its name does not tell the format");
    let mut held = vec![0; map.len()];
    pipe.read_exact(&mut held).unwrap();
    assert_eq!(held, map);
}

#[test]
fn the_last_page_of_the_address_space_can_be_named() {
    let map = read("fffffffffffff000 fffffffffffff000\n").unwrap();
    assert_eq!(map.in_pages(4096, "m").unwrap().1, [run(0, u64::MAX >> 12, u64::MAX >> 12, 1)]);
}

const PIECES: [&str; 24] = [
    "address_mapping_group",
    "address_mapping",
    "virtual_address",
    "physical_address",
    "page_size",
    "{",
    "}",
    ":",
    " ",
    "\n",
    "\n",
    "4096",
    "0x1000",
    "2000",
    "3000",
    "1:",
    "voffset",
    "offset",
    "len",
    "flags",
    "#",
    "\"",
    "18446744073709551615",
    "\u{fc}",
];

proptest! {
    #[test]
    fn any_text_is_read_or_refused(pieces in proptest::collection::vec(proptest::sample::select(&PIECES[..]), 0..40)) {
        if let Ok(map) = read(&pieces.concat()) {
            let _ = map.in_pages(4096, "m");
            let _ = map.in_pages(1 << 30, "m");
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 1..300)) {
        if let Ok(map) = Input::from_reader("test", Cursor::new(bytes)).and_then(v2p::read_from) {
            let _ = map.in_pages(4096, "m");
        }
    }

    /// The runs give each page the frame that its line gives.
    #[test]
    fn runs_agree_with_the_lines(pages in proptest::collection::btree_map((0..3_u32, 0..40_u64), 0..50_u64, 1..60)) {
        let text: String = pages.iter().map(|((asid, page), frame)| format!("{asid}:{:x} {:x}\n", page << 12, frame << 12)).collect();
        let (_, runs) = read(&text).unwrap().in_pages(4096, "m").unwrap();
        let mut said = std::collections::BTreeMap::new();
        for FrameRun { first, pages } in runs {
            for n in 0..pages {
                said.insert((first.asid, first.page_no + n), first.frame + n);
            }
        }
        prop_assert_eq!(said, pages);
    }
}
