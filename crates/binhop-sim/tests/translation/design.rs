//! `Design` draws the translation of a machine.

use binhop_oracle::tlb::{MmuDesign, TlbDesign};
use binhop_os::page_table::TableKind;
use binhop_sim::Machine;
use proptest::prelude::*;

pub const PAGE: u64 = 4096;
pub const RESERVE: u32 = 64;
/// The number that stands before the number of a page of the MIPS user table.
pub const OF_TABLE: u64 = 1 << 60;
pub const KINDS: [&str; 3] = ["fetch", "load", "store"];

/// `Design` is a machine's translation, as the slow model and as settings of a machine.
#[derive(Clone, Debug)]
pub struct Design {
    pub mmu: MmuDesign,
    pub names: Vec<&'static str>,
    pub kind: TableKind,
    pub entry: u32,
    pub software: bool,
    /// The level that a page walker asks first.
    pub reads: Option<&'static str>,
    pub handlers: [u64; 2],
    pub second_level: u64,
    pub random: bool,
    /// The logarithm of the pages in a huge page, and the fragmentation of memory, if there are huge pages.
    pub huge: Option<(u32, u32)>,
}

/// The table with huge pages of few pages: 16 entries in a page of the table.
const HUGE_TABLE: (TableKind, u32) = (TableKind::Radix { levels: 5 }, 256);

fn tlb(entries: usize, ways: usize, wired: usize, replacement: &'static str) -> TlbDesign {
    let sets = (entries / ways) as u64;
    let ways = if sets == 1 { ways - wired } else { ways };
    TlbDesign { wired, sets, ways, replacement, pages: vec![12], next: None }
}

fn replacement() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["lru", "fifo", "random"])
}

prop_compose! {
    pub fn design()(
        first in (1..6usize, replacement()),
        second in prop::option::of((1..4usize, 1..3usize, replacement())),
        split in prop::option::of(prop::sample::select(vec!["plru", "lru", "fifo"])),
        wired in 0..3usize,
        tagged in any::<bool>(),
        spaces in prop::option::of(1..4usize),
        table in 0..6usize,
        walk_caches in prop::collection::vec(prop::option::of(1..4usize), 3),
        software in any::<bool>(),
        reads in prop::sample::select(vec![None, Some("l2"), Some("memory")]),
        handlers in [1..20u64, 1..30u64],
        second_level in 0..9u64,
        random in any::<bool>(),
        huge in prop::option::of((prop::sample::select(vec![4, 4, 4, 8]), prop::sample::select(vec![0, 0, 30]))),
    ) -> Design {
        let mut tlbs = vec![tlb(first.0 + wired, first.0 + wired, wired, first.1)];
        let mut names = vec!["tlb"];
        if let Some(rule) = split {
            tlbs.push(tlb(4, 2, 0, rule));
            names.push("dtlb");
        }
        if let Some((sets, ways, rule)) = second {
            let last = tlbs.len();
            tlbs.iter_mut().for_each(|tlb| tlb.next = Some(last));
            tlbs.push(tlb(sets * ways, ways, 0, rule));
            names.push("stlb");
        }
        let (kind, entry) = [
            (TableKind::Mips, 4),
            (TableKind::Radix { levels: 2 }, 4),
            (TableKind::Radix { levels: 4 }, 8),
            (TableKind::Radix { levels: 5 }, 8),
            (TableKind::Hashed, 16),
            (TableKind::Inverted, 16),
        ][table];
        let (kind, entry) = if huge.is_some() { HUGE_TABLE } else { (kind, entry) };
        let sizes = std::iter::once(12).chain(huge.map(|(log2, _)| 12 + log2)).collect::<Vec<u32>>();
        tlbs.iter_mut().for_each(|tlb| tlb.pages.clone_from(&sizes));
        let levels = if let TableKind::Radix { levels } = kind { levels } else { 0 };
        let caches = (0..levels.saturating_sub(1) as usize).filter(|_| !software).filter_map(|level| {
            let entries = (*walk_caches.get(level)?)?;
            Some((level, tlb(entries, entries, 0, "lru")))
        });
        Design {
            mmu: MmuDesign {
                base_log2: 12,
                ports: if split.is_some() { [vec![0], vec![1]] } else { [vec![0], vec![0]] },
                tlbs,
                tagged,
                spaces: spaces.filter(|_| tagged),
                walk_caches: caches.collect(),
            },
            names,
            kind,
            entry,
            software,
            reads: reads.filter(|_| !software),
            handlers,
            second_level,
            random,
            huge,
        }
    }
}

impl Design {
    /// Returns the machine with this translation.
    pub fn of(&self, machine: &Machine) -> Machine {
        let mut settings = vec!["translation=on".to_string()];
        let mut set = |key: String, value: String| settings.push(format!("{key}={value}"));
        let split = self.mmu.ports[0] != self.mmu.ports[1];
        for (number, (tlb, name)) in self.mmu.tlbs.iter().zip(&self.names).enumerate() {
            let key = |what: &str| format!("tlb.{name}.{what}");
            let ways = tlb.ways + if tlb.sets == 1 { tlb.wired } else { 0 };
            set(key("entries"), (ways * tlb.sets as usize).to_string());
            set(key("ways"), ways.to_string());
            set(key("replacement"), tlb.replacement.to_string());
            if tlb.sets == 1 && tlb.wired > 0 {
                set(key("wired"), tlb.wired.to_string());
            }
            if let Some(next) = tlb.next {
                set(key("next"), self.names[next].to_string());
            }
            match (number, split) {
                (0, false) => set(key("serves"), "all".to_string()),
                (0, true) => set(key("serves"), "fetch".to_string()),
                (1, true) => set(key("serves"), "data".to_string()),
                _ => {}
            }
        }
        let (form, levels) = match self.kind {
            TableKind::Mips => ("mips", None),
            TableKind::Radix { levels } => ("radix", Some(levels)),
            TableKind::Hashed => ("hashed", None),
            TableKind::Inverted => ("inverted", None),
            TableKind::Disjunct { .. } => unreachable!("no TLB is refilled from this table"),
        };
        let mut of = |what: &str, value: String| set(format!("translation.{what}"), value);
        of("table", form.to_string());
        levels.iter().for_each(|levels| of("levels", levels.to_string()));
        of("entry", format!("{}B", self.entry));
        of("refill", if self.software { "software" } else { "hardware" }.to_string());
        self.reads.iter().for_each(|reads| of("reads", (*reads).to_string()));
        of("tags", self.mmu.tagged.to_string());
        of("asids", self.mmu.spaces.unwrap_or(0).to_string());
        of("handler", self.handlers[0].to_string());
        of("root-handler", self.handlers[1].to_string());
        of("second-level", self.second_level.to_string());
        of("reserve", format!("{}KiB", RESERVE * 4));
        of("placement", if self.random { "random" } else { "fixed" }.to_string());
        if let Some((log2, fragmentation)) = self.huge {
            of("huge-pages", format!("{}KiB", 4 << log2));
            set("placement.policy".to_string(), "buddy".to_string());
            set("placement.fragmentation".to_string(), fragmentation.to_string());
        }
        for (level, cache) in &self.mmu.walk_caches {
            set(format!("walk-cache.{level}.entries"), cache.ways.to_string());
        }
        Machine::parse(&machine.resolved(), machine.name(), &settings).unwrap()
    }
}
