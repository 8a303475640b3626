//! `radix` is the tree of x86: each level indexes a table page with the next bits of the address.
//!
//! # Form
//! A table page holds page size / entry size entries, so a level has log2 of this number of index bits.
//! - Two levels with entries of 4 bytes are the tables of the 80386: 10 + 10 bits, pages of 4 KiB.
//! - Four levels with entries of 8 bytes are the tables of x86-64: 4 × 9 bits, addresses of 48 bits. Five levels
//!   have 57 bits. An address must be canonical: its upper bits equal the highest bit that the table translates. So
//!   the kernel's addresses lie in the upper half of the root.
//! - An entry above the last level may map a huge page (page size × 2^(index bits) one level up: 2 MiB in
//!   x86-64). Processors limit the levels that do; the table does not.
//!
//! A root page belongs to one address space.
//!
//! Ours: if entries have 4 bytes, or the levels translate at most 32 bits, the table is for 32-bit addresses.
//! Its root has only the entries that 32 bits need, and [`regions`](super::regions) numbers the regions of
//! 64-bit programs (16 regions in 32 bits). More than 64 bits are cut at the root, too.
//!
//! Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 3A, chapter 4 (paging).

use alloc::format;

use binhop_base::{Bytes, Problem, Result};

use super::config::TableConfig;
use super::form::{TableForm, TableKind};
use super::regions::RegionShape;
use super::tree::TreeShape;

pub(super) static FORM: TableForm = TableForm {
    name: "radix",
    rule: "A tree of table pages, each level indexed by the next bits of the address, as in x86.",
    source: "Intel SDM volume 3A, chapter 4; the regions of 32-bit tables are ours",
    has_levels: true,
    // Tables of two levels are those of the 80386.
    entry: |levels| if levels == 2 { 4 } else { 8 },
    kind: |levels| TableKind::Radix { levels },
};

/// Returns the shape of the table.
pub(super) fn shape(config: &TableConfig, levels: u32) -> Result<TreeShape> {
    let (page_log2, index_bits) = (config.page.log2(), config.index_bits());
    let address_bits = if config.entry == 4 { 32 } else { 64 };
    let below_root = levels.saturating_sub(1).saturating_mul(index_bits).saturating_add(page_log2);
    let all = below_root.saturating_add(index_bits).min(address_bits);
    let refuse = |rule: &str| {
        Err(Problem::request(
            &format!("{levels} levels of {index_bits} bits, pages of {}", Bytes(config.page.bytes())),
            "translation.levels",
            rule,
            "with pages of 4KiB take 2 levels of 4B entries, or 4 or 5 levels of 8B entries",
        ))
    };
    if levels < 2 || below_root >= address_bits {
        return refuse(&format!(
            "a radix table has at least 2 levels, and none above the {address_bits} bits of an address"
        ));
    }
    let regions = RegionShape::new(all, page_log2, below_root);
    if all <= 32 && regions.is_none() {
        return refuse("a radix table maps at least a region of 256MiB");
    }
    Ok(TreeShape {
        form: FORM.name,
        page_log2,
        entry_log2: config.entry_log2(),
        index_bits,
        bits: all - page_log2,
        shifts: (0..levels).rev().map(|below| below * index_bits).collect(),
        roots_per_page: 1,
        regions: regions.filter(|_| all <= 32),
        huge_pages: true,
    })
}
