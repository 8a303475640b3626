//! `protection` holds the rules and counts of machines whose virtual caches keep with each line the protection of its
//! page (JM97 §4.1, §5.4). Preparation and lanes share them. Lines keep protection where software translates at cache
//! misses, and on machines without translation that ask for it (`line-protection`). binhop does not look for violations
//! of protection behind a TLB that is asked at every access.
//!
//! # Rules
//! - The events `map` and `protect` state what a page allows: fetches if it may be executed, loads if it may be read or
//!   written, stores if it may be written. A page to which no such event applies allows everything. A `protect` event
//!   counts in a trace without maps, too. A machine page that several areas share allows every access that one of the
//!   areas allows.
//! - A line gets the protection of its page when it comes from memory (under software translation by SPECIFYVTAG).
//!   Longer lines of the last level keep the protection for each part that is as long as a line of level 1.
//! - **Changes.** A `protect` event changes each page of its range that the address space has touched, and maps since,
//!   if the page then allows something else. The data side checks loads and stores, and the side of instructions checks
//!   fetches. A side is swept if a right that it checks has changed. JM97 counts one side, and most changes here
//!   concern one side only.
//! - A sweep checks every line of the page in every cache of a side, and updates the lines that the cache holds. A line
//!   of level 1 takes 3 cycles to check, or 5 to check and update; a line behind level 1 takes 20 or 40. The processor
//!   waits. These cycles are apart from those of translation, as in JM97. A sweep is no access: it changes neither what
//!   the caches hold nor the order of replacement.
//! - With `protection-changes = "lazy"` a change that only adds rights sweeps nothing. The lines that the caches of the
//!   side hold keep the old protection, until an access needs a right that its line lacks. That access takes 5 cycles
//!   more, for the update of a line of level 1. A change that takes a right away sweeps, because a line must not allow
//!   it any longer.
//! - A line keeps its old protection while some cache of its side holds it, from one access to the next.
//! - A fork protects pages, too, and the first write to such a page makes a copy. Neither the protection nor the copy
//!   is counted here: the copy has lines of its own. So only the changes that the program asked for are counted.
//! - **Violations.** An access violates the protection of its page if the page does not allow its kind. An access to
//!   several lines counts for each line; the instructions of a fetch count once for each line. A store that copies a
//!   page on write is no violation: the flags of its mapping count. The access is made as usual.

use binhop_base::{Kind, MappingId};
use binhop_os::MapFlags;

/// The cycles to check a line in level 1, and in a cache behind it (JM97 §5.4).
const CHECK: [u64; 2] = [3, 20];
/// The cycles to check and update such a line.
const UPDATE: [u64; 2] = [5, 40];

/// `Rights` are the kinds of access that a page allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rights(u8);

impl Rights {
    /// Everything is allowed.
    pub(crate) const ALL: Self = Self(0b111);
    /// The rights that the side of instructions checks, and the rights that the data side checks.
    const SIDES: [u8; 2] = [0b001, 0b110];

    /// Returns the rights that the flags of an event give.
    pub(crate) fn of(flags: MapFlags) -> Self {
        let right = |allowed: bool, kind: Kind| u8::from(allowed) << kind as u8;
        Self(
            right(flags.exec(), Kind::Fetch)
                | right(flags.read() || flags.write(), Kind::Load)
                | right(flags.write(), Kind::Store),
        )
    }

    /// Returns the rights that `self` or `other` gives.
    pub(crate) fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns whether an access of a kind is allowed.
    #[inline]
    pub(crate) fn allow(self, kind: Kind) -> bool {
        self.0 >> kind as u8 & 1 != 0
    }

    /// Returns the rights that a side checks: 0 instructions, 1 data.
    fn of_side(self, side: usize) -> u8 {
        self.0 & Self::SIDES[side]
    }
}

impl std::fmt::Display for Rights {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kinds = [(Kind::Fetch, "fetches"), (Kind::Load, "loads"), (Kind::Store, "stores")];
        let allowed: Vec<&str> =
            kinds.into_iter().filter(|&(kind, _)| self.allow(kind)).map(|(_, name)| name).collect();
        f.write_str(&if allowed.is_empty() { "nothing".to_string() } else { allowed.join(" and ") })
    }
}

/// `ProtectionChange` is a change of what a page allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProtectionChange {
    /// The mapping under which the caches know the page.
    pub(crate) name: MappingId,
    pub(crate) before: Rights,
    pub(crate) after: Rights,
}

impl ProtectionChange {
    /// Returns whether a side has other rights than before.
    pub(crate) fn changes(self, side: usize) -> bool {
        self.before.of_side(side) != self.after.of_side(side)
    }

    /// Returns whether a side has every right that it had before.
    pub(crate) fn only_adds(self, side: usize) -> bool {
        self.before.of_side(side) & !self.after.of_side(side) == 0
    }
}

/// `Violation` is an access that its page does not allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Violation {
    pub(crate) kind: Kind,
    pub(crate) mapping: MappingId,
    /// The first byte of the line.
    pub(crate) address: u64,
    pub(crate) rights: Rights,
}

/// `ProtectionCounts` counts changes and violations in the stream. They are the same in every lane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProtectionCounts {
    /// The events that changed the protection of some page in the page table.
    pub changes: u64,
    /// The pages whose protection these events changed.
    pub pages: u64,
    /// The accesses that their pages do not allow: fetch, load, store.
    pub violations: [u64; 3],
}

impl std::ops::AddAssign for ProtectionCounts {
    fn add_assign(&mut self, other: Self) {
        self.changes += other.changes;
        self.pages += other.pages;
        (0..3).for_each(|kind| self.violations[kind] += other.violations[kind]);
    }
}

impl std::ops::Sub for ProtectionCounts {
    type Output = Self;
    fn sub(self, earlier: Self) -> Self {
        Self {
            changes: self.changes - earlier.changes,
            pages: self.pages - earlier.pages,
            violations: std::array::from_fn(|kind| self.violations[kind] - earlier.violations[kind]),
        }
    }
}

/// `SweepCounts` counts the lines that changes of protection checked and updated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SweepCounts {
    /// The lines that sweeps checked: in level 1, and behind it.
    pub(crate) checked: [u64; 2],
    /// The lines among the checked lines that the caches held. These lines were updated.
    pub(crate) updated: [u64; 2],
    /// The lines that were updated at an access which needed a new right.
    pub(crate) late: u64,
}

impl SweepCounts {
    /// Returns the cycles that these checks and updates take.
    ///
    /// JM97's example: 10 of 256 lines are in level 1, and 50 of 256 in level 2.
    ///
    /// ```text
    /// 10 · 5 + 246 · 3 + 50 · 40 + 206 · 20 = 6908
    /// ```
    pub(crate) fn cycles(self) -> u64 {
        let of_level = |level: usize| {
            UPDATE[level] * self.updated[level] + CHECK[level] * (self.checked[level] - self.updated[level])
        };
        of_level(0) + of_level(1) + UPDATE[0] * self.late
    }
}

impl std::ops::AddAssign for SweepCounts {
    fn add_assign(&mut self, other: Self) {
        for level in 0..2 {
            self.checked[level] += other.checked[level];
            self.updated[level] += other.updated[level];
        }
        self.late += other.late;
    }
}

impl std::ops::Sub for SweepCounts {
    type Output = Self;
    fn sub(self, earlier: Self) -> Self {
        Self {
            checked: std::array::from_fn(|level| self.checked[level] - earlier.checked[level]),
            updated: std::array::from_fn(|level| self.updated[level] - earlier.updated[level]),
            late: self.late - earlier.late,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_takes_the_cycles_of_jm97() {
        let counts = SweepCounts { checked: [256, 256], updated: [10, 50], late: 0 };
        assert_eq!(counts.cycles(), 6908);
    }

    #[test]
    fn rights_are_read_from_flags() {
        let of = |flags: u32| Rights::of(MapFlags::from(flags)).to_string();
        assert_eq!([0, 1, 2, 3].map(of), ["nothing", "loads", "loads and stores", "loads and stores"]);
        assert_eq!([4, 5, 7].map(of), ["fetches", "fetches and loads", "fetches and loads and stores"]);
    }
}
