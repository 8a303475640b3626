//! These tests compare the tables of switches with a slow model: one slow tree of caches for each life, which sees what
//! the life accesses under the frames of the shared run, and plain lists of segments.
#![allow(missing_docs, clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};

use crate::caches;
use crate::common::{
    Event, Fixed, SMALL, batch, cases, event, flushes, flushes_caches, flushing, inclusive, machine, run,
};
use crate::whole_engine::{Observer, Slow, SlowAccess, World, references};
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, UInt32Type, UInt64Type};
use arrow_array::{Array, RecordBatch};
use binhop_base::{Kind, PageId, Rng};
use binhop_hw::{CacheConfig, IndexBy, Rules, TagBy};
use binhop_oracle::cache::Name;
use binhop_oracle::cache_tree::{CacheTree, MovedLine, RemovalCause};
use binhop_sim::{Machine, RunOptions, SwitchOptions, simulate};
use binhop_trace::event::{Cause, EventBuilder};
use binhop_trace::{EventBatch, Op};
use proptest::prelude::*;

type LifeKey = (u32, u32);
/// Asid, life, cause and system call.
type SegmentKey = (u32, u32, &'static str, Option<u64>);
/// The cache, the name and the first byte of a line.
type Line = (usize, Name, u64);

/// `SlowLife` is a life with a computer of its own.
struct SlowLife {
    tree: CacheTree,
    left: Option<(&'static str, Option<u64>)>,
    /// The lines that both computers held when the life left.
    held: BTreeSet<Line>,
    /// The lines that the life has lost since, and that have not come back.
    lost: BTreeSet<Line>,
}

/// `SlowPiece` is an interval of a segment: cause, length, number, whether it is complete, instructions, cycles.
type SlowPiece = (LifeKey, &'static str, u64, u64, bool, u64, [u64; 2]);

/// `SlowSwitches` counts what happens after switches.
struct SlowSwitches {
    machine: Machine,
    seed: u64,
    lives: BTreeMap<LifeKey, SlowLife>,
    /// The life of each address space number, and whether it is alive.
    numbers: BTreeMap<u32, (u32, bool)>,
    running: LifeKey,
    /// True between the first access and the first switch.
    began: bool,
    switched: bool,
    accessed: bool,
    /// True once another life than the first life has run.
    turned: bool,
    /// The life whose access evicted a line last.
    evicted_by: BTreeMap<Line, LifeKey>,
    segment: SegmentKey,
    counts: BTreeMap<String, u64>,
    costs: BTreeMap<SegmentKey, BTreeMap<String, u64>>,
    /// The instructions and cycles of each row of the segment, at its end.
    course: Vec<(u64, [u64; 2])>,
    executed: u64,
    waited: [u64; 2],
    pieces: Vec<SlowPiece>,
    stalls_before: u64,
}

/// Returns every line that a cache of a tree holds.
fn contents(tree: &CacheTree, cache: usize) -> impl Iterator<Item = Line> + use<'_> {
    let lines = tree.caches[cache].sets.iter().flatten().flatten();
    lines.map(move |line| (cache, line.name, line.offset))
}

fn stalls(tree: &CacheTree) -> u64 {
    let name = "write-buffer.stall-cycles";
    tree.caches
        .iter()
        .flat_map(|cache| &cache.counts)
        .filter(|((_, what, _), _)| *what == name)
        .map(|(_, n)| n)
        .sum()
}

impl SlowSwitches {
    fn new(machine: &Machine, seed: u64) -> Self {
        let mut all = Self {
            machine: machine.clone(),
            seed,
            lives: BTreeMap::new(),
            numbers: BTreeMap::new(),
            running: (0, 0),
            began: false,
            switched: false,
            accessed: false,
            turned: false,
            evicted_by: BTreeMap::new(),
            segment: (0, 0, "none", None),
            counts: BTreeMap::new(),
            costs: BTreeMap::new(),
            course: Vec::new(),
            executed: 0,
            waited: [0; 2],
            pieces: Vec::new(),
            stalls_before: 0,
        };
        all.bear((0, 0));
        all
    }

    fn bear(&mut self, key: LifeKey) {
        let tree = caches::oracle_of(self.machine.tree().config(), Rng::new(self.seed));
        let life = || SlowLife { tree, left: None, held: BTreeSet::new(), lost: BTreeSet::new() };
        self.lives.entry(key).or_insert_with(life);
    }

    fn name(&self, level: Option<usize>) -> String {
        level.map_or_else(
            || "memory".to_string(),
            |cache| self.machine.tree().config().caches[cache].name.clone(),
        )
    }

    fn add(&mut self, name: &str, count: u64) {
        *self.counts.entry(name.to_string()).or_default() += count;
    }

    fn end_segment(&mut self, ended: &'static str) {
        let cause = self.segment.2;
        if cause != "none" {
            self.add("segments", 1);
            self.add("segments.short", u64::from(self.executed < 1000));
            self.add("segments.truncated", u64::from(ended == "end"));
            self.cut_into_pieces();
        }
        self.add("instructions", self.executed);
        self.add("cycles.shared", self.executed + self.waited[0]);
        self.add("cycles.private", self.executed + self.waited[1]);
        let sums = self.costs.entry(self.segment).or_default();
        for (name, count) in std::mem::take(&mut self.counts) {
            *sums.entry(name).or_default() += count;
        }
    }

    /// Divides the rows of the segment. A row belongs to the interval in which its last instruction lies.
    fn cut_into_pieces(&mut self) {
        let (asid, life, cause, _) = self.segment;
        for length in [1000, 10_000] {
            let (mut before, mut at) = ((0, [0; 2]), 0);
            for number in 0..100 {
                let end = (number + 1) * length;
                let within: Vec<_> =
                    self.course[at..].iter().take_while(|(executed, _)| *executed <= end).collect();
                let Some(&&last) = within.last() else {
                    // A row reached beyond this interval, or the segment has ended.
                    if at < self.course.len() && self.executed > end {
                        self.pieces.push(((asid, life), cause, length, number, true, 0, [0; 2]));
                        continue;
                    }
                    break;
                };
                at += within.len();
                let complete = self.executed >= end;
                let after = if at == self.course.len() { (self.executed, self.total()) } else { last };
                let cycles = [after.1[0] - before.1[0], after.1[1] - before.1[1]];
                let instructions = after.0 - before.0;
                if instructions > 0 || complete {
                    self.pieces.push(((asid, life), cause, length, number, complete, instructions, cycles));
                }
                before = after;
            }
        }
        self.course.clear();
    }

    /// Begins the measured part. The rest of the segment belongs to no switch.
    fn measure(&mut self) {
        self.costs.clear();
        self.pieces.clear();
        self.counts.clear();
        self.course.clear();
        (self.executed, self.waited) = (0, [0; 2]);
        self.segment = (self.segment.0, self.segment.1, "none", None);
    }

    fn total(&self) -> [u64; 2] {
        self.waited.map(|waited| self.executed + waited)
    }

    fn turn(&mut self, asid: u32, cause: &'static str, syscall: Option<u64>, shared: &CacheTree) {
        let (number, alive) = self.numbers.entry(asid).or_insert((0, false));
        *alive = true;
        let key = (asid, *number);
        if key == self.running {
            return;
        }
        self.end_segment(cause);
        // The life in which the stream begins has run, if anything has run.
        let ran = self.accessed || self.turned;
        self.turned = true;
        let leaving = self.lives.get_mut(&self.running).unwrap();
        leaving.left = ran.then_some((cause, syscall));
        leaving.lost.clear();
        leaving.held = (0..shared.caches.len())
            .flat_map(|cache| contents(&leaving.tree, cache))
            .filter(|line| contents(shared, line.0).any(|held| held == *line))
            .collect();
        self.running = key;
        self.bear(key);
        let life = &self.lives[&key];
        let (why, call) = life.left.unwrap_or(("start", None));
        let still: BTreeSet<Line> = (0..shared.caches.len())
            .flat_map(|cache| contents(&life.tree, cache))
            .filter(|line| contents(shared, line.0).any(|held| held == *line))
            .collect();
        let (held, returns) = (life.held.clone(), life.left.is_some());
        self.segment = (asid, key.1, why, call);
        (self.executed, self.waited) = (0, [0; 2]);
        self.course.clear();
        if returns {
            for cache in 0..shared.caches.len() {
                let of = |lines: &BTreeSet<Line>| lines.iter().filter(|line| line.0 == cache).count() as u64;
                let name = self.name(Some(cache));
                self.add(&format!("{name}.lines.held"), of(&held));
                let lost: BTreeSet<Line> = held.difference(&still).copied().collect();
                self.add(&format!("{name}.lines.lost"), of(&lost));
            }
        }
    }
}

/// `Watched` is the observer of a run: the slow counts, and the shared caches before the access in progress.
struct Watched {
    slow: SlowSwitches,
    shared: Option<CacheTree>,
}

impl Observer for Watched {
    fn before(&mut self, tree: &CacheTree) {
        self.slow.stalls_before = stalls(tree);
    }

    fn access(&mut self, access: &SlowAccess, tree: &CacheTree, world: &World) {
        let slow = &mut self.slow;
        slow.began |= !slow.switched;
        slow.accessed = true;
        let running = slow.running;
        for &(cache, name, offset, _) in &tree.missed {
            let line = (cache, name, offset);
            let cache_name = slow.name(Some(cache));
            slow.add(&format!("{cache_name}.misses.shared"), 1);
            if contents(&slow.lives[&running].tree, cache).any(|held| held == line) {
                let reordered = slow.evicted_by.get(&line) == Some(&running);
                slow.add(
                    &format!("{cache_name}.misses.{}", if reordered { "reordered" } else { "replaced" }),
                    1,
                );
            }
        }
        // Within one access a line may come, leave and come back. The lost lines of lives that are away are updated at
        // each step.
        let steps = tree.moved.iter().map(|moved| match *moved {
            MovedLine::Came(cache, name, offset) => (true, (cache, name, offset)),
            MovedLine::Left(left) => {
                assert_ne!(left.why, RemovalCause::Flushed);
                let line = (left.cache, left.name, left.offset);
                slow.evicted_by.insert(line, running);
                (false, line)
            }
        });
        let steps: Vec<(bool, Line)> = steps.collect();
        for (came, line) in steps {
            let mut restored = false;
            for (key, life) in &mut slow.lives {
                if !contents(&life.tree, line.0).any(|held| held == line) {
                    continue;
                }
                if came {
                    restored |= life.lost.remove(&line) && *key == running;
                } else if *key != running && life.held.contains(&line) {
                    life.lost.insert(line);
                }
            }
            if restored {
                let name = slow.name(Some(line.0));
                slow.add(&format!("{name}.lines.restored"), 1);
            }
        }
        let shared_stall = stalls(tree) - slow.stalls_before;
        let own = slow.lives.get_mut(&running).unwrap();
        let own_before = stalls(&own.tree);
        (own.tree.moved, own.tree.missed) = Default::default();
        let answer = own.tree.access(access.cache, access.kind, access.mapping, access.offset, world);
        let own_stall = stalls(&own.tree) - own_before;
        let (missed, left) = (own.tree.missed.clone(), own.tree.left());
        left.iter().for_each(|line| {
            own.lost.remove(&(line.cache, line.name, line.offset));
        });
        for (cache, ..) in missed {
            let name = slow.name(Some(cache));
            slow.add(&format!("{name}.misses.private"), 1);
        }
        let kind = if access.kind == Kind::Fetch { "fetch" } else { "data" };
        for (side, answer, stall) in [("shared", access.answer, shared_stall), ("private", answer, own_stall)]
        {
            slow.waited[usize::from(side == "private")] += answer.0;
            let level = slow.name(answer.1);
            slow.add(&format!("{level}.{kind}.cycles.{side}"), answer.0 - stall);
            slow.add(&format!("write-buffer.cycles.{side}"), stall);
        }
        // A data reference belongs to the piece of the instructions before it. A fetch belongs to the piece of its own
        // instructions.
        self.shared = Some(tree.clone());
        if access.kind != Kind::Fetch {
            let total = slow.total();
            slow.course.push((slow.executed, total));
        }
    }

    fn instructions(&mut self, count: u64) {
        let slow = &mut self.slow;
        slow.executed += count;
        let running = slow.running;
        slow.lives.get_mut(&running).unwrap().tree.now += count;
        let total = slow.total();
        slow.course.push((slow.executed, total));
    }

    fn measure(&mut self) {
        self.slow.measure();
    }

    fn flush(&mut self, page: PageId, world: &World) {
        for life in self.slow.lives.values_mut() {
            life.tree.moved.clear();
            life.tree.flush_page(page.0, world);
            for line in life.tree.left() {
                life.lost.remove(&(line.cache, line.name, line.offset));
            }
        }
    }

    fn flush_caches(&mut self, caches: &[usize]) {
        for life in self.slow.lives.values_mut() {
            life.tree.moved.clear();
            life.tree.flush_caches(caches);
            for line in life.tree.left() {
                life.lost.remove(&(line.cache, line.name, line.offset));
            }
        }
        if let Some(shared) = &mut self.shared {
            shared.flush_caches(caches);
        }
    }

    fn event(&mut self, events: &EventBatch, row: usize) {
        let op = Op::from_code(events.op()[row]).unwrap();
        let asid = events.addr()[row] as u32;
        let shared = self.shared.clone();
        let slow = &mut self.slow;
        let empty = || caches::oracle_of(slow.machine.tree().config(), Rng::new(slow.seed));
        let shared = shared.unwrap_or_else(empty);
        let end = |numbers: &mut BTreeMap<u32, (u32, bool)>, asid: u32| {
            let (number, alive) = numbers.entry(asid).or_insert((0, false));
            *number += u32::from(*alive);
            *alive = false;
        };
        if slow.began && !slow.switched {
            // Address space 0 is alive if anything runs before the first switch.
            slow.numbers.entry(0).or_insert((0, true));
        }
        match op {
            Op::Switch => {
                slow.switched = true;
                let cause = match events.arg0(row).and_then(Cause::from_code) {
                    Some(Cause::SystemCall) => "system-call",
                    Some(Cause::PageFault) => "page-fault",
                    Some(Cause::Involuntary) => "involuntary",
                    Some(Cause::Exit) => "exit",
                    None => "unknown",
                };
                let before = slow.running;
                slow.turn(asid, cause, events.arg1(row), &shared);
                if before == slow.running {
                    slow.add("switches.same", 1);
                }
            }
            Op::Fork => {
                end(&mut slow.numbers, asid);
                slow.numbers.get_mut(&asid).unwrap().1 = true;
            }
            Op::Exit => end(&mut slow.numbers, asid),
            _ => {}
        }
    }
}

fn column<'a>(table: &'a RecordBatch, name: &str) -> &'a arrow_array::UInt64Array {
    table.column_by_name(name).unwrap_or_else(|| panic!("{name}")).as_primitive::<UInt64Type>()
}

fn small(table: &RecordBatch, name: &str, row: usize) -> Option<u32> {
    let column = table.column_by_name(name).unwrap().as_primitive::<UInt32Type>();
    column.is_valid(row).then(|| column.value(row))
}

fn text<'a>(table: &'a RecordBatch, name: &str, row: usize) -> Option<&'a str> {
    let column = table.column_by_name(name).unwrap().as_string::<i32>();
    column.is_valid(row).then(|| column.value(row))
}

/// The counts of each life, cause and system call.
type Costs = BTreeMap<(u32, u32, String, Option<u64>), BTreeMap<String, u64>>;

/// Returns the counts of the table of costs of one seed that are not zero.
fn costs(table: &RecordBatch, seed: u64) -> Costs {
    let mut all = BTreeMap::new();
    for row in (0..table.num_rows()).filter(|&row| column(table, "seed").value(row) == seed) {
        let call = column(table, "syscall");
        let key = (
            small(table, "asid", row).unwrap(),
            small(table, "life", row).unwrap(),
            text(table, "cause", row).unwrap().to_string(),
            call.is_valid(row).then(|| call.value(row)),
        );
        let schema = table.schema();
        let counts = schema
            .fields()
            .iter()
            .skip(7)
            .map(|field| (field.name().clone(), column(table, field.name()).value(row)));
        let counts: BTreeMap<String, u64> = counts.filter(|(_, count)| *count > 0).collect();
        assert!(all.insert(key, counts).is_none(), "two rows of one key");
    }
    all
}

/// Sums of pieces by life, cause (where all lives are meant), length and number: segments, complete, instructions,
/// cycles.
type Curves = BTreeMap<(Option<LifeKey>, Option<String>, u64, u64), [u64; 5]>;

fn curves(table: &RecordBatch, seed: u64) -> Curves {
    let mut all = Curves::new();
    for row in (0..table.num_rows()).filter(|&row| column(table, "seed").value(row) == seed) {
        let life = small(table, "asid", row).zip(small(table, "life", row));
        let cause = text(table, "cause", row).map(str::to_string);
        let interval = small(table, "interval", row).unwrap().into();
        let number = small(table, "number", row).unwrap().into();
        let counts = ["segments", "complete", "instructions", "cycles_shared", "cycles_private"];
        let counts = counts.map(|name| column(table, name).value(row));
        let squares = table.column_by_name("squares_excess").unwrap().as_primitive::<Float64Type>();
        assert!(squares.value(row) >= 0.0);
        if counts[0] > 0 {
            assert!(all.insert((life, cause, interval, number), counts).is_none(), "two rows of one key");
        }
    }
    all
}

fn expected_curves(pieces: &[SlowPiece]) -> Curves {
    let mut all = Curves::new();
    for &(life, cause, length, number, complete, instructions, cycles) in pieces {
        for (life, cause) in [(None, None), (None, Some(cause.to_string())), (Some(life), None)] {
            let sums = all.entry((life, cause, length, number)).or_default();
            let counts = [1, u64::from(complete), instructions, cycles[0], cycles[1]];
            sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        }
    }
    all
}

/// Returns whether a cache may hold a line in two places, because its index is virtual and its tags are not.
fn two_places(machine: &Machine, cache: &CacheConfig) -> bool {
    (cache.index, cache.tag) == (IndexBy::Virtual, TagBy::Physical)
        && !machine.tree().index_is_inside_page(cache)
}

/// Returns whether a small machine has such a cache.
pub fn may_hold_a_line_twice(number: usize) -> bool {
    let machine = machine(number);
    machine.tree().config().caches.iter().any(|cache| two_places(&machine, cache))
}

#[test]
fn a_cache_that_may_hold_a_line_twice_is_refused() {
    let number =
        (0..SMALL.len()).find(|&number| may_hold_a_line_twice(number)).expect("a machine has such a cache");
    let options = RunOptions { switches: Some(SwitchOptions::default()), ..RunOptions::default() };
    let source = Box::new(Fixed::new(batch(&[Event::Switch(1)]), 7));
    let problem = simulate(&machine(number), source, &options, None, &mut |_| Ok(())).unwrap_err();
    assert!(problem.to_string().contains("twice"), "{problem}");
}

/// `Part` says which part of a trace is measured: so many parts of 256 of its instructions are run, and so many parts
/// of 256 of the references in them are the warm-up.
#[derive(Clone, Copy, Debug)]
struct Part {
    run: u8,
    warmup: u8,
}

/// The whole trace.
const WHOLE: Part = Part { run: u8::MAX, warmup: 0 };

impl Part {
    /// Returns the most instructions of a run, and the references of its warm-up.
    fn of(self, events: &EventBatch) -> (Option<u64>, u64) {
        let rows =
            || (0..events.len()).map(|row| (Op::from_code(events.op()[row]).unwrap(), events.count()[row]));
        let instructions = |op, count| if op == Op::Fetch { u64::from(count) } else { 0 };
        let all: u64 = rows().map(|(op, count)| instructions(op, count)).sum();
        let most = (self.run < u8::MAX).then(|| (all * u64::from(self.run) / 256).max(1));
        let (mut executed, mut run) = (0, 0);
        for (op, count) in rows() {
            executed += instructions(op, count);
            if most.is_some_and(|most| executed > most) {
                break;
            }
            run += references(op, count);
        }
        (most, run * u64::from(self.warmup) / 256)
    }
}

/// Draws a part. Most parts are the whole trace, or the whole trace behind a warm-up.
fn part() -> impl Strategy<Value = Part> {
    (prop_oneof![Just(u8::MAX), any::<u8>()], prop_oneof![Just(0), any::<u8>()])
        .prop_map(|(run, warmup)| Part { run, warmup })
}

fn compare(machine: &Machine, events: &EventBatch, part: Part) {
    let config = machine.tree().config();
    let twice = config.caches.iter().any(|cache| two_places(machine, cache));
    if machine.memory().frames.is_none() || config.rules == Rules::Cachegrind || twice {
        return;
    }
    let switches = Some(SwitchOptions { raw: true });
    let (instructions, warmup) = part.of(events);
    let kernel = flushes_caches(machine);
    let options =
        RunOptions { seeds: vec![0, 1], switches, instructions, warmup, kernel, ..RunOptions::default() };
    let fast = run(machine, events, 500, &options);
    let tables = fast.switches.as_ref().unwrap();
    for seed in 0..2 {
        let watched = Watched { slow: SlowSwitches::new(machine, seed), shared: None };
        let mut slow = Slow::new(machine, seed, watched);
        (slow.warmup, slow.most_instructions) = (warmup, instructions.unwrap_or(u64::MAX));
        slow.run(events);
        let mut slow = slow.observer.slow;
        let (asid, life) = slow.running;
        let has_ended = slow.numbers.get(&asid).is_some_and(|&(number, _)| number != life);
        slow.end_segment(if has_ended { "exit" } else { "end" });
        let mut expected = Costs::new();
        for ((asid, life, cause, call), mut counts) in slow.costs {
            counts.retain(|_, count| *count > 0);
            if !counts.is_empty() {
                expected.insert((asid, life, cause.to_string(), call), counts);
            }
        }
        assert_eq!(costs(&tables.costs, seed), expected, "{}, seed {seed}", machine.name());
        assert_eq!(
            curves(&tables.curves, seed),
            expected_curves(&slow.pieces),
            "{}, seed {seed}",
            machine.name()
        );
    }
    // Batches, threads and skipping change nothing.
    for other in [
        run(machine, events, 7, &options),
        run(machine, events, 500, &RunOptions { threads: 2, ..options.clone() }),
        run(machine, events, 500, &RunOptions { share: false, ..options.clone() }),
    ] {
        let of_other = other.switches.unwrap();
        assert_eq!(of_other.costs, tables.costs);
        assert_eq!(of_other.curves, tables.curves);
        assert_eq!(of_other.pages, tables.pages);
        assert_eq!(other.pieces.unwrap().whole().unwrap(), fast.pieces.as_ref().unwrap().whole().unwrap());
    }
    // Observing switches changes no other result.
    let plain = run(machine, events, 500, &RunOptions { switches: None, ..options });
    assert_eq!(plain.results, fast.results);
}

fn switching() -> impl Strategy<Value = Event> {
    let cause =
        prop::option::of(prop::sample::select(vec![Cause::SystemCall, Cause::PageFault, Cause::Involuntary]));
    let switch = (0u8..4, cause, prop::option::of(0u8..3));
    prop_oneof![
        30 => event(),
        2 => switch.prop_map(|(asid, cause, call)| Event::SwitchFor(asid, cause, call)),
        1 => prop_oneof![Just(Event::Thread), Just(Event::ExitAndRun), Just(Event::Syscall(3))],
    ]
}

proptest! {
    #![proptest_config(cases(8, 24))]

    #[test]
    fn private_caches_are_those_of_computers_of_their_own(
        number in 0..SMALL.len(),
        flushes in flushes(),
        events in prop::collection::vec(switching(), 1..250),
        part in part(),
    ) {
        compare(&flushing(&machine(number), flushes), &batch(&events), part);
    }
}

proptest! {
    #![proptest_config(cases(6, 16))]

    #[test]
    fn private_caches_follow_inclusive_caches_too(
        machine in inclusive(),
        flushes in flushes(),
        events in prop::collection::vec(switching(), 1..250),
        part in part(),
    ) {
        compare(&flushing(&machine, flushes), &batch(&events), part);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    #[ignore = "takes minutes: 2,000 cases"]
    fn private_caches_are_those_of_computers_of_their_own_in_many_cases(
        number in 0..SMALL.len(),
        flushes in flushes(),
        events in prop::collection::vec(switching(), 1..500),
        part in part(),
    ) {
        compare(&flushing(&machine(number), flushes), &batch(&events), part);
    }
}

/// Returns segments of three processes that take turns: short segments, long segments and longer segments.
fn long_segments(turns: u64) -> EventBatch {
    let mut events = EventBuilder::default();
    let mut draw = 1u64;
    for turn in 0..turns {
        events.push_args(Op::Switch, turn % 3, 1, 0, [Some(2), None]);
        for _ in 0..[40, 900, 2500][turn as usize % 3] {
            draw = draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            events.push(Op::Fetch, 0x4000 + (draw >> 40) % 0x3000 / 4 * 4, 28, 7);
            events.push(Op::Store, 0x9000 + (draw >> 50), 4, 1);
        }
    }
    events.finish()
}

const LATER: Part = Part { run: 200, warmup: 90 };

#[test]
fn long_segments_are_divided_into_intervals() {
    compare(&machine(2), &long_segments(6), LATER);
}

#[test]
#[ignore = "takes half a minute: two machines, whole runs and parts"]
fn long_segments_are_divided_into_intervals_on_every_machine() {
    for number in [2, 4] {
        for part in [WHOLE, LATER] {
            compare(&machine(number), &long_segments(12), part);
        }
    }
}
