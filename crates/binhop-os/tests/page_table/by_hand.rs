//! These tests follow a walk of each form by hand: addresses, table pages, bytes, levels.

use binhop_base::{Asid, PageId};
use binhop_os::page_table::{PageTables, RegionSegment, Step, TableKind};

use super::{PAGE_LOG2, SPACE, page_no, tables, walk};

fn entry(table: u32, offset: u32, level: u32) -> Step {
    Step::Entry { table, offset, level }
}

/// JM97, Figure 3: 2 KB of root entries map 2 MB of user entries, which map 2 GB.
#[test]
fn a_walk_of_the_mips_table() {
    let mut tables = tables(TableKind::Mips, 4);
    // The program's first region, whatever its address is, is region 0 of the table.
    tables.map(SPACE, page_no(0x0040_3000), PageId(0), PAGE_LOG2).unwrap();
    // Page 0x403 = page 0 of the user table × 1024 + 0x3: root entry 1, user entry 3.
    let (found, steps) = walk(&tables, SPACE, 0x0040_3abc);
    assert_eq!(found, Some((PageId(0), 12)));
    assert_eq!(steps, [entry(0, 4, 0), entry(1, 3 * 4, 1)]);
    // The region of the stack is region 1. The page lies at 0x0f12_3000 in it, so at 0x1f12_3000 in the table.
    tables.map(SPACE, page_no(0x7fff_ff12_3000), PageId(1), PAGE_LOG2).unwrap();
    let (found, steps) = walk(&tables, SPACE, 0x7fff_ff12_3fff);
    assert_eq!(found, Some((PageId(1), 12)));
    assert_eq!(steps, [entry(0, 124 * 4, 0), entry(2, 0x123 * 4, 1)]); // 0x1f12_3000 / 4 MiB = 124
    // The root of the second address space lies behind the first root in the same table page.
    tables.map(Asid(8), page_no(0x0040_3000), PageId(0), PAGE_LOG2).unwrap();
    assert_eq!(walk(&tables, Asid(8), 0x0040_3000).1, [entry(0, 2048 + 4, 0), entry(3, 3 * 4, 1)]);
    assert_eq!((tables.used(), tables.entries()), (4, 3));
    assert_eq!(tables.shifts(), [10, 0]);
}

/// The tables of the 80386: 10 + 10 bits.
#[test]
fn a_walk_of_the_radix_table_of_two_levels() {
    let mut tables = tables(TableKind::Radix { levels: 2 }, 4);
    tables.map(SPACE, page_no(0x5555_5565_4000), PageId(0), PAGE_LOG2).unwrap();
    // Region 0x55555 is region 0: the page lies at 0x0565_4000 in the table, bits 31-22 are 21, 21-12 are 0x254.
    let (found, steps) = walk(&tables, SPACE, 0x5555_5565_4000);
    assert_eq!(found, Some((PageId(0), 12)));
    assert_eq!(steps, [entry(0, 21 * 4, 0), entry(1, 0x254 * 4, 1)]);
    assert_eq!(tables.shifts(), [10, 0]);
    tables.unmap(SPACE, page_no(0x5555_5565_4000), page_no(0x5555_5565_4000));
    assert_eq!((tables.used(), tables.most_used(), tables.entries()), (0, 2, 0));
    tables.check().unwrap();
}

/// The tables of x86-64: 9 bits a level, in addresses of 48 and 57 bits.
#[test]
fn a_walk_of_the_radix_table_of_four_and_five_levels() {
    let mut four = tables(TableKind::Radix { levels: 4 }, 8);
    // 0x7ffe_e1c5_6000: bits 47-39 are 255, 38-30 are 507, 29-21 are 270, 20-12 are 86.
    four.map(SPACE, page_no(0x7ffe_e1c5_6000), PageId(3), PAGE_LOG2).unwrap();
    let (found, steps) = walk(&four, SPACE, 0x7ffe_e1c5_6000);
    assert_eq!(found, Some((PageId(3), 12)));
    assert_eq!(
        steps,
        [entry(0, 255 * 8, 0), entry(1, 507 * 8, 1), entry(2, 270 * 8, 2), entry(3, 86 * 8, 3)]
    );
    // The kernel's addresses lie in the upper half of the root: 0xffff_8000_0000_0000 is its entry 256.
    four.map(SPACE, page_no(0xffff_8000_0000_0000), PageId(4), PAGE_LOG2).unwrap();
    assert_eq!(walk(&four, SPACE, 0xffff_8000_0000_0000).1[0], entry(0, 256 * 8, 0));
    assert_eq!((four.used(), four.shifts()), (7, &[27, 18, 9, 0][..]));
    // The walk of a page that is not mapped ends at the empty entry.
    let (found, steps) = walk(&four, SPACE, 0x7ffe_e1e0_0000);
    assert_eq!((found, &steps[2..]), (None, &[entry(2, 271 * 8, 2)][..]));
    four.drop_space(SPACE);
    assert_eq!((four.used(), four.most_used()), (0, 7));
    let mut five = tables(TableKind::Radix { levels: 5 }, 8);
    five.map(SPACE, page_no(0x7ffe_e1c5_6000), PageId(3), PAGE_LOG2).unwrap();
    assert_eq!(
        walk(&five, SPACE, 0x7ffe_e1c5_6000).1,
        [
            entry(0, 0, 0),
            entry(1, 255 * 8, 1),
            entry(2, 507 * 8, 2),
            entry(3, 270 * 8, 3),
            entry(4, 86 * 8, 4)
        ]
    );
}

/// An entry of the third of four levels maps 2 MiB.
#[test]
fn a_walk_to_a_huge_page() {
    let mut tables = tables(TableKind::Radix { levels: 4 }, 8);
    tables.map(SPACE, page_no(0x4000_0000), PageId(0), 21).unwrap();
    // Bits 47-39 are 0, 38-30 are 1, 29-21 are 0.
    let (found, steps) = walk(&tables, SPACE, 0x401f_f000);
    assert_eq!(found, Some((PageId(0), 21)));
    assert_eq!(steps, [entry(0, 0, 0), entry(1, 8, 1), entry(2, 0, 2)]);
    // A part of the page cannot be unmapped; the whole page can.
    tables.unmap(SPACE, page_no(0x4000_1000), page_no(0x401f_f000));
    assert_eq!(tables.entries(), 1);
    tables.unmap(SPACE, page_no(0x4000_0000), page_no(0x401f_f000));
    assert_eq!((tables.entries(), tables.used()), (0, 0));
}

/// 1024 frames give 2048 slots of 16 bytes, in table pages 0 to 7.
#[test]
fn a_walk_of_the_hashed_table() {
    let mut tables = tables(TableKind::Hashed, 16);
    assert_eq!(tables.used(), 8);
    // Address space 0 adds nothing to the hash, so page 0x403 has slot 0x403, at byte 0x4030.
    tables.map(Asid(0), page_no(0x0040_3000), PageId(0), PAGE_LOG2).unwrap();
    assert_eq!(walk(&tables, Asid(0), 0x0040_3000), (Some((PageId(0), 12)), vec![entry(4, 0x30, 0)]));
    // Page 0xc02 is the pieces 0x001 and 0x402 of 11 bits: the same slot.
    let empty_handed = (None, vec![entry(4, 0x30, 0)]);
    assert_eq!(walk(&tables, Asid(0), 0x00c0_2000), empty_handed);
    tables.map(Asid(0), page_no(0x00c0_2000), PageId(1), PAGE_LOG2).unwrap();
    let chained = (Some((PageId(1), 12)), vec![entry(4, 0x30, 0), entry(8, 0, 1)]);
    assert_eq!(walk(&tables, Asid(0), 0x00c0_2000), chained);
    assert_eq!(tables.used(), 9);
    // The second entry moves into the slot when the first entry leaves.
    tables.unmap(Asid(0), page_no(0x0040_3000), page_no(0x0040_3000));
    assert_eq!(walk(&tables, Asid(0), 0x00c0_2000), (Some((PageId(1), 12)), vec![entry(4, 0x30, 0)]));
    assert_eq!(tables.used(), 8);
}

/// 1024 frames give 2048 anchors of 4 bytes in table pages 0 and 1, and frame entries in table pages 2 to 5.
#[test]
fn a_walk_of_the_inverted_table() {
    let mut tables = tables(TableKind::Inverted, 16);
    assert_eq!(tables.used(), 6);
    let frame = |page| Step::Frame { page: PageId(page), base: 2 };
    // The anchor of slot 0x403 lies at byte 0x100c.
    tables.map(Asid(0), page_no(0x0040_3000), PageId(5), PAGE_LOG2).unwrap();
    tables.map(Asid(0), page_no(0x00c0_2000), PageId(6), PAGE_LOG2).unwrap();
    assert_eq!(walk(&tables, Asid(0), 0x0040_3000), (Some((PageId(5), 12)), vec![entry(1, 12, 0), frame(5)]));
    let chained = (Some((PageId(6), 12)), vec![entry(1, 12, 0), frame(5), frame(6)]);
    assert_eq!(walk(&tables, Asid(0), 0x00c0_2000), chained);
    // A second translation of page 5 has an alias entry, until the first translation leaves.
    tables.map(Asid(0), page_no(0x0001_0000), PageId(5), PAGE_LOG2).unwrap();
    let alias = (Some((PageId(5), 12)), vec![entry(0, 0x40, 0), entry(6, 0, 1)]);
    assert_eq!(walk(&tables, Asid(0), 0x0001_0000), alias);
    tables.unmap(Asid(0), page_no(0x0040_3000), page_no(0x0040_3000));
    assert_eq!(
        walk(&tables, Asid(0), 0x0001_0000),
        (Some((PageId(5), 12)), vec![entry(0, 0x40, 0), frame(5)])
    );
    assert_eq!(tables.used(), 6);
}

/// A root table with more groups maps more regions. Entries of the global table stay in their places.
#[test]
fn the_root_tables_of_spaces_with_more_regions() {
    let mut tables = tables(TableKind::Disjunct { segments: 16, regions: 16 }, 4);
    // 16 root tables of 4 KiB take pages 1 to 16.
    assert_eq!(tables.layout().unwrap().pages(), 1 + 16 + 16 * 64);
    for region in 0..16u64 {
        tables.map(SPACE, page_no(region << 32 | 0x3000), PageId(region as u32), PAGE_LOG2).unwrap();
    }
    let (_, steps) = walk(&tables, SPACE, 15 << 32 | 0x3000);
    assert_eq!(steps, [entry(1, 15 * 64 * 4, 0), entry(17 + 15 * 64, 3 * 4, 1)]);
    let problem = tables.map(SPACE, page_no(1 << 40), PageId(99), PAGE_LOG2).unwrap_err();
    assert!(problem.value.starts_with("17 regions of 256MiB"), "{problem}");
    assert!(problem.remedy.contains("translation.regions"), "{problem}");
    tables.check().unwrap();
}

/// JM97, Figures 6 and 7: a user entry lies at ten 1-bits, the page's number in the global space, and two 0-bits; a
/// root table has 8 groups of 64 entries.
#[test]
fn a_walk_of_the_disjunct_table() {
    let mut tables = tables(TableKind::Disjunct { segments: 16, regions: 8 }, 4);
    let layout = tables.layout().unwrap();
    // The segment map takes page 0, 16 root tables of 2 KiB take pages 1 to 8, and each segment has 64 pages.
    assert_eq!((layout.pages(), tables.used()), (1 + 8 + 16 * 64, 1));
    tables.map(SPACE, page_no(0x0040_3000), PageId(0), PAGE_LOG2).unwrap();
    // Page 0x403 of segment 0 = page 1 of its part of the global table, entry 3.
    let (found, steps) = walk(&tables, SPACE, 0x0040_3abc);
    assert_eq!(found, Some((PageId(0), 12)));
    assert_eq!(steps, [entry(1, 4, 0), entry(9 + 1, 3 * 4, 1)]);
    // Another space with the same region has segment 1. Its root table is the second root table in page 1.
    tables.map(Asid(8), page_no(0x0040_3000), PageId(1), PAGE_LOG2).unwrap();
    assert_eq!(walk(&tables, Asid(8), 0x0040_3000).1, [entry(1, 2048 + 4, 0), entry(9 + 64 + 1, 3 * 4, 1)]);
    // The stack's region is region 1 of the first space, and segment 2: page 0xff12 in it is entry 0x312 of page 0x3f.
    tables.map(SPACE, page_no(0x7fff_ff12_3000), PageId(2), PAGE_LOG2).unwrap();
    let (_, steps) = walk(&tables, SPACE, 0x7fff_ff12_3fff);
    assert_eq!(steps, [entry(1, (64 + 0x3c) * 4, 0), entry(9 + 2 * 64 + 0x3c, 0x123 * 4, 1)]);
    // The address of this entry: 0x3ff << 42, segment 2 << 18, page 0xf123 << 2.
    let table = layout.global_page(9 + 2 * 64 + 0x3c).unwrap();
    let address = ((layout.global_start().0 + u64::from(table)) << PAGE_LOG2) + 0x123 * 4;
    assert_eq!(address, (0x3ff << 42) + (2 << 18) + (0xf123 << 2));
    assert_eq!(layout.physical_start().0 << PAGE_LOG2, 0x3fe << 42);
    assert_eq!((layout.map_entry(2), layout.segment_of(9 + 2 * 64 + 0x3c)), ((0, 8), Some(2)));
    assert_eq!((tables.used(), tables.entries()), (1 + 1 + 3, 3));
    // A region that loses its last page gives its segment back.
    tables.unmap(SPACE, page_no(0x0040_3000), page_no(0x0040_3000));
    tables.map(SPACE, page_no(0x5555_5565_4000), PageId(3), PAGE_LOG2).unwrap();
    assert_eq!(walk(&tables, SPACE, 0x5555_5565_4000).1[0], entry(1, (0x5654 >> 10) * 4, 0));
    assert_eq!(layout.segment_of(9 + (0x5654 >> 10)), Some(0));
    tables.check().unwrap();
    tables.drop_space(SPACE);
    tables.drop_space(Asid(8));
    assert_eq!((tables.used(), tables.entries(), tables.most_used()), (1, 0, 5));
    tables.check().unwrap();
}

/// A segment has the number that a caller states, and other regions take other numbers.
#[test]
fn a_stated_segment_of_the_disjunct_table() {
    let mut tables = tables(TableKind::Disjunct { segments: 4, regions: 8 }, 4);
    tables.state_segments([0, 3]);
    let layout = tables.layout().unwrap();
    let (here, there) = (page_no(0x3000_5000), page_no(0x7000_5000));
    let stated = RegionSegment::Stated(3);
    let segment_of = |tables: &PageTables, asid: Asid, addr: u64| match walk(tables, asid, addr).1[1] {
        Step::Entry { table, .. } => layout.segment_of(table),
        Step::Frame { .. } => None,
    };
    tables.map(SPACE, page_no(0x1000), PageId(0), PAGE_LOG2).unwrap();
    assert_eq!(segment_of(&tables, SPACE, 0x1000), Some(1));
    tables.map_in_segment(SPACE, here, PageId(1), stated).unwrap();
    tables.map_in_segment(Asid(8), there, PageId(1), stated).unwrap();
    assert_eq!(segment_of(&tables, SPACE, 0x3000_5000), Some(3));
    assert_eq!(walk(&tables, SPACE, 0x3000_5000).1[1], walk(&tables, Asid(8), 0x7000_5000).1[1]);
    // Another page at the same place of the segment is refused, and the table is unchanged.
    let problem = tables.map_in_segment(Asid(8), there, PageId(2), stated).unwrap_err();
    assert!(problem.value.contains("0x70005000"), "{problem}");
    tables.check().unwrap();
    // The segment keeps its number while it is not used.
    tables.drop_space(Asid(8));
    tables.unmap(SPACE, here, here);
    tables.map(SPACE, here, PageId(3), PAGE_LOG2).unwrap();
    assert_eq!(segment_of(&tables, SPACE, 0x3000_5000), Some(2));
    let problem = tables.map(SPACE, there, PageId(4), PAGE_LOG2).unwrap_err();
    assert!(problem.rule.contains("room for 4 segments"), "{problem}");
    tables.map_in_segment(SPACE, there, PageId(4), stated).unwrap();
    assert_eq!(segment_of(&tables, SPACE, 0x7000_5000), Some(3));
    tables.check().unwrap();
}

/// Address spaces that have no segment but a shared segment may outnumber the root tables.
#[test]
fn a_space_without_a_root_table_is_refused() {
    let mut tables = tables(TableKind::Disjunct { segments: 2, regions: 8 }, 4);
    let mut share =
        |asid: u32| tables.map_in_segment(Asid(asid), page_no(0x1000), PageId(0), RegionSegment::Shared(0));
    share(1).unwrap();
    share(2).unwrap();
    let problem = share(3).unwrap_err();
    assert!(problem.rule.contains("as many root tables as segments, 2"), "{problem}");
    tables.check().unwrap();
    tables.drop_space(Asid(1));
    tables.map(Asid(3), page_no(0x1000), PageId(1), PAGE_LOG2).unwrap();
    tables.check().unwrap();
}
