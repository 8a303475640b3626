//! `metrics` names the metrics of TLBs and page tables.

use binhop_base::Kind;
use binhop_os::RunCounts;
use binhop_os::page_table::TableKind;

use super::{MetricInfo, PER_INSTRUCTION_CYCLES, ratio, whole};
use crate::machine::{Machine, Refill, TranslationConfig};
use crate::results::tally::Tally;
use crate::translation::{Fault, ServedLevel, TranslationCause, TranslationCounts};

const KINDS: [Kind; 3] = [Kind::Fetch, Kind::Load, Kind::Store];

/// Metrics that do not depend on a list: name, unit and meaning.
const LIST: &[(&str, &str, &str)] = &[
    (
        "<tlb>.<kind>.accesses",
        "accesses",
        "Accesses that asked this TLB. A first-level TLB is asked at every access.",
    ),
    ("<tlb>.<kind>.misses", "misses", "Accesses whose page this TLB did not hold."),
    (
        "<tlb>.<agent>.load.accesses",
        "accesses",
        "Loads of entries of the page table that asked this TLB, by the agent that walks. Only with table = \"mips\", whose \
         entries have virtual addresses.",
    ),
    (
        "<tlb>.<agent>.load.misses",
        "misses",
        "Loads of entries of the page table whose own page this TLB did not hold.",
    ),
    ("translation.misses", "misses", "Accesses whose page no first-level TLB held."),
    ("translation.walks", "walks", "Accesses before which the page table was walked, of all kinds."),
    ("translation.<kind>.walks", "walks", "Accesses before which the page table was walked."),
    ("translation.entries", "entries", "Entries of page tables that walks read."),
    (
        "translation.entries.spared",
        "entries",
        "Entries that walks did not read, because walk caches held them.",
    ),
    ("translation.entries.root", "walks", "Walks of the MIPS table that read the root's entry, too."),
    (
        "translation.tables",
        "bytes",
        "The maximum number of bytes that page tables took at one time, up to the end of the phase.",
    ),
    (
        "translation.faults.evicted",
        "pages",
        "Page faults at a reference to a page that was evicted. All causes together are os.faults.",
    ),
    (
        "translation.huge-pages",
        "pages",
        "Huge pages that got a run of frames. Only with huge-pages, as the next three.",
    ),
    ("translation.huge-pages.fallbacks", "pages", "Huge pages for which no run of frames was free."),
    (
        "translation.huge-pages.splits",
        "pages",
        "Huge pages whose run was split: a page died or was evicted, or memory was scarce.",
    ),
    (
        "translation.huge-pages.lost",
        "bytes",
        "The maximum number of bytes that huge pages held at one time and no reference had touched, up to the end of the phase.",
    ),
    ("translation.cycles", "cycles", "Cycles that translation took. Only with [cost]."),
    (
        "translation.cpi",
        PER_INSTRUCTION_CYCLES,
        "Cycles of translation per instruction executed. Only with [cost].",
    ),
];

/// Returns every metric of translation.
pub(super) fn metrics() -> impl Iterator<Item = MetricInfo> {
    let fixed =
        LIST.iter().map(|&(name, unit, meaning)| MetricInfo { name: name.to_string(), unit, meaning });
    let causes = TranslationCause::ALL.iter().map(|&(_, name, meaning)| MetricInfo {
        name: format!("translation.cycles.{name}"),
        unit: "cycles",
        meaning,
    });
    let levels = ServedLevel::ALL.iter().map(|&(_, name, meaning)| MetricInfo {
        name: format!("translation.<kind>.tlb-miss.{name}"),
        unit: "accesses",
        meaning,
    });
    let faults = Fault::ALL.iter().map(|&(_, name, meaning)| MetricInfo {
        name: format!("translation.faults.{name}"),
        unit: "pages",
        meaning,
    });
    fixed.chain(faults).chain(causes).chain(levels)
}

/// Visits every metric of translation: name, unit, value.
pub(super) fn each(
    machine: &Machine,
    config: &TranslationConfig,
    tally: &Tally,
    counts: &TranslationCounts,
    visit: &mut impl FnMut(String, &'static str, Option<f64>),
) {
    let tlbs = &config.mmu.tlbs;
    for (number, tlb) in tlbs.iter().enumerate() {
        for kind in KINDS {
            let port = usize::from(kind != Kind::Fetch);
            let first = config.serving[port];
            let accesses = if first == number {
                tally.stream.accesses[kind as usize]
            } else if tlbs[first].next == Some(number) {
                counts.misses(first, kind)
            } else {
                continue;
            };
            visit(format!("{}.{}.accesses", tlb.name, kind.name()), "accesses", Some(whole(accesses)));
            let misses = counts.misses(number, kind);
            visit(format!("{}.{}.misses", tlb.name, kind.name()), "misses", Some(whole(misses)));
        }
    }
    if config.table.kind == TableKind::Mips {
        let first = config.serving[1];
        let walks = KINDS.into_iter().map(|kind| counts.walks(kind)).sum();
        let second = tlbs[first].next.map(|second| (second, counts.misses_of_entries(first)));
        for (number, accesses) in [(first, walks)].into_iter().chain(second) {
            let name = |what| format!("{}.{}.load.{what}", tlbs[number].name, config.agent().name());
            visit(name("accesses"), "accesses", Some(whole(accesses)));
            visit(name("misses"), "misses", Some(whole(counts.misses_of_entries(number))));
        }
    }
    for kind in KINDS {
        let name = format!("translation.{}.walks", kind.name());
        visit(name, "walks", Some(whole(counts.walks(kind))));
    }
    let misses =
        KINDS.iter().map(|&kind| counts.misses(config.serving[usize::from(kind != Kind::Fetch)], kind));
    visit("translation.misses".to_string(), "misses", Some(whole(misses.sum())));
    let walks = KINDS.iter().map(|&kind| counts.walks(kind)).sum();
    visit("translation.walks".to_string(), "walks", Some(whole(walks)));
    let entries = [("", "entries"), (".spared", "entries"), (".root", "walks")];
    for ((name, unit), count) in entries.into_iter().zip(counts.entries()) {
        visit(format!("translation.entries{name}"), unit, Some(whole(count)));
    }
    let tables = tally.stream.tables * machine.memory().page.bytes();
    visit("translation.tables".to_string(), "bytes", Some(whole(tables)));
    let mut evicted = tally.faults;
    for &(cause, name, _) in Fault::ALL {
        evicted -= counts.faults(cause);
        visit(format!("translation.faults.{name}"), "pages", Some(whole(counts.faults(cause))));
    }
    visit("translation.faults.evicted".to_string(), "pages", Some(whole(evicted)));
    if config.huge_log2.is_some() {
        huge_pages(machine, tally, visit);
    }
    for kind in KINDS {
        for &(level, name, _) in ServedLevel::ALL {
            let name = format!("translation.{}.tlb-miss.{name}", kind.name());
            visit(name, "accesses", Some(whole(counts.served_by(kind, level))));
        }
    }
    if machine.has_cost() {
        let software = config.refill == Refill::Software;
        let mut all = 0;
        for &(cause, name, _) in TranslationCause::ALL {
            all += counts.cycles(cause);
            if software || !matches!(cause, TranslationCause::Handler | TranslationCause::HandlerFetch) {
                let cycles = Some(whole(counts.cycles(cause)));
                visit(format!("translation.cycles.{name}"), "cycles", cycles);
            }
        }
        visit("translation.cycles".to_string(), "cycles", Some(whole(all)));
        visit("translation.cpi".to_string(), PER_INSTRUCTION_CYCLES, ratio(all, tally.stream.instructions));
    }
}

/// Visits the metrics of huge pages.
pub(super) fn huge_pages(
    machine: &Machine,
    tally: &Tally,
    visit: &mut impl FnMut(String, &'static str, Option<f64>),
) {
    let RunCounts { taken, fallbacks, splits, most_unused, .. } = tally.runs;
    for (name, count) in [("", taken), (".fallbacks", fallbacks), (".splits", splits)] {
        visit(format!("translation.huge-pages{name}"), "pages", Some(whole(count)));
    }
    let lost = most_unused * machine.memory().page.bytes();
    visit("translation.huge-pages.lost".to_string(), "bytes", Some(whole(lost)));
}
