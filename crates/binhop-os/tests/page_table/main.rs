//! The tests of page tables follow walks by hand, check the limits of each form, and compare the tables with the
//! oracle.

#![allow(clippy::unwrap_used)] // helpers of tests are tests

mod by_hand;
mod limits;
mod random;

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

/// Returns the page and its size, and what the walk reads.
fn walk(tables: &PageTables, asid: Asid, address: u64) -> (Option<(PageId, u32)>, Vec<Step>) {
    let mut steps = Vec::new();
    let found = tables.walk(asid, page_no(address), &mut steps);
    (found.map(|found| (found.page, found.size_log2)), steps)
}
