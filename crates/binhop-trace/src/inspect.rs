//! What a trace holds and what it lacks, in one pass over its events.
//!
//! **Counting rules.** References and instructions as in `totals.rs`. A page is touched if any byte of a reference
//! lies in it; pages are those of the machine the trace was made on, or of 4 KiB where that is not known. Pages are told
//! apart by address space: a page shared by two spaces counts in both. References between kernel-enter and kernel-leave
//! are the kernel's, and no process's. Memory grows with the pages touched, not with the trace's length.

use std::collections::{BTreeMap, HashSet};

use binhop_base::Result;
use serde::Serialize;

use crate::bounds::exceeded;
use crate::event::{EventBatch, Meta, Op, Source};
use crate::footer::damaged;
use crate::read::FileFacts;
use crate::tool::text::CAUSES;
use crate::totals::{ContentHash, Totals};

/// Page size where the trace does not tell its own.
pub(crate) const ASSUMED_PAGE: u64 = 4096;

/// The page size a trace tells, if it can be one: a power of two from 512 bytes to 1 GiB.
pub(crate) fn page_told(meta: &Meta) -> Option<u64> {
    meta.page_size.filter(|page| page.is_power_of_two() && (512..=1 << 30).contains(page))
}

/// What `binhop inspect` tells.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// What the source calls itself.
    pub name: String,
    /// The file, if it is one.
    pub file: Option<FileFacts>,
    /// References, instructions, rows by operation.
    pub totals: Totals,
    /// Hash of the events, 16 hexadecimal digits.
    pub content_hash: String,
    /// Whether the content is what the file promises.
    pub content: Content,
    /// Bytes in a page, as pages are counted here.
    pub page_size: u64,
    /// The trace does not say what its page size was.
    pub page_size_assumed: bool,
    /// Distinct pages touched, summed over address spaces and the kernel.
    pub pages: u64,
    /// The same in bytes.
    pub footprint_bytes: u64,
    /// Each address space that made a reference or is described, in order of its number.
    pub processes: Vec<ProcessReport>,
    /// What the kernel did.
    pub kernel: Work,
    /// Switches by why the outgoing thread left.
    pub switches: BTreeMap<&'static str, u64>,
    /// What the file says of itself.
    pub meta: Meta,
    /// What a simulation cannot get from this trace.
    pub missing: Vec<Missing>,
}

/// Whether the events are those the file was made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Content {
    /// Totals and content hash are those the file promises.
    Verified,
    /// Another program's file: it promises nothing.
    NoChecksums,
    /// Not a file of ours or of others: a pipe, a stream, a workload.
    NotAFile,
}

/// References and the pages they touched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Work {
    /// Instructions fetched plus loads, stores and modifies.
    pub references: u64,
    /// Instructions executed.
    pub instructions: u64,
    /// Distinct pages touched.
    pub pages: u64,
    /// The same in bytes.
    pub footprint_bytes: u64,
}

/// One address space.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProcessReport {
    /// Its number in the trace.
    pub asid: u64,
    /// Process id when it was recorded, if known.
    pub pid: Option<u64>,
    /// Its command, if known.
    pub command: Option<String>,
    /// What it did.
    #[serde(flatten)]
    pub work: Work,
}

/// Something the trace does not hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Missing {
    /// What.
    pub what: String,
    /// What follows for a simulation.
    pub consequence: String,
}

/// Reads a source to its end and reports. `progress` hears of the totals after each batch; its error ends the reading.
///
/// # Errors
/// The source or `progress` fails, the events differ from the file's checksums, or a reference exceeds the bounds
/// of [`crate::bounds`].
pub fn inspect(
    source: &mut dyn Source,
    facts: Option<&FileFacts>,
    progress: &mut dyn FnMut(&Totals) -> Result<()>,
) -> Result<Report> {
    let told = page_told(source.meta());
    let page_size = told.unwrap_or(ASSUMED_PAGE);
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
    Ok(Report {
        name: source.name().to_owned(),
        missing: missing(&meta, facts, &totals, told.is_none(), &processes),
        file: facts.cloned(),
        content_hash: format!("{content_hash:016x}"),
        content: match (facts, promise) {
            (None, _) => Content::NotAFile,
            (_, None) => Content::NoChecksums,
            _ => Content::Verified,
        },
        totals,
        page_size,
        page_size_assumed: told.is_none(),
        pages,
        footprint_bytes: pages * page_size,
        processes,
        kernel,
        switches: census.switches,
        meta,
    })
}

/// `Space` counts the references of one address space.
#[derive(Clone, Copy, Default)]
struct Space {
    references: u64,
    instructions: u64,
    /// The number of distinct pages touched.
    pages: u64,
}

impl Space {
    fn work(&self, page_size: u64) -> Work {
        let Self { references, instructions, pages } = *self;
        Work { references, instructions, pages, footprint_bytes: pages * page_size }
    }
}

/// `Pages` holds the touched pages of all spaces. A space costs memory for its touched pages only.
struct Pages {
    /// The position of the space, and the page.
    seen: HashSet<(usize, u64)>,
    /// A direct-mapped table of recently touched pages, which saves most look-ups in the set.
    lately: Box<[(usize, u64)]>,
}

/// The number of slots for recently touched pages: 16 KiB, which fit into a first-level cache.
const LATELY: usize = 1024;

impl Pages {
    fn new() -> Self {
        Self { seen: HashSet::new(), lately: vec![(NO_SPACE, 0); LATELY].into() }
    }

    /// Returns whether a space touches a page for the first time.
    #[inline]
    fn first_touch(&mut self, space: usize, page: u64) -> bool {
        // Spaces use the same page numbers, so the slot also depends on the space.
        let slot = &mut self.lately[(page as usize).wrapping_add(space.wrapping_mul(61)) % LATELY];
        if *slot == (space, page) {
            return false;
        }
        *slot = (space, page);
        self.seen.insert((space, page))
    }
}

/// The position of the kernel in [`Census::spaces`].
const KERNEL: usize = 0;
/// A number that is no position in [`Census::spaces`].
const NO_SPACE: usize = usize::MAX;

/// Who did what so far.
struct Census {
    page_log2: u32,
    /// Position of each address space in `spaces`.
    index: BTreeMap<u64, usize>,
    /// The kernel, then the address spaces.
    spaces: Vec<Space>,
    pages: Pages,
    current: usize,
    in_kernel: u32,
    switches: BTreeMap<&'static str, u64>,
}

impl Census {
    fn new(page_log2: u32) -> Self {
        let causes = CAUSES.iter().map(|&(_, name)| name).chain(["unknown"]);
        Self {
            page_log2,
            index: BTreeMap::from([(0, KERNEL + 1)]),
            spaces: vec![Space::default(); 2],
            pages: Pages::new(),
            current: KERNEL + 1,
            in_kernel: 0,
            switches: causes.map(|name| (name, 0)).collect(),
        }
    }

    fn add(&mut self, batch: &EventBatch) {
        let (ops, addr, size, count) = (batch.op(), batch.addr(), batch.size(), batch.count());
        for row in 0..batch.len() {
            match Op::from_code(ops[row]) {
                Some(op) if op.is_reference() => {
                    let instructions = if op == Op::Fetch { u64::from(count[row]) } else { 0 };
                    let references = if op == Op::Fetch { instructions } else { 1 };
                    self.reference(addr[row], size[row], references, instructions);
                }
                Some(Op::Switch) => {
                    self.current = self.space(addr[row]);
                    let cause = CAUSES.iter().find(|(cause, _)| Some(*cause as u64) == batch.arg0(row));
                    *self.switches.entry(cause.map_or("unknown", |&(_, name)| name)).or_default() += 1;
                }
                Some(Op::KernelEnter) => self.in_kernel += 1,
                Some(Op::KernelLeave) => self.in_kernel = self.in_kernel.saturating_sub(1),
                _ => {}
            }
        }
    }

    fn reference(&mut self, addr: u64, size: u32, references: u64, instructions: u64) {
        let position = if self.in_kernel > 0 { KERNEL } else { self.current };
        let space = &mut self.spaces[position];
        space.references += references;
        space.instructions += instructions;
        let last = addr.saturating_add(u64::from(size).saturating_sub(1));
        for page in addr >> self.page_log2..=last >> self.page_log2 {
            space.pages += u64::from(self.pages.first_touch(position, page));
        }
    }

    fn space(&mut self, asid: u64) -> usize {
        let next = self.spaces.len();
        let index = *self.index.entry(asid).or_insert(next);
        if index == next {
            self.spaces.push(Space::default());
        }
        index
    }

    fn processes(&self, meta: &Meta, page_size: u64) -> Vec<ProcessReport> {
        let described = meta.processes.keys().map(|&asid| u64::from(asid));
        let active =
            self.index.iter().filter(|&(_, &index)| self.spaces[index].references > 0).map(|(&asid, _)| asid);
        let asids: std::collections::BTreeSet<u64> = described.chain(active).collect();
        let describe = |asid: u64| {
            let known = u32::try_from(asid)
                .ok()
                .and_then(|asid| meta.processes.get(&asid))
                .cloned()
                .unwrap_or_default();
            let work =
                self.index.get(&asid).map(|&index| self.spaces[index].work(page_size)).unwrap_or_default();
            ProcessReport { asid, pid: known.pid, command: known.command, work }
        };
        asids.into_iter().map(describe).collect()
    }
}

fn missing(
    meta: &Meta,
    facts: Option<&FileFacts>,
    totals: &Totals,
    page_size_assumed: bool,
    processes: &[ProcessReport],
) -> Vec<Missing> {
    let none = |op: Op| totals.events[op] == 0;
    let nameless = processes.iter().filter(|p| p.pid.is_none() && p.command.is_none()).count();
    let table: [(bool, &str, &str); 13] = [
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
    ];
    let lacking = table.iter().filter(|entry| entry.0);
    lacking
        .map(|&(_, what, consequence)| Missing { what: what.into(), consequence: consequence.into() })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{EventBuilder, Process};
    use crate::read::TraceReader;
    use crate::write::TraceWriter;

    /// Two processes and the kernel, pages of 1 KiB, one straddle.
    fn trace() -> (Meta, EventBatch) {
        let mut meta = Meta { page_size: Some(1024), sizes: Some("exact".into()), ..Meta::default() };
        meta.processes.insert(7, Process { pid: Some(99), command: Some("cc".into()), parent: None });
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

        let work = |references, instructions, pages| Work {
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
            (Content::Verified, format!("{:016x}", written.content_hash))
        );
        let missing: Vec<&str> = report.missing.iter().map(|missing| missing.what.as_str()).collect();
        assert_eq!(missing, ["mappings", "system calls", "time", "origin", "names of processes"]);
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
