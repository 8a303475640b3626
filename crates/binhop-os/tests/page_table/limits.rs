//! These tests show what each form of table refuses, and how the refusal reads.

use binhop_base::{Asid, PageId, PageNo, PowerOfTwo};
use binhop_os::page_table::{FORMS, PageTables, TableConfig, TableKind, form};

use super::{PAGE_LOG2, SPACE, config, page_no, tables};

const FOUR: TableKind = TableKind::Radix { levels: 4 };

fn refused(config: TableConfig) -> String {
    PageTables::new(&config).err().map(|problem| problem.to_string()).unwrap_or_default()
}

#[test]
fn a_form_is_found_by_its_name() {
    let names: Vec<&str> = FORMS.iter().map(|form| form.name).collect();
    assert_eq!(names, ["mips", "radix", "hashed", "inverted", "disjunct"]);
    for known in FORMS {
        let kind = known.kind(known.has_levels.then_some(4)).unwrap();
        assert_eq!(kind.form().name, form(known.name).unwrap().name);
        assert!(PageTables::new(&config(kind, known.usual_entry(kind))).is_ok(), "{}", known.name);
        let wrong = known.kind((!known.has_levels).then_some(4)).unwrap_err();
        assert!(wrong.place.starts_with("translation."), "{wrong}");
    }
    assert!(form("guarded").is_none());
}

#[test]
fn more_regions_than_a_32_bit_table_has_are_named() {
    for (kind, regions) in [(TableKind::Mips, 8), (TableKind::Radix { levels: 2 }, 16)] {
        let mut tables = tables(kind, 4);
        let region = |number: u64| page_no(0x5550_0000_0000 + (number << 28));
        for number in 0..regions {
            tables.map(SPACE, region(number), PageId(0), PAGE_LOG2).unwrap();
        }
        let before = tables.used();
        let problem = tables.map(SPACE, region(regions), PageId(0), PAGE_LOG2).unwrap_err();
        assert!(
            problem.value.starts_with(&format!("{} regions of 256MiB, at 0x555000000000, ", regions + 1))
        );
        assert!(problem.to_string().contains("address space 7"), "{problem}");
        assert!(problem.rule.contains(&format!("at most {regions} regions")), "{problem}");
        assert_eq!(tables.used(), before);
        // A region without pages makes room.
        tables.unmap(SPACE, region(0), region(0));
        tables.map(SPACE, region(regions), PageId(0), PAGE_LOG2).unwrap();
        tables.check().unwrap();
    }
}

#[test]
fn an_address_that_is_not_canonical_is_refused() {
    let mut four = tables(FOUR, 8);
    for address in [0x8000_0000_0000, 0xffff_7fff_ffff_f000] {
        let problem = four.map(SPACE, page_no(address), PageId(0), PAGE_LOG2).unwrap_err();
        assert!(problem.to_string().contains(&format!("{address:#x}")), "{problem}");
        assert!(
            problem.rule.contains("radix table of 4 levels translates addresses of 48 bits"),
            "{problem}"
        );
        let mut five = tables(TableKind::Radix { levels: 5 }, 8);
        five.map(SPACE, page_no(address), PageId(0), PAGE_LOG2).unwrap();
    }
    assert_eq!(four.used(), 0);
}

#[test]
fn a_page_size_that_a_table_cannot_express_is_refused() {
    for (kind, entry, size_log2, sizes) in [
        (TableKind::Mips, 4, 22, "the mips table expresses pages of 4KiB"),
        (TableKind::Hashed, 16, 21, "the hashed table expresses pages of 4KiB"),
        (TableKind::Inverted, 16, 21, "the inverted table expresses pages of 4KiB"),
        (FOUR, 8, 16, "the radix table expresses pages of 4KiB, 2MiB, 1GiB, 512GiB"),
        (TableKind::Radix { levels: 2 }, 4, 21, "the radix table expresses pages of 4KiB, 4MiB"),
    ] {
        let problem = tables(kind, entry).map(SPACE, PageNo(0), PageId(0), size_log2).unwrap_err();
        assert_eq!(problem.rule, sizes);
    }
}

#[test]
fn pages_of_different_sizes_do_not_overlap() {
    let mut tables = tables(FOUR, 8);
    tables.map(SPACE, page_no(0x4000_0000), PageId(0), 21).unwrap();
    assert!(tables.map(SPACE, page_no(0x4000_1000), PageId(1), PAGE_LOG2).is_err());
    tables.map(SPACE, page_no(0x4020_1000), PageId(1), PAGE_LOG2).unwrap();
    assert!(tables.map(SPACE, page_no(0x4020_0000), PageId(2), 21).is_err());
    let problem = tables.map(SPACE, page_no(0x4000_1000), PageId(2), 21).unwrap_err();
    assert_eq!(problem.rule, "a page of 2MiB begins at a multiple of its size");
    assert_eq!((tables.entries(), tables.used()), (2, 4));
    tables.check().unwrap();
}

#[test]
fn a_reserve_that_is_too_small_is_refused() {
    let mut tables = PageTables::new(&TableConfig { reserve: 6, ..config(FOUR, 8) }).unwrap();
    tables.map(SPACE, page_no(0), PageId(0), PAGE_LOG2).unwrap();
    let problem = tables.map(SPACE, page_no(1 << 39), PageId(1), PAGE_LOG2).unwrap_err();
    assert_eq!(problem.value, "7 table pages (28KiB)");
    assert_eq!(problem.rule, "the reserve for page tables holds 6 pages (24KiB)");
    assert_eq!((tables.used(), tables.entries()), (4, 1));
    tables.map(SPACE, page_no(1 << 30), PageId(1), PAGE_LOG2).unwrap();
    assert_eq!((tables.used(), tables.entries()), (6, 2));
    // The fixed pages of a hash table are taken at once: 2^20 frames need 2^21 slots of 16 bytes.
    let problem = refused(TableConfig { frames: 1 << 20, ..config(TableKind::Hashed, 16) });
    assert!(problem.contains("8192 table pages (32MiB)"), "{problem}");
}

/// A table page holds two alias entries of 2 KiB, and the reserve has one table page for them.
#[test]
fn a_translation_may_take_the_alias_entry_that_it_frees() {
    let inverted = TableConfig { reserve: 3, frames: 2, ..config(TableKind::Inverted, 2048) };
    let mut tables = PageTables::new(&inverted).unwrap();
    for (asid, page) in [(0, 0), (1, 1), (2, 0), (3, 0)] {
        tables.map(Asid(asid), PageNo(5), PageId(page), PAGE_LOG2).unwrap();
    }
    assert!(tables.map(Asid(4), PageNo(5), PageId(0), PAGE_LOG2).is_err());
    tables.map(Asid(3), PageNo(5), PageId(1), PAGE_LOG2).unwrap();
    assert_eq!((tables.used(), tables.entries()), (3, 4));
    tables.check().unwrap();
}

#[test]
fn sizes_that_make_no_table_are_refused() {
    assert!(refused(config(FOUR, 12)).contains("a page-table entry must be a power of two"));
    assert!(refused(config(FOUR, 2)).contains("at least 4 bytes"));
    assert!(refused(config(FOUR, 4096)).contains("set translation.entry to 8B"));
    assert!(refused(config(TableKind::Radix { levels: 1 }, 8)).contains("at least 2 levels"));
    assert!(refused(config(TableKind::Radix { levels: 3 }, 4)).contains("32 bits of an address"));
    assert!(refused(config(TableKind::Radix { levels: 9 }, 8)).contains("64 bits of an address"));
    assert!(refused(config(TableKind::Radix { levels: u32::MAX }, 8)).contains("64 bits of an address"));
    assert!(refused(config(TableKind::Radix { levels: 2 }, 64)).contains("a region of 256MiB"));
    assert!(refused(config(TableKind::Mips, 8)).contains("the root table for 2GiB fits in a page"));
    let large = TableConfig { page: PowerOfTwo::from_log2(32), ..config(FOUR, 8) };
    assert!(refused(large).contains("at most 2GiB"));
}
