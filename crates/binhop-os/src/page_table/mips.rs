//! `mips` is the two-tier table of MIPS (JM97 §3.3, Figure 3).
//!
//! # Form
//! The user table is linear in virtual memory: one entry for each page of the 2 GiB of user space. With pages
//! of 4 KiB and entries of 4 bytes it has 2 MiB, in 512 pages. A page of the user table exists while it holds
//! an entry. The root table of an address space has an entry for each page of the user table: 2 KiB with these
//! sizes. It lies in physical memory and exists while the address space has a page mapped.
//!
//! A walk in full is the load of the root entry, then the load of the user entry. A handler loads the user
//! entry by its virtual address, and loads the root entry only if the TLB lacks the page of the user table.
//!
//! Ours: root tables share a table page (two in 4 KiB), the lowest free place first. The user space has 8
//! regions of 256 MiB, which [`regions`](super::regions) numbers.

use alloc::format;

use binhop_base::{Bytes, Problem, Result};

use super::config::TableConfig;
use super::form::{TableForm, TableKind};
use super::regions::RegionShape;
use super::tree::TreeShape;

pub(super) static FORM: TableForm = TableForm {
    name: "mips",
    rule: "A linear user table in virtual memory maps 2 GiB; a root table for each address space maps the user table.",
    source: "JM97 §3.3, Figure 3; the sharing of pages by root tables is ours",
    has_levels: false,
    entry: |_| 4,
    kind: |_| TableKind::Mips,
};

/// The logarithm of the user space: 2 GiB.
const USER_LOG2: u32 = 31;

/// Returns the shape of the table.
pub(super) fn shape(config: &TableConfig) -> Result<TreeShape> {
    let (page_log2, index_bits) = (config.page.log2(), config.index_bits());
    let root_bits = USER_LOG2.saturating_sub(page_log2 + index_bits);
    let root_log2 = root_bits + config.entry_log2();
    let regions = RegionShape::new(USER_LOG2, page_log2, page_log2 + index_bits);
    let Some(regions) = regions.filter(|_| root_bits > 0 && root_log2 <= page_log2) else {
        return Err(Problem::request(
            &format!("pages of {}, entries of {}B", Bytes(config.page.bytes()), config.entry),
            "translation.table",
            "a page of the mips table maps less than 2GiB, and the root table for 2GiB fits in a page",
            "take entries of 4B and pages of 4KiB to 64KiB",
        ));
    };
    Ok(TreeShape {
        form: FORM.name,
        page_log2,
        entry_log2: config.entry_log2(),
        index_bits,
        bits: USER_LOG2 - page_log2,
        shifts: [index_bits, 0].into(),
        roots_per_page: 1 << (page_log2 - root_log2),
        regions: Some(regions),
        huge_pages: false,
    })
}
