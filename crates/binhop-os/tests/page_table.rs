//! Page tables: one walk of each form followed by hand, the limits of each form, and the comparison with the
//! oracle on random events.

#![allow(clippy::unwrap_used)] // helpers of tests are tests

use binhop_base::{Asid, PageId, PageNo, PowerOfTwo, VirtAddr};
use binhop_os::page_table::{PageTables, Step, TableConfig, TableKind};

const PAGE_LOG2: u32 = 12;
const SPACE: Asid = Asid(7);

fn config(kind: TableKind, entry: u32) -> TableConfig {
    TableConfig { kind, page: PowerOfTwo::from_log2(PAGE_LOG2), entry, reserve: 64, frames: 1024 }
}

fn tables(kind: TableKind, entry: u32) -> PageTables {
    PageTables::new(&config(kind, entry)).unwrap()
}

fn page_no(address: u64) -> PageNo {
    VirtAddr(address).page(PowerOfTwo::from_log2(PAGE_LOG2))
}

fn walk(tables: &PageTables, asid: Asid, address: u64) -> (Option<(u32, u32)>, Vec<Step>) {
    let mut steps = Vec::new();
    let found = tables.walk(asid, page_no(address), &mut steps);
    (found.map(|found| (found.page.0, found.size_log2)), steps)
}

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
    assert_eq!(found, Some((0, 12)));
    assert_eq!(steps, [entry(0, 4, 0), entry(1, 3 * 4, 1)]);
    // The region of the stack is region 1. The page lies at 0x0f12_3000 in it, so at 0x1f12_3000 in the table.
    tables.map(SPACE, page_no(0x7fff_ff12_3000), PageId(1), PAGE_LOG2).unwrap();
    let (found, steps) = walk(&tables, SPACE, 0x7fff_ff12_3fff);
    assert_eq!(found, Some((1, 12)));
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
    assert_eq!(found, Some((0, 12)));
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
    assert_eq!(found, Some((3, 12)));
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
