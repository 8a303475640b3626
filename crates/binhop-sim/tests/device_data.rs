//! These tests compare the characterisation of what passes below a front with a slow model. They also check that
//! schemes compared together count the same as each scheme alone.
#![allow(missing_docs, clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};

use crate::common::{Event, Fixed, batch, event, metric, run, short_and_long};
use binhop_hw::{
    DmaCounters, Dram, DramRequest, DramUseCounters, FixedLatency, LineMemory, PostedMemory,
    ReferenceCounters, SchemeKind, TapClass, TapEvent, make_scheme,
};
use binhop_sim::device_data::{
    Characterisation, ComparedSchemes, DataFlow, DeviceRequest, DramData, FlowStream, FrontEvent, RequestKey,
    compare_schemes, device_data_metrics, dram_stream, figures,
};
use binhop_sim::io_path::RUNNING_SPACE;
use binhop_sim::{Machine, RunOptions, front_stream};
use binhop_trace::event::EventBuilder;
use binhop_trace::export::MemoryAccess;
use binhop_trace::{EventBatch, Op};
use proptest::prelude::*;

/// A level of caches of two lines each, above a last level of two sets and four ways.
const MACHINE: &str = r#"
memory = { size = "1MiB", page = "4KiB" }
placement = { policy = "random" }
[cache.l1i]
serves = "fetch"
size = "128B"
line = "64B"
ways = 1
next = "l2"
[cache.l1d]
serves = "data"
size = "128B"
line = "64B"
ways = 1
next = "l2"
[cache.l2]
size = "512B"
line = "64B"
ways = 4
next = "memory"
[io]
dma-cache = "256B"
dma-cache-ways = 2
"#;

/// `SlowUser` is who referenced a line last.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SlowUser {
    Cpu,
    DeviceRead,
    DeviceWrite(u32),
}

/// `SlowModel` restates the rules of the characterisation, with lists that are searched.
#[derive(Default)]
struct SlowModel {
    references: BTreeMap<TapClass, Vec<u64>>,
    by_request: BTreeMap<RequestKey, Vec<u64>>,
    /// The number and the bytes of each piece.
    pieces: BTreeMap<RequestKey, Vec<(u64, u64)>>,
    device: u32,
    last: BTreeMap<u64, SlowUser>,
    io_data: BTreeSet<u64>,
    /// The lines of each stream, the line referenced last at the end: all references, I/O, processor.
    stacks: [Vec<u64>; 3],
    /// The distances of each flow, with the device and the stream.
    distances: BTreeMap<(FlowStream, DataFlow, Option<u32>), Vec<Option<usize>>>,
}

fn sequential(lines: &[u64]) -> u64 {
    lines.windows(2).filter(|pair| pair[1] == pair[0] + 1).count() as u64
}

impl SlowModel {
    fn add(&mut self, event: &FrontEvent) {
        let event = match *event {
            FrontEvent::Request(DeviceRequest { device, writes, bytes, number }) => {
                self.device = device;
                return self.pieces.entry(RequestKey { device, writes }).or_default().push((number, bytes));
            }
            FrontEvent::Line(event) => event,
        };
        let device = self.device;
        let (class, line) = match event {
            TapEvent::Read { line, .. } => (TapClass::CpuRead, line),
            TapEvent::WriteBack { line } | TapEvent::Cleaned { line } | TapEvent::PartialStore { line } => {
                (TapClass::CpuWrite, line)
            }
            TapEvent::DeviceRead { line, .. } => (TapClass::DmaRead, line),
            TapEvent::DeviceWrite { line, .. } => (TapClass::DmaWrite, line),
            TapEvent::CleanEviction { .. }
            | TapEvent::Upgrade { .. }
            | TapEvent::Flushed { .. }
            | TapEvent::SystemWrite { .. } => return,
        };
        self.references.entry(class).or_default().push(line);
        if class.is_of_a_device() {
            let key = RequestKey { device, writes: class == TapClass::DmaWrite };
            self.by_request.entry(key).or_default().push(line);
        }
        let before = self.last.get(&line).copied();
        let is_cpu = |user: Option<SlowUser>| matches!(user, None | Some(SlowUser::Cpu));
        let (flow, of) = match (class, before) {
            (TapClass::CpuRead, Some(SlowUser::DeviceWrite(device))) => (DataFlow::Dpcc, Some(device)),
            (TapClass::CpuRead | TapClass::CpuWrite, _) => (DataFlow::Cpu, None),
            (TapClass::DmaRead, before) if is_cpu(before) => (DataFlow::Cpdc, Some(device)),
            _ => (DataFlow::Device, Some(device)),
        };
        match class {
            TapClass::DmaWrite => drop(self.io_data.insert(line)),
            TapClass::CpuWrite => drop(self.io_data.remove(&line)),
            _ => {}
        }
        let in_io = class == TapClass::DmaRead || self.io_data.contains(&line);
        for (stream, stack) in [(FlowStream::Together, 0), (FlowStream::Separated, if in_io { 1 } else { 2 })]
        {
            let stack = &mut self.stacks[stack];
            let place = stack.iter().rposition(|&held| held == line);
            let distance = place.map(|place| stack.len() - 1 - place);
            if let Some(place) = place {
                stack.remove(place);
            }
            stack.push(line);
            self.distances.entry((stream, flow, of)).or_default().push(distance);
        }
        let user = match class {
            TapClass::DmaRead => SlowUser::DeviceRead,
            TapClass::DmaWrite => SlowUser::DeviceWrite(device),
            _ => SlowUser::Cpu,
        };
        self.last.insert(line, user);
    }

    fn compare(&self, fast: &Characterisation) {
        for &class in TapClass::ALL {
            let lines = self.references.get(&class).map_or(&[][..], Vec::as_slice);
            let counts = fast.class(class);
            assert_eq!((counts.references, counts.sequential), (lines.len() as u64, sequential(lines)));
        }
        assert_eq!(self.pieces.keys().collect::<Vec<_>>(), fast.requests().keys().collect::<Vec<_>>());
        for (key, counts) in fast.requests() {
            let lines = &self.by_request[key];
            let same_request = |one: &(u64, u64), other: &(u64, u64)| one.0 == other.0;
            let requests = self.pieces[key].chunk_by(same_request);
            let sizes: Vec<u64> = requests.map(|pieces| pieces.iter().map(|piece| piece.1).sum()).collect();
            assert_eq!((counts.requests, counts.bytes), (sizes.len() as u64, sizes.iter().sum()));
            assert_eq!((counts.references, counts.sequential), (lines.len() as u64, sequential(lines)));
            let mut classes = BTreeMap::new();
            sizes.iter().for_each(|size| *classes.entry(size.ilog2()).or_insert(0) += 1);
            assert_eq!(counts.sizes(), classes);
        }
        let flows: Vec<_> = fast.distances().keys().map(|key| (key.stream, key.flow, key.device)).collect();
        assert_eq!(self.distances.keys().copied().collect::<Vec<_>>(), flows);
        for (key, histogram) in fast.distances() {
            let distances = &self.distances[&(key.stream, key.flow, key.device)];
            let first = distances.iter().filter(|distance| distance.is_none()).count();
            assert_eq!(histogram.first(), first as u64, "{key:?}");
            let mut classes = BTreeMap::new();
            for &distance in distances.iter().flatten() {
                let least = if distance == 0 { 0 } else { 1u64 << distance.ilog2() };
                *classes.entry(least).or_insert(0) += 1;
            }
            assert_eq!(histogram.classes().collect::<BTreeMap<_, _>>(), classes, "{key:?}");
        }
    }
}

/// The device writes lines 8 and 9 as one request; the processor reads line 8 after a line of its own, and writes it;
/// the device reads lines 8 and 9.
#[test]
fn each_flow_has_the_distances_counted_by_hand() {
    let line = FrontEvent::Line;
    let request =
        |number, writes, bytes| FrontEvent::Request(DeviceRequest { number, device: 1, writes, bytes });
    let mut found = Characterisation::default();
    found.add(&[
        request(0, true, 64),
        line(TapEvent::DeviceWrite { line: 8, whole: true, request: 0 }),
        request(0, true, 36), // a further piece
        line(TapEvent::DeviceWrite { line: 9, whole: false, request: 0 }),
        line(TapEvent::Read { line: 20, store: false }),
        line(TapEvent::Read { line: 8, store: true }), // after 9 and 20
        line(TapEvent::CleanEviction { line: 20, whole: true }), // no reference
        line(TapEvent::WriteBack { line: 8 }),
        request(1, false, 128),
        line(TapEvent::DeviceRead { line: 8, request: 1 }),
        line(TapEvent::DeviceRead { line: 9, request: 1 }), // a device wrote it
    ]);
    let at = |stream, flow, device| {
        let key = binhop_sim::device_data::FlowKey { stream, flow, device };
        let histogram = &found.distances()[&key];
        (histogram.first(), histogram.classes().collect::<Vec<_>>())
    };
    assert_eq!(at(FlowStream::Together, DataFlow::Dpcc, Some(1)), (0, vec![(2, 1)]));
    assert_eq!(
        at(FlowStream::Separated, DataFlow::Dpcc, Some(1)),
        (0, vec![(1, 1)]),
        "line 20 is not I/O data"
    );
    assert_eq!(at(FlowStream::Together, DataFlow::Cpdc, Some(1)), (0, vec![(0, 1)]));
    assert_eq!(at(FlowStream::Together, DataFlow::Cpu, None), (1, vec![(0, 1)]));
    assert_eq!(at(FlowStream::Separated, DataFlow::Cpu, None), (2, vec![]), "the write is the line's first");
    assert_eq!(at(FlowStream::Together, DataFlow::Device, Some(1)), (2, vec![(2, 1)]));
    let writes = &found.requests()[&RequestKey { device: 1, writes: true }];
    assert_eq!((writes.requests, writes.bytes, writes.references, writes.sequential), (1, 100, 2, 1));
    assert_eq!(writes.sizes(), BTreeMap::from([(6, 1)]));
    assert_eq!(found.class(TapClass::DmaRead).sequential, 1);
}

fn compared(machine: &Machine, trace: &EventBatch, kinds: &[SchemeKind], threads: usize) -> ComparedSchemes {
    let schemes: Vec<_> =
        kinds.iter().map(|&kind| machine.scheme_setup(kind, kind.name()).unwrap()).collect();
    let options = RunOptions { seeds: vec![3, 8], threads, ..RunOptions::default() };
    let source = Box::new(Fixed::new(trace.clone(), 7));
    compare_schemes(machine, source, &options, &schemes, &mut |_| Ok(())).unwrap()
}

/// Returns the schemes that are for the tags of a machine's caches.
fn kinds_for(machine: &Machine) -> Vec<SchemeKind> {
    let virtually = machine.has_virtual_tags();
    SchemeKind::ALL.iter().copied().filter(|kind| kind.is_for_virtual_tags() == virtually).collect()
}

/// The settings that make the caches of the machine virtual.
const VIRTUAL: [&str; 4] =
    ["cache.l1d.index=virtual", "cache.l1d.tag=asid", "cache.l1i.index=virtual", "cache.l1i.tag=asid"];

fn check(trace: &[Event], settings: &[&str]) {
    let settings: Vec<String> = settings.iter().map(ToString::to_string).collect();
    let machine = Machine::parse(MACHINE, "small", &settings).unwrap();
    let trace = batch(trace);
    let together = compared(&machine, &trace, &kinds_for(&machine), 1);
    let all: Vec<_> = together.placements.iter().map(figures).collect();
    for threads in [2, 4] {
        let other = compared(&machine, &trace, &kinds_for(&machine), threads);
        assert_eq!(all, other.placements.iter().map(figures).collect::<Vec<_>>(), "{threads} threads");
    }
    for (number, data) in together.placements.iter().enumerate() {
        let options = RunOptions { seeds: vec![data.seed], ..RunOptions::default() };
        let mut events = Vec::new();
        let mut take = |placement, some: &[FrontEvent]| {
            assert_eq!(placement, 0);
            events.extend_from_slice(some);
            Ok(())
        };
        let source = Box::new(Fixed::new(trace.clone(), 7));
        front_stream(&machine.front().unwrap(), source, &options, &mut take, &mut |_| Ok(())).unwrap();
        let mut slow = SlowModel::default();
        events.iter().for_each(|event| slow.add(event));
        slow.compare(&data.characterisation);
        for scheme in &data.schemes {
            assert_eq!(scheme.config.seed, data.seed);
            let mut alone = make_scheme(&scheme.config).unwrap();
            let fixed = machine.memory_of_schemes();
            let mut memory: Box<dyn LineMemory> = match machine.posted_requests() {
                // A memory with a controller counts waits in its own clock, so the answers contain no waits for memory.
                _ if machine.dram().is_some() => Box::new(FixedLatency { cycles: 0 }),
                Some(places) => Box::new(PostedMemory::new(fixed, places)),
                None => Box::new(fixed),
            };
            for event in &events {
                if let FrontEvent::Line(event) = *event {
                    let answer = alone.event(event, &mut *memory);
                    if let (Some(class), Some(answer)) = (event.class(), answer) {
                        memory.pass(class, answer.cycles);
                    }
                }
            }
            assert_eq!(*alone.counters(), scheme.counters, "placement {number}: {:?}", scheme.config.kind);
        }
    }
}

/// The settings under which frames change hands: at once when a page dies, or because memory is full.
const BUDDY: &[&str] = &["placement.policy=buddy"];
const FEW_FRAMES: &[&str] = &["placement.policy=first", "placement.pool=4KiB", "memory.size=32KiB"];

/// Checks that every scheme counts what a plain run counts, if no device acts. `pbdc` has fewer ways.
fn check_plain(trace: &[Event], settings: &[&str]) {
    let settings: Vec<String> = settings.iter().map(ToString::to_string).collect();
    let machine = Machine::parse(MACHINE, "small", &settings).unwrap();
    let trace = batch(trace);
    let kinds: Vec<_> = kinds_for(&machine).into_iter().filter(|&kind| kind != SchemeKind::Pbdc).collect();
    for data in compared(&machine, &trace, &kinds, 1).placements {
        let options = RunOptions { seeds: vec![data.seed], ..RunOptions::default() };
        let plain = run(&machine, &trace, 1000, &options);
        let of_memory = |kind: &str| metric(&plain, &format!("memory.{kind}.accesses"));
        for scheme in &data.schemes {
            let counters = &scheme.counters;
            let sum = |count: fn(&ReferenceCounters) -> u64| counters.classes.iter().map(count).sum::<u64>();
            let reads = ["fetch", "load", "store", "fill"].map(of_memory).iter().sum::<u64>();
            assert_eq!(sum(|class| class.memory_reads), reads, "{}", scheme.name);
            assert_eq!(counters.device_data.system_writes, of_memory("system"), "{}", scheme.name);
            let written = of_memory("writeback") + of_memory("system");
            assert_eq!(sum(|class| class.memory_writes), written, "{}", scheme.name);
            let Some(last) = scheme.last_level else { continue };
            let found = [last.fills, last.evictions, last.purged, last.purged_dirty];
            let expected = ["fills", "evictions", "purged", "purged.dirty"];
            assert_eq!(found, expected.map(|name| metric(&plain, &format!("l2.{name}"))), "{}", scheme.name);
        }
    }
}

/// A device writes a line of a page, and the page dies unread. Its frame gets another page: the line of that page is no
/// I/O data, and no cache has it.
#[test]
fn what_a_device_wrote_ends_with_its_frame() {
    let settings: Vec<String> = BUDDY.iter().map(ToString::to_string).collect();
    let machine = Machine::parse(MACHINE, "small", &settings).unwrap();
    let mut rows = EventBuilder::default();
    rows.push_args(Op::DmaWrite, 4096, 64, 1, [Some(1), Some(RUNNING_SPACE)]);
    rows.push(Op::Unmap, 4096, 0, 1);
    rows.push(Op::Load, 8192, 8, 1);
    for data in compared(&machine, &rows.finish(), &kinds_for(&machine), 1).placements {
        for scheme in &data.schemes {
            let DmaCounters { fates, device_data, classes } = scheme.counters;
            assert_eq!((fates.written, fates.unread(), fates.purged_unread), (1, 1, 1), "{}", scheme.name);
            assert_eq!((classes[0].references, classes[0].memory_reads), (1, 1), "{}", scheme.name);
            assert_eq!((device_data.io_accesses, device_data.io_hits), (1, 0), "{}", scheme.name);
            let caches = [scheme.last_level, scheme.dma_cache].into_iter().flatten();
            let purged: u64 = caches.map(|cache| cache.purged).sum();
            let keeps = !matches!(scheme.name.as_str(), "off" | "snooping-cache");
            assert_eq!((purged, fates.evicted_unread), (keeps.into(), keeps.into()), "{}", scheme.name);
        }
    }
}

/// Requests may overlap: each transfer stands at one place of the stream, so the later transfer overwrites what both
/// transfers write.
#[test]
fn a_request_overwrites_what_an_overlapping_one_wrote() {
    let machine = Machine::parse(MACHINE, "small", &[]).unwrap();
    let mut rows = EventBuilder::default();
    let mut write = |first: u64, lines: u32, request| {
        let args = [Some(request), Some(RUNNING_SPACE)];
        rows.push_args(Op::DmaWrite, 4096 + first * 64, lines * 64, 1, args);
    };
    write(0, 2, 1);
    write(1, 2, 2);
    write(0, 1, 2); // a further piece of the request, which stays one request
    rows.push(Op::Load, 4096 + 64, 8, 1);
    for data in compared(&machine, &rows.finish(), &kinds_for(&machine), 1).placements {
        let requests = &data.characterisation.requests()[&RequestKey { device: 1, writes: true }];
        assert_eq!((requests.requests, requests.bytes, requests.references), (2, 5 * 64, 5));
        for scheme in &data.schemes {
            let fates = scheme.counters.fates;
            assert_eq!((fates.written, fates.overwritten_by_device), (5, 2), "{}", scheme.name);
        }
    }
}

#[test]
fn every_figure_is_a_listed_metric() {
    let machine = Machine::parse(MACHINE, "small", &["dram.preset=ddr2-666".to_owned()]).unwrap();
    let trace = batch(&[Event::Device { writes: true, page: 1 }, Event::Device { writes: false, page: 1 }]);
    let listed: BTreeSet<_> = device_data_metrics().into_iter().map(|metric| metric.name).collect();
    let mut seen = BTreeSet::new();
    for figure in figures(&compared(&machine, &trace, &kinds_for(&machine), 1).placements[0]) {
        let mut name = figure.metric.clone();
        if listed.contains(&name) {
            seen.insert(name);
            continue;
        }
        for &class in TapClass::ALL {
            for prefix in ["", "front.", "dram."] {
                if let Some(rest) = name.strip_prefix(&format!("{prefix}{}.", class.name())) {
                    name = format!("{prefix}CLASS.{rest}");
                }
            }
        }
        for device in ["disk", "network", "device-7"] {
            for direction in ["read", "write"] {
                if let Some(rest) = name.strip_prefix(&format!("{device}.{direction}.")) {
                    name = format!("DEVICE.read|write.{rest}");
                }
            }
        }
        // A counter of a class may have the name of a cache before its own, so the whole name decides whether the
        // counter belongs to a cache.
        if let Some(rest) = name.strip_prefix("last-level.").or_else(|| name.strip_prefix("dma-cache.")) {
            name = format!("CACHE.{rest}");
        }
        assert!(listed.contains(&name), "{} ({name})", figure.metric);
        seen.insert(name);
    }
    assert_eq!(seen, listed);
}

/// A cache with virtual tags takes the scheme that flushes, and no other; a machine without such a cache takes all
/// others.
#[test]
fn the_tags_of_caches_decide_which_schemes_a_machine_takes() {
    let machine = |settings: &[&str]| {
        let settings: Vec<String> = settings.iter().map(ToString::to_string).collect();
        Machine::parse(MACHINE, "small", &settings).unwrap()
    };
    let global = ["cache.l1d.index=virtual", "cache.l1d.tag=global"];
    for settings in [&VIRTUAL[..], &VIRTUAL[..2], &global] {
        let machine = machine(settings);
        assert!(machine.scheme(SchemeKind::Flush).is_ok());
        let front = machine.front().unwrap();
        assert_eq!(front.tree().config().caches.len(), 3, "the last level is in the front");
        for &kind in SchemeKind::ALL.iter().filter(|kind| !kind.is_for_virtual_tags()) {
            let problem = machine.scheme(kind).unwrap_err();
            assert_eq!(problem.value, kind.name());
            assert!(problem.place.starts_with("machine small: cache.l1"), "{problem}");
            assert!(problem.rule.contains("flushed before"), "{problem}");
            assert!(problem.remedy.contains("the scheme flush"), "{problem}");
        }
    }
    let physical = machine(&["cache.l1d.index=virtual"]);
    assert!(!physical.has_virtual_tags() && physical.scheme(SchemeKind::Ddio).is_ok());
    let problem = physical.scheme(SchemeKind::Flush).unwrap_err();
    assert_eq!((&*problem.value, &*problem.place), ("flush", "machine small: cache.l1d.tag=physical"));
    assert!(problem.remedy.contains("snooping-cache"), "{problem}");
    // The remedy works.
    let settings: Vec<&str> = problem.remedy.split("--set ").skip(1).map(str::trim).collect();
    assert_eq!(settings.len(), 2, "{problem}");
    assert!(machine(&settings).scheme(SchemeKind::Flush).is_ok());
}

/// Returns the requests behind a scheme, and the outcome and the counts of the memory.
fn requests_of(machine: &Machine, trace: &EventBatch, kind: SchemeKind, seed: u64) -> Requests {
    let options = RunOptions { seeds: vec![seed], ..RunOptions::default() };
    let setup = machine.scheme_setup(kind, kind.name()).unwrap();
    let mut requests = Vec::new();
    let mut take = |some: &[MemoryAccess]| {
        requests.extend_from_slice(some);
        Ok(())
    };
    let source = Box::new(Fixed::new(trace.clone(), 7));
    let (front, counts) = dram_stream(machine, source, &options, &setup, &mut take, &mut |_| Ok(())).unwrap();
    Requests { requests, notes: front.notes, counts }
}

struct Requests {
    requests: Vec<MemoryAccess>,
    notes: Vec<String>,
    counts: DramData,
}

/// Checks that a controller alone, given the requests behind a scheme, does the same as the controller behind the
/// scheme.
fn check_requests(trace: &[Event]) {
    let settings = ["dram.preset=ddr2-666".to_owned(), "dram.queue=2".to_owned()];
    let machine = Machine::parse(MACHINE, "small", &settings).unwrap();
    let trace = batch(trace);
    let together = compared(&machine, &trace, &kinds_for(&machine), 1);
    for (data, scheme) in
        together.placements.iter().flat_map(|data| data.schemes.iter().map(move |of| (data, of)))
    {
        let found = requests_of(&machine, &trace, scheme.config.kind, data.seed);
        assert_eq!(Some(found.counts), scheme.dram);
        assert!(found.notes.iter().all(|note| !note.contains("beyond")));
        let (mut dram, mut last) = (Dram::new(machine.dram().unwrap().config).unwrap(), 0);
        for &MemoryAccess { addr, write, cycle, of_memory } in &found.requests {
            assert!(of_memory);
            assert!(last <= cycle, "requests come in order");
            last = cycle;
            dram.push(&DramRequest { arrival: cycle, line: addr / 64, write, class: 0 }, &mut ());
        }
        dram.finish(&mut ());
        dram.go_on_until(found.counts.cycles.max(found.counts.reference_cycles), &mut ());
        assert_eq!(dram.counters(), found.counts.commands, "{:?}", scheme.config.kind);
        let mut all = DramUseCounters::default();
        found.counts.classes.into_iter().for_each(|class| all += class);
        // Behind a scheme, the wait of a read counts from the time of its agent. This time may lie before the time of
        // the request ahead.
        assert!(dram.class(0).latency <= all.latency);
        assert_eq!(DramUseCounters { latency: all.latency, ..*dram.class(0) }, all);
    }
}

#[test]
fn a_memory_with_a_controller_serves_lines_of_64_bytes() {
    let lines = ["cache.l1i.line=32B", "cache.l1d.line=32B", "cache.l2.line=32B"].map(str::to_owned);
    let fixed = Machine::parse(MACHINE, "small", &lines).unwrap();
    assert!(fixed.scheme_setup(SchemeKind::Ddio, "ddio").is_ok());
    let machine =
        Machine::parse(MACHINE, "small", &[&lines[..], &["dram=ddr2-666".to_owned()]].concat()).unwrap();
    let said = machine.scheme_setup(SchemeKind::Ddio, "ddio").err().unwrap().to_string();
    assert!(
        said.starts_with("machine small: cache.l2.line: 32B: ") && said.contains("of 64 bytes"),
        "{said}"
    );
}

#[test]
fn a_stream_of_requests_needs_a_controller_and_stays_in_its_memory() {
    let trace = batch(&[Event::Device { writes: true, page: 1 }, Event::Device { writes: false, page: 1 }]);
    let options = RunOptions { seeds: vec![0], ..RunOptions::default() };
    let machine = Machine::parse(MACHINE, "small", &[]).unwrap();
    let setup = machine.scheme_setup(SchemeKind::Ddio, "ddio").unwrap();
    let source = Box::new(Fixed::new(trace.clone(), 7));
    let refused = dram_stream(&machine, source, &options, &setup, &mut |_| Ok(()), &mut |_| Ok(()));
    let said = refused.err().unwrap().to_string();
    assert!(
        said.starts_with("machine small: no [dram]: ") && said.contains("--set dram=ddr4-2400"),
        "{said}"
    );
    // The machine has more memory than the controller.
    let settings = ["dram=ddr2-666", "memory.size=64GiB", "placement.policy=random"].map(str::to_owned);
    let machine = Machine::parse(MACHINE, "small", &settings).unwrap();
    let found = requests_of(&machine, &trace, SchemeKind::SnoopingCache, 1);
    assert!(found.requests.iter().all(|access| access.addr < 2 << 30));
    assert!(
        found.notes.iter().any(|note| note.contains("beyond the 2147483648 bytes of [dram]")),
        "{:?}",
        found.notes
    );
}

short_and_long! { many_traces: 6, 100;
    fn schemes_without_devices_count_what_a_plain_run_counts(
        trace in prop::collection::vec(event(), 1..300),
    ) {
        for places in [BUDDY, FEW_FRAMES, &["placement.policy=random"]] {
            check_plain(&trace, places);
            check_plain(&trace, &[places, &["cache.l2.line=128B", "cache.l1d.line=16B"]].concat());
            check_plain(&trace, &[places, &VIRTUAL].concat());
        }
    }

    fn requests_behind_a_scheme_repeat_its_memory(
        trace in prop::collection::vec(
            prop_oneof![
                6 => event(),
                2 => (any::<bool>(), 0u8..8).prop_map(|(writes, page)| Event::Device { writes, page }),
            ],
            1..200,
        ),
    ) {
        check_requests(&trace);
    }

    fn schemes_together_count_what_each_counts_alone(
        trace in prop::collection::vec(
            prop_oneof![
                6 => event(),
                2 => (any::<bool>(), 0u8..8).prop_map(|(writes, page)| Event::Device { writes, page }),
            ],
            1..200,
        ),
    ) {
        for places in [BUDDY, FEW_FRAMES] {
            check(&trace, &[places, &["io.posted=2"]].concat());
            check(&trace, &[places, &["dram.preset=ddr2-666"]].concat());
        }
        for setting in ["placement.policy=random", "io.posted=2", "dram.preset=ddr2-666"] {
            check(&trace, &[setting]);
            check(&trace, &[&VIRTUAL[..], &[setting]].concat());
        }
        // Lines of the front that are shorter than those of the last level, in one cache or in both.
        check(&trace, &["cache.l1i.line=32B", "cache.l1d.line=16B"]);
        check(&trace, &["cache.l1d.line=32B", "dram.preset=ddr2-666"]);
        check(&trace, &["cache.l2.line=128B", "io.posted=2"]);
        check(&trace, &[&VIRTUAL[..], &["cache.l1d.line=32B"]].concat());
    }
}
