//! `softvm` is what preparation and lanes have in common where software translates when the last level misses
//! (JM97 §4): where the entries of a page lie, and where the handlers lie.
//!
//! # Rules
//! - An access of the program whose line no cache on its way holds raises CACHEMISS, before anything in the caches
//!   changes. A handler runs. Then the access is made as usual: it counts once, and its line takes the place that
//!   LOAD&MAP gives it under the tag of SPECIFYVTAG.
//! - The handler is fetched, then it loads the user entry of the line's page at the entry's global virtual address. If
//!   no cache holds the entry's line, the load raises CACHEMISS, too: the handler is fetched again and loads the root
//!   entry, which maps the page of the user entry. Then the user entry is loaded.
//! - SPECIFYVTAG and LOAD&MAP are a pair, and pairs do not nest ([`TagRegister`]).
//! - LOAD&MAP of the program's data takes their physical address (§4.2). Caches find lines by virtual tags, so LOAD&MAP
//!   does not find a line that is cached under another tag. The data come from memory, and the line is inserted once
//!   more, under the tag of SPECIFYVTAG. The other line stays. If it is dirty, the data from memory are old. Ours:
//!   LOAD&MAP may also take a virtual address (§4.1), but the handler knows no other name of a page, so it moves no
//!   line from tag to tag.
//! - The handlers and what lies in physical memory (root tables, the segment map) are cached under physical addresses.
//!   Such an access never raises CACHEMISS. So the depth is two at most.
//! - A handler fetches each line of its code once, in order, before its loads. Its accesses are those of the agent
//!   `handler`, for which the processor waits. Each instruction takes a cycle besides.
//! - **Write-backs.** A dirty line that the last level evicts needs a translation, too. A line of the last level that
//!   must be read from memory, because a shorter line is written back into it, also needs a translation, unless it is
//!   the line that the access asks for. With `write-backs = "table"` these lines wait until the access that caused them
//!   is done. Then a handler of its own translates each in turn. It loads the line's user entry. If no cache holds the
//!   entry's line, it loads the segment's entry in the segment map, and the root entry, because the line may belong to
//!   a space that does not run. What it evicts waits in the same queue.
//! - The queue ends: a handler stores nothing, so each line that it translates is one dirty line less in the caches,
//!   and no line becomes dirty. A lane stops if a queue is longer than the caches have lines.
//! - **Superpages.** With `huge-pages` the page table keeps a user entry for each page, as all forms of page table do.
//!   But while a space maps a superpage as a whole, and the superpage has its run of frames, the handlers load the
//!   entry of the superpage's first page for every page of it. So one line of entries serves the superpage. (The first
//!   page's entry always lies in the page of the global table that has the other entries: the root entry is the same.)
//!   Frames are in runs because an entry names one frame. A page has the entry that it had when it was referenced last.
//! - **Synonyms** are looked for as in all caches with virtual tags ([`crate::synonyms`]): before the handlers of an
//!   access, and behind the handlers of its write-backs.
//! - **Protection** changes, and violations of it: [`protection`] has the rules.
//! - When a frame changes hands, the operating system flushes its page. It knows the frame, so no translation is
//!   needed.

mod counts;
mod protection;
mod tag_register;

use binhop_base::{MappingId, PageNo};
use binhop_os::page_table::Step;

use crate::machine::SoftvmConfig;

pub(crate) use counts::{MissCause, SoftvmCounts};
pub(crate) use protection::{ProtectionChange, ProtectionCounts, Rights, SweepCounts, Violation};
pub(crate) use tag_register::TagRegister;

/// `Entry` is the place of an entry: a mapping, and a byte of its page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) mapping: MappingId,
    pub(crate) offset: u32,
}

/// `PageEntries` are the places of the entries that lead to a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageEntries {
    pub(crate) segment: Entry,
    pub(crate) root: Entry,
    pub(crate) user: Entry,
    /// The run of frames of the superpage that the space maps around the page, if it maps one.
    pub(crate) run: Option<u32>,
}

impl PageEntries {
    /// Makes the places of what a walk of the disjunct table reads. `first` is the mapping of page 0 of the tables.
    pub(crate) fn of(config: &SoftvmConfig, first: MappingId, steps: &[Step]) -> Option<Self> {
        let &[Step::Entry { table: root, offset: root_at, .. }, Step::Entry { table, offset, .. }] = steps
        else {
            return None;
        };
        let entry = |(table, offset): (u32, u32)| Entry { mapping: MappingId(first.0 + table), offset };
        Some(Self {
            segment: entry(config.layout.map_entry(config.layout.segment_of(table)?)),
            root: entry((root, root_at)),
            user: entry((table, offset)),
            run: None,
        })
    }

    /// Returns the place of the entry that maps the page as a part of a superpage: the entry of the superpage's first
    /// page.
    pub(crate) fn of_huge(&self, config: &SoftvmConfig) -> Entry {
        Entry { offset: self.user.offset & !config.within_huge(), ..self.user }
    }
}

/// Returns the virtual page of a page of the tables or of the handlers, counted from the first: page 0 lies behind the
/// pages of the handlers in physical memory.
pub(crate) fn own_page_no(config: &SoftvmConfig, number: u32) -> PageNo {
    let layout = config.layout;
    match layout.global_page(number) {
        Some(page) if number < layout.pages() => PageNo(layout.global_start().0 + u64::from(page)),
        _ => PageNo(layout.physical_start().0 + own_frame(config, number)),
    }
}

/// Returns the frame of a page of the tables or of the handlers. The handlers come first, and have the last numbers.
pub(crate) fn own_frame(config: &SoftvmConfig, number: u32) -> u64 {
    let of_handlers = number.checked_sub(config.layout.pages());
    config.above + u64::from(of_handlers.unwrap_or(config.handler_pages() + number))
}

/// Returns the place of a byte of the handlers. `first` is the number of the first page of the tables.
pub(crate) fn own_code(config: &SoftvmConfig, first: u32, byte: u64) -> Entry {
    let log2 = config.table.page.log2();
    let page = first + config.layout.pages() + (byte >> log2) as u32;
    Entry { mapping: MappingId(page), offset: (byte & ((1 << log2) - 1)) as u32 }
}
