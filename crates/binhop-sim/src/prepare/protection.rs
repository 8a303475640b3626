//! This part of preparation knows which accesses pages allow, on machines whose lines keep the protection of their
//! pages. The top of [`crate::softvm`]'s `protection` has the rules.
//!
//! Filters skip a reference only if the last access to its line was of a kind that allows it: an access that its page
//! does not allow makes the filter forget the line, and a change of protection makes the filters forget all lines. So
//! every violation is seen.

use std::collections::BTreeMap;

use binhop_base::forest::{Forest, Root};
use binhop_base::{Asid, Kind, MappingId, Problem, Result};
use binhop_os::{MapFlags, Spaces};
use binhop_trace::{EventBatch, Op};

use super::global::ONE_ADDRESS;
use super::{Control, Prepare};
use crate::machine::{ProtectionConfig, ProtectionViolations};
use crate::softvm::{ProtectionChange, Rights, Violation};

/// The distance below its start at which a growing area still covers a reference, as in [`Spaces`].
const GROWTH: u64 = 8 << 20;

/// `Area` is a part of an address space, from its start (the key) to its last byte.
#[derive(Clone, Copy, Debug)]
struct Area {
    last: u64,
    flags: MapFlags,
}

/// `Protection` knows what the pages of all address spaces allow.
pub(super) struct Protection {
    violations: ProtectionViolations,
    page_log2: u32,
    /// The areas of all address spaces. The areas of one space never overlap.
    areas: Forest<Area>,
    spaces: BTreeMap<Asid, Root>,
    /// The mapping that last led to each virtual page that was touched and is mapped since.
    mappings: BTreeMap<(Asid, u64), MappingId>,
    /// For each mapping, what its page allows.
    rights: Vec<Rights>,
    /// The first violation.
    violation: Option<Violation>,
}

impl Protection {
    pub(super) fn new(config: &ProtectionConfig) -> Self {
        Self {
            violations: config.violations,
            page_log2: config.page_log2,
            areas: Forest::default(),
            spaces: BTreeMap::new(),
            mappings: BTreeMap::new(),
            rights: Vec::new(),
            violation: None,
        }
    }

    /// Returns the mapping that leads to a page that was touched and is mapped since.
    pub(super) fn mapping_at(&self, asid: Asid, page_no: u64) -> Option<MappingId> {
        self.mappings.get(&(asid, page_no)).copied()
    }

    /// Forgets the mappings of a range of pages whose mappings end, from the first page to the last.
    pub(super) fn unmap(&mut self, asid: Asid, [first, last]: [u64; 2]) {
        while let Some((&page, _)) = self.mappings.range((asid, first)..=(asid, last)).next() {
            self.mappings.remove(&page);
        }
    }

    /// Ends what the areas of a space hold between two bytes, and puts `area` there.
    fn replace(&mut self, asid: Asid, first: u64, last: u64, flags: Option<MapFlags>) {
        let mut space = self.spaces.get(&asid).copied().unwrap_or(Root::EMPTY);
        let before = self.areas.at_or_below(space, first).filter(|(_, area)| area.last >= first);
        let behind = self.areas.at_or_below(space, last).filter(|(_, area)| area.last > last);
        space = self.areas.remove_range(space, first, last);
        if let Some((from, area)) = before.filter(|&(from, _)| from < first) {
            space = self.areas.remove(space, from);
            space = self.areas.insert(space, from, Area { last: first - 1, ..area });
        }
        if let Some((_, area)) = behind {
            space = self.areas.insert(space, last + 1, area);
        }
        if let Some(flags) = flags {
            space = self.areas.insert(space, first, Area { last, flags });
        }
        self.areas.forget_released();
        self.spaces.insert(asid, space);
    }

    fn end(&mut self, asid: Asid) {
        if let Some(space) = self.spaces.remove(&asid) {
            self.areas.release(space);
            self.areas.forget_released();
        }
        self.unmap(asid, [0, u64::MAX]);
    }

    /// Returns what the bytes of a page allow. A growing area above the page grows down to it.
    fn rights_of(&mut self, asid: Asid, first: u64, last: u64) -> Rights {
        let Some(&space) = self.spaces.get(&asid) else { return Rights::ALL };
        let below = self.areas.at_or_below(space, first).filter(|(_, area)| area.last >= first);
        let inside = self.areas.range(space, first, last).filter(|&(from, _)| from > first);
        let found = below.into_iter().chain(inside).map(|(_, area)| Rights::of(area.flags));
        if let Some(rights) = found.reduce(Rights::or) {
            return rights;
        }
        match self.areas.at_or_above(space, last) {
            Some((start, area)) if area.flags.grows() && start - first <= GROWTH => {
                self.replace(asid, first, start - 1, Some(area.flags));
                Rights::of(area.flags)
            }
            _ => Rights::ALL,
        }
    }

    /// Notes the mapping that leads to a page from now on.
    pub(super) fn touched(&mut self, asid: Asid, page_no: u64, mapping: MappingId) {
        let first = page_no << self.page_log2;
        let rights = self.rights_of(asid, first, first | ((1 << self.page_log2) - 1));
        if mapping.index() >= self.rights.len() {
            self.rights.resize(mapping.index() + 1, Rights::ALL);
        }
        self.rights[mapping.index()] = rights;
        self.mappings.insert((asid, page_no), mapping);
    }

    /// Returns what the page of a mapping allows.
    #[inline]
    pub(super) fn of(&self, mapping: MappingId) -> Rights {
        self.rights.get(mapping.index()).copied().unwrap_or(Rights::ALL)
    }
}

impl Prepare {
    /// Follows an event that may change what pages allow. The page table does not know of the event yet.
    pub(super) fn follow_protection(&mut self, batch: &EventBatch, row: usize) {
        let (Some(protection), Some(op)) = (&mut self.protection, Op::from_code(batch.op()[row])) else {
            return;
        };
        let (addr, here) = (batch.addr()[row], self.running.asid);
        let bytes = u64::from(batch.count()[row]).saturating_mul(self.trace_page);
        let last = addr.saturating_add(bytes.saturating_sub(1));
        let flags = MapFlags::from(batch.size()[row]);
        match op {
            Op::Map | Op::Protect | Op::Unmap if bytes == 0 => {}
            Op::Map => protection.replace(here, addr, last, Some(flags)),
            Op::Unmap => protection.replace(here, addr, last, None),
            Op::Protect => {
                protection.replace(here, addr, last, Some(flags));
                self.change_protection([addr, last]);
            }
            Op::Fork => {
                let parent = batch.arg0(row).map_or(here, |number| Asid(number as u32));
                let child = Asid(addr as u32);
                protection.end(child);
                if let Some(&space) = protection.spaces.get(&parent) {
                    let space = protection.areas.share(space);
                    protection.spaces.insert(child, space);
                }
            }
            Op::Exec | Op::Exit => protection.end(Asid(addr as u32)),
            _ => {}
        }
    }

    /// Finds the pages of the running space whose protection an event has changed, and tells lanes.
    fn change_protection(&mut self, [first, last]: [u64; 2]) {
        let (here, log2) = (self.running.asid, self.page.log2());
        let Some(protection) = &mut self.protection else { return };
        let touched = protection.mappings.range((here, first >> log2)..=(here, last >> log2));
        let touched: Vec<_> = touched.map(|(&(_, page_no), &mapping)| (page_no, mapping)).collect();
        let mut changes = Vec::new();
        for (page_no, mapping) in touched {
            let before = protection.of(mapping);
            protection.touched(here, page_no, mapping);
            let after = protection.of(mapping);
            if before != after {
                let name = self.global.as_ref().map_or(mapping, |global| global.name_of(mapping));
                changes.push(ProtectionChange { name, before, after });
            }
        }
        if !changes.is_empty() {
            self.stream.protection.changes += 1;
            self.stream.protection.pages += changes.len() as u64;
            self.forget_lines();
            self.control(Control::Protect(changes.into()));
        }
    }

    /// Checks whether a page allows an access that is passed. Returns true if the page does not allow the access and
    /// violations are counted.
    #[inline]
    pub(super) fn violates(
        &mut self,
        port: usize,
        line: u64,
        mapping: MappingId,
        kind: Kind,
    ) -> Result<bool> {
        let Some(protection) = &mut self.protection else { return Ok(false) };
        let rights = protection.of(mapping);
        if rights.allow(kind) || protection.violations == ProtectionViolations::Ignore {
            return Ok(false);
        }
        let violation = Violation { kind, mapping, address: line << self.line_log2[port], rights };
        protection.violation.get_or_insert(violation);
        if protection.violations == ProtectionViolations::Stop {
            return Err(problem(violation, &self.spaces, &self.place));
        }
        self.stream.protection.violations[kind as usize] += 1;
        Ok(true)
    }

    /// Adds the row of a reference to the problem by which the reference stops the run.
    #[cold]
    pub(super) fn at_row(&self, mut problem: Box<Problem>, row: usize) -> Box<Problem> {
        if let Some(protection) = &self.protection
            && protection.violation.is_some()
            && protection.violations == ProtectionViolations::Stop
        {
            problem.place = format!("{}: row {}", self.place, self.rows_before + row as u64);
        } else if problem.place == ONE_ADDRESS {
            problem.place = format!("{}: row {}: {ONE_ADDRESS}", self.place, self.rows_before + row as u64);
        }
        problem
    }

    /// Returns the first violation, if violations are counted.
    pub(crate) fn violation(&self) -> Option<Violation> {
        self.protection.as_ref()?.violation
    }
}

/// Says which access a page does not allow.
pub(crate) fn in_words(violation: Violation, spaces: &Spaces) -> String {
    let Violation { kind, mapping, address, .. } = violation;
    let asid = spaces.asid_of(mapping).map_or("the kernel".to_string(), |asid| format!("asid {asid}"));
    format!("a {} of {address:#x} in {asid}", kind.name())
}

#[cold]
fn problem(violation: Violation, spaces: &Spaces, place: &str) -> Box<Problem> {
    Problem::request(
        &in_words(violation, spaces),
        place,
        &format!("the protection of the page allows {}, as map and protect events say", violation.rights),
        "correct the flags of the events, or count violations with --set translation.protection-violations=count",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::ProtectionChanges;

    #[test]
    fn areas_are_cut_and_shared_and_grow() {
        let mut all = Protection::new(&ProtectionConfig {
            changes: ProtectionChanges::Eager,
            violations: ProtectionViolations::Count,
            chains: [Vec::new(), Vec::new()],
            line_log2: Vec::new(),
            page_log2: 12,
        });
        let of = |all: &mut Protection, asid: u32, page: u64| {
            all.rights_of(Asid(asid), page << 12, (page << 12) | 0xfff).to_string()
        };
        assert_eq!(of(&mut all, 0, 4), "fetches and loads and stores");
        all.replace(Asid(0), 0x4000, 0x8fff, Some(MapFlags::from(5)));
        all.replace(Asid(0), 0x6000, 0x6fff, Some(MapFlags::from(1)));
        assert_eq!(
            [3, 4, 6, 7].map(|page| of(&mut all, 0, page)),
            ["fetches and loads and stores", "fetches and loads", "loads", "fetches and loads"]
        );
        // A page that lies in two areas allows every access that one of the areas allows.
        assert_eq!(all.rights_of(Asid(0), 0x6000, 0x7fff).to_string(), "fetches and loads");
        all.replace(Asid(0), 0x7000, 0x7fff, None);
        assert_eq!(
            [7, 8].map(|page| of(&mut all, 0, page)),
            ["fetches and loads and stores", "fetches and loads"]
        );
        // A stack grows.
        all.replace(Asid(1), 0x100_0000, 0x100_ffff, Some(MapFlags::from(1 | 2 | 16)));
        assert_eq!(of(&mut all, 1, 0x900), "loads and stores");
        assert_eq!(of(&mut all, 1, 0x200), "loads and stores");
        assert_eq!(of(&mut all, 1, 0x1010), "fetches and loads and stores");
        all.end(Asid(1));
        assert_eq!(of(&mut all, 1, 0x900), "fetches and loads and stores");
    }
}
