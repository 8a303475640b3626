//! `inspect` reports what a trace holds and what it lacks, in one pass over its events.
//!
//! **Counting rules.** References and instructions are counted as in `totals.rs`. A page is touched if any
//! byte of a reference lies in it. Pages have the size of the machine that the trace was made on, or 4 KiB if
//! the trace does not name the size. A page shared by two address spaces counts in both. References between
//! kernel-enter and kernel-leave are the kernel's, and no process's. Memory grows with the pages touched, not
//! with the trace's length.

mod census;

use std::collections::BTreeMap;

use binhop_base::Result;
use serde::Serialize;

use crate::bounds::exceeded;
use crate::event::Op;
use crate::parquet_file::damaged;
use crate::source::{ASSUMED_PAGE, Meta, Source};
use crate::totals::{ContentHash, Totals};
use crate::trace_file::FileFacts;
use census::{Census, KERNEL};

/// `TraceReport` is the report of `binhop inspect`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TraceReport {
    /// The name of the source.
    pub name: String,
    /// The file, if the source is a file.
    pub file: Option<FileFacts>,
    /// References, instructions, and rows by operation.
    pub totals: Totals,
    /// Hash of the events, 16 hexadecimal digits.
    pub content_hash: String,
    /// The result of comparing the events with the checks of the file.
    pub content: ContentCheck,
    /// The bytes in a page, as pages are counted here.
    pub page_size: u64,
    /// True if the trace does not name its page size.
    pub page_size_assumed: bool,
    /// Distinct pages touched, summed over address spaces and the kernel.
    pub pages: u64,
    /// The touched pages in bytes.
    pub footprint_bytes: u64,
    /// Each address space that made a reference or that the metadata describe, by asid.
    pub processes: Vec<ProcessReport>,
    /// The references of the kernel.
    pub kernel: ReferenceCounts,
    /// The switches by cause.
    pub switches: BTreeMap<&'static str, u64>,
    /// The metadata of the trace.
    pub meta: Meta,
    /// What a simulation would need and the trace does not hold.
    pub missing: Vec<Missing>,
}

/// `ContentCheck` says whether the events were compared with the checks of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ContentCheck {
    /// Totals and content hash agree with the checks of the file.
    Verified,
    /// Another program wrote the file, which has no checks.
    NoChecksums,
    /// The source is no trace file but a pipe, a stream or a workload.
    NotAFile,
}

/// `ReferenceCounts` counts references, and the pages that they touched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ReferenceCounts {
    /// Instructions fetched plus loads, stores and modifies.
    pub references: u64,
    /// Instructions executed.
    pub instructions: u64,
    /// Distinct pages touched.
    pub pages: u64,
    /// The touched pages in bytes.
    pub footprint_bytes: u64,
}

/// `ProcessReport` is the report of one address space.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProcessReport {
    /// The asid.
    pub asid: u64,
    /// The process id at the time of recording, if known.
    pub pid: Option<u64>,
    /// The command of the process, if known.
    pub command: Option<String>,
    /// The references of the process.
    #[serde(flatten)]
    pub work: ReferenceCounts,
}

/// `Missing` is something that the trace does not hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Missing {
    /// What is missing.
    pub what: String,
    /// The consequence for a simulation.
    pub consequence: String,
}

/// Reads a source to its end and reports. `progress` gets the totals after each batch, and its error ends the
/// reading.
///
/// # Errors
/// The source or `progress` fails, the events differ from the file's checksums, or a reference exceeds the
/// bounds of [`crate::bounds`].
pub fn inspect(
    source: &mut dyn Source,
    facts: Option<&FileFacts>,
    progress: &mut dyn FnMut(&Totals) -> Result<()>,
) -> Result<TraceReport> {
    let known_size = source.meta().known_page_size();
    let page_size = known_size.unwrap_or(ASSUMED_PAGE);
    let mut census = Census::new(page_size.trailing_zeros());
    let (mut totals, mut content) = (Totals::default(), ContentHash::new());
    while let Some(batch) = source.next_batch()? {
        if let Some(exceeded) = exceeded(&batch) {
            return Err(exceeded.problem(source.name(), totals.rows()));
        }
        totals.add(&batch);
        content.add(&batch);
        census.add(&batch);
        progress(&totals)?;
    }
    let content_hash = content.finish();
    let promise = facts.and_then(|facts| facts.checks.as_ref());
    if let Some(broken) = promise.and_then(|checks| checks.broken_by(&totals, content_hash)) {
        return Err(damaged(&broken.found, source.name(), &broken.promised));
    }
    let meta = source.meta().clone();
    let processes = census.processes(&meta, page_size);
    let kernel = census.spaces[KERNEL].work(page_size);
    let pages = processes.iter().map(|process| process.work.pages).sum::<u64>() + kernel.pages;
    Ok(TraceReport {
        name: source.name().to_owned(),
        missing: missing(&meta, facts, &totals, known_size.is_none(), &processes, census.idle()),
        file: facts.cloned(),
        content_hash: format!("{content_hash:016x}"),
        content: match (facts, promise) {
            (None, _) => ContentCheck::NotAFile,
            (_, None) => ContentCheck::NoChecksums,
            _ => ContentCheck::Verified,
        },
        totals,
        page_size,
        page_size_assumed: known_size.is_none(),
        pages,
        footprint_bytes: pages * page_size,
        processes,
        kernel,
        switches: census.switches,
        meta,
    })
}

fn missing(
    meta: &Meta,
    facts: Option<&FileFacts>,
    totals: &Totals,
    page_size_assumed: bool,
    processes: &[ProcessReport],
    idle: usize,
) -> Vec<Missing> {
    let none = |op: Op| totals.events[op] == 0;
    let nameless = processes.iter().filter(|p| p.pid.is_none() && p.command.is_none()).count();
    let table: [(bool, &str, &str); 14] = [
        (
            facts.is_some_and(|facts| facts.checks.is_none()),
            "checksums",
            "the file was not written by binhop: damage to it goes unnoticed",
        ),
        (
            meta.sizes.is_none(),
            "where sizes come from",
            "the file does not say whether access sizes were recorded or assumed",
        ),
        (
            meta.sizes.as_deref() == Some("assumed"),
            "access sizes",
            "they were assumed by the importer: accesses that straddle lines or pages are not all seen",
        ),
        (page_size_assumed, "page size of origin", "pages are counted in 4 KiB"),
        (none(Op::Fetch), "instructions", "no misses or cycles per instruction can be given"),
        (
            totals.references == totals.instructions,
            "data references",
            "only instruction caches can be studied",
        ),
        (
            none(Op::Map),
            "mappings",
            "segments, sharing and the end of a page's life are unknown: all pages belong to one private segment per process",
        ),
        (none(Op::Switch), "context switches", "one process runs throughout"),
        (
            none(Op::Syscall),
            "system calls",
            "no input or output can be derived, and scheduling knows no blocking",
        ),
        (none(Op::KernelEnter), "the kernel's references", "only the program's own references are simulated"),
        (none(Op::Time), "time", "nothing can be compared with the recorded program's wall time"),
        (
            meta.recorder.is_none() && meta.command.is_none(),
            "origin",
            "neither recorder nor command is known",
        ),
        (nameless > 0, "names of processes", "address spaces without pid or command are shown by number"),
        (
            idle > 0,
            "references of a process to which the processor switches",
            "the switch counts, and tables of processes have no row for the process",
        ),
    ];
    let lacking = table.iter().filter(|entry| entry.0);
    lacking
        .map(|&(_, what, consequence)| Missing { what: what.into(), consequence: consequence.into() })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::census::LATELY;
    use super::*;
    use crate::event::EventBatch;
    use crate::event::EventBuilder;
    use crate::source::ProcessMeta;
    use crate::trace_file::TraceReader;
    use crate::trace_file::TraceWriter;

    /// Two processes and the kernel, pages of 1 KiB, one straddle.
    fn trace() -> (Meta, EventBatch) {
        let mut meta = Meta { page_size: Some(1024), sizes: Some("exact".into()), ..Meta::default() };
        meta.processes.insert(7, ProcessMeta { pid: Some(99), command: Some("cc".into()), parent: None });
        let mut events = EventBuilder::default();
        events.push(Op::Fetch, 1000, 48, 12); // pages 0 and 1
        events.push(Op::Load, 1024, 8, 1);
        events.push_args(Op::Switch, 7, 1, 0, [Some(2), None]);
        events.push(Op::Fetch, 0, 4, 1); // page 0, of another space
        events.push(Op::KernelEnter, 0, 0, 0);
        events.push(Op::Store, 0x10_0000, 8, 1);
        events.push(Op::KernelLeave, 0, 0, 0);
        events.push(Op::Modify, (1 + LATELY as u64) * 1024, 4, 1); // the slot of page 1 among recently touched pages
        events.push(Op::Store, 1024, 4, 1);
        events.push(Op::Store, (1 + LATELY as u64) * 1024, 4, 1);
        events.push(Op::Switch, 0, 1, 0);
        (meta, events.finish())
    }

    struct Once(Option<EventBatch>);

    impl Source for Once {
        fn name(&self) -> &str {
            "once"
        }
        fn meta(&self) -> &Meta {
            static NONE: std::sync::OnceLock<Meta> = std::sync::OnceLock::new();
            NONE.get_or_init(Meta::default)
        }
        fn next_batch(&mut self) -> Result<Option<EventBatch>> {
            Ok(self.0.take())
        }
    }

    #[test]
    fn processes_pages_and_switches_are_counted() {
        let path = std::env::temp_dir().join(format!("binhop-inspect-{}.parquet", std::process::id()));
        let (meta, events) = trace();
        let mut writer = TraceWriter::create(&path, &meta, 1).unwrap();
        writer.push(&events).unwrap();
        let written = writer.finish().unwrap();
        let mut reader = TraceReader::open(&path).unwrap();
        let facts = reader.facts().clone();
        let report = inspect(&mut reader, Some(&facts), &mut |_| Ok(())).unwrap();
        let mut lying = facts.clone();
        lying.checks.as_mut().unwrap().totals.instructions += 1;
        let mut reader = TraceReader::open(&path).unwrap();
        let problem = inspect(&mut reader, Some(&lying), &mut |_| Ok(())).unwrap_err();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(problem.rule, "the file says 11 rows, 18 references, 14 instructions");

        let work = |references, instructions, pages| ReferenceCounts {
            references,
            instructions,
            pages,
            footprint_bytes: pages * 1024,
        };
        let first = ProcessReport { asid: 0, pid: None, command: None, work: work(13, 12, 2) };
        let second =
            ProcessReport { asid: 7, pid: Some(99), command: Some("cc".into()), work: work(4, 1, 3) };
        assert_eq!(report.processes, [first, second]);
        assert_eq!((report.kernel, report.pages, report.footprint_bytes), (work(1, 0, 1), 6, 6 * 1024));
        assert_eq!((report.totals.references, report.totals.instructions), (18, 13));
        assert_eq!(
            (report.switches["involuntary"], report.switches["unknown"], report.switches["exit"]),
            (1, 1, 0)
        );
        assert_eq!(
            (report.content, report.content_hash),
            (ContentCheck::Verified, format!("{:016x}", written.content_hash))
        );
        let missing: Vec<&str> = report.missing.iter().map(|missing| missing.what.as_str()).collect();
        assert_eq!(missing, ["mappings", "system calls", "time", "origin", "names of processes"]);
        let mut idle = EventBuilder::default();
        idle.push(Op::Load, 0, 4, 1);
        idle.push(Op::Switch, 3, 1, 0);
        let report = inspect(&mut Once(Some(idle.finish())), None, &mut |_| Ok(())).unwrap();
        assert!(
            report.missing.iter().any(|missing| missing.what.contains("to which the processor switches"))
        );
    }

    #[test]
    fn the_report_is_one_json_object() {
        struct Nothing(Meta);
        impl Source for Nothing {
            fn name(&self) -> &str {
                "nothing"
            }
            fn meta(&self) -> &Meta {
                &self.0
            }
            fn next_batch(&mut self) -> Result<Option<EventBatch>> {
                Ok(None)
            }
        }
        let report = inspect(&mut Nothing(Meta::default()), None, &mut |_| Ok(())).unwrap();
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(
            (&json["content"], &json["page_size"], &json["page_size_assumed"]),
            (&"not-a-file".into(), &4096.into(), &true.into())
        );
        assert_eq!(
            (&json["totals"]["events"]["dma-read"], &json["switches"]["page-fault"]),
            (&0.into(), &0.into())
        );
        assert!(
            json["missing"]
                .as_array()
                .unwrap()
                .iter()
                .any(|missing| missing["what"] == "page size of origin")
        );
    }
}
