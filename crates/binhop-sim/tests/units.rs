//! These tests check the rules of units one at a time, in exact integers.
#![allow(missing_docs, clippy::unwrap_used)]

use std::sync::{Arc, Mutex};

use crate::common::{Event, Fixed, batch, machine, run};
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, UInt32Type, UInt64Type};
use arrow_array::{Array, RecordBatch};
use binhop_base::{Agent, Class, Kind, Problem, Result};
use binhop_hw::DirtyData;
use binhop_os::placement::POLICIES;
use binhop_sim::io_path::RUNNING_SPACE;
use binhop_sim::occasion::{Lines, Occasion, OccasionKind, Subscription, TouchedLines};
use binhop_sim::unit::{Injector, Unit, Units};
use binhop_sim::{Machine, Outcome, RunOptions, explain, simulate};
use binhop_trace::event::{EventBuilder, map_flags};
use binhop_trace::{EventBatch, Op};

/// `Always` is a unit that does the same at every occasion. The function gets the seed of its lane.
struct Always<F>(u64, F);

impl<F: Fn(u64, &Occasion, &mut Injector<'_>) -> Result<()> + Send> Unit for Always<F> {
    fn act(&mut self, occasion: &Occasion, injector: &mut Injector<'_>) -> Result<()> {
        (self.1)(self.0, occasion, injector)
    }
}

fn units<F>(subscription: Subscription, act: F) -> Units
where
    F: Fn(u64, &Occasion, &mut Injector<'_>) -> Result<()> + Clone + Send + Sync + 'static,
{
    Units::new(subscription, Arc::new(move |_: &Machine, seed| Box::new(Always(seed, act.clone()))))
}

/// Returns a machine whose data cache has as many sets as a page has lines. Only lines of one number within
/// their pages conflict.
fn direct(memory: &str) -> Machine {
    let toml = format!(
        r#"{memory}
        [cache.l1i]
        serves = "fetch"
        size = "4KiB"
        line = "32B"
        next = "memory"
        [cache.l1d]
        serves = "data"
        size = "4KiB"
        line = "32B"
        next = "memory"
        [cost]
        memory = 10"#
    );
    Machine::parse(&toml, "direct", &[]).unwrap()
}

const AMPLE: &str = r#"memory = { size = "1MiB", page = "4KiB" }
                       placement = { policy = "random", pool = "64KiB" }"#;

fn value(outcome: &Outcome, seed: u64, metric: &str) -> u64 {
    let column = |name: &str| outcome.results.column_by_name(name).unwrap();
    let (names, seeds) = (column("metric").as_string::<i32>(), column("seed").as_primitive::<UInt64Type>());
    let row = (0..names.len()).find(|&row| names.value(row) == metric && seeds.value(row) == seed).unwrap();
    column("value").as_primitive::<Float64Type>().value(row) as u64
}

fn load(page: u8, offset: u16) -> Event {
    Event::Data { op: Op::Load, page, offset, size: 4 }
}

fn fetch(page: u8, offset: u16) -> Event {
    Event::Fetch { page, offset, count: 1 }
}

/// Returns the accesses and misses of a kind at level 1, the unit's accesses included. The unit asks for one kind of
/// occasion, and loads or fetches byte 8 of its own page at each occasion. Sharing and skipping must not change the
/// counts.
fn counts(machine: &Machine, events: &[Event], asked: OccasionKind, kind: Kind) -> [u64; 2] {
    let (cache, touched) = match kind {
        Kind::Fetch => ("l1i", TouchedLines { fetch: Lines::Bytes(8..9), data: Lines::None }),
        _ => ("l1d", TouchedLines { fetch: Lines::None, data: Lines::Bytes(8..9) }),
    };
    let disturb = move |_: u64, _: &Occasion, injector: &mut Injector<'_>| {
        injector.access(Agent::Kernel, kind, injector.own_page(0), 8).map(|_| ())
    };
    let subscription =
        Subscription::new(1, Agent::ALL).at(OccasionKind::Device, TouchedLines::NOTHING).at(asked, touched);
    let device = move |seed: u64, occasion: &Occasion, injector: &mut Injector<'_>| {
        if occasion.kind() == asked { disturb(seed, occasion, injector) } else { Ok(()) }
    };
    let options =
        RunOptions { seeds: vec![0, 1], units: Some(units(subscription, device)), ..RunOptions::default() };
    let [fast, plain] =
        [true, false].map(|share| run(machine, &batch(events), 3, &RunOptions { share, ..options.clone() }));
    assert!(fast.results == plain.results, "{asked:?}");
    ["accesses", "misses"].map(|what| {
        let of = |agent: &str| value(&fast, 1, &format!("{cache}.{agent}{}.{what}", kind.name()));
        of("") + of("kernel.")
    })
}

/// The program loads line 0 of page 0 again and again. The line that the unit loads or fetches at an occasion
/// evicts it.
#[test]
fn filters_forget_the_lines_that_a_unit_may_evict() {
    let (ample, a) = (direct(AMPLE), load(0, 0));
    let data = |events: &[Event], asked| counts(&ample, events, asked, Kind::Load);
    // There are three loads, and one load of the unit between them. The load after the unit's load misses.
    let between = |event: Event| [a.clone(), a.clone(), event, a.clone()];
    assert_eq!(data(&between(Event::Thread), OccasionKind::Switch), [4, 3]);
    assert_eq!(data(&between(Event::Syscall(0)), OccasionKind::Syscall), [4, 3]);
    // The request reaches into two pages: the unit's second load hits.
    assert_eq!(data(&between(Event::Device { writes: true, page: 0 }), OccasionKind::Device), [5, 3]);
    // The unit loads at the first touch of page 0, when the cache is empty, and at the first touch of page 1.
    assert_eq!(data(&between(load(1, 64)), OccasionKind::FirstTouch), [6, 5]);
    // The port changes to page 0, to page 1, and back. The unit's second load hits: no access used its set
    // since the first.
    let change = [a.clone(), load(1, 64), a.clone(), load(1, 64)];
    assert_eq!(data(&change, OccasionKind::PageChange), [8, 6]);
    // The unit loads before the misses of line 0, of line 2, and of line 0 again, which the unit has evicted.
    assert_eq!(data(&between(load(0, 64)), OccasionKind::Miss), [7, 5]);
    // Instructions are fetched through the other port.
    let fetches = [fetch(0, 0), fetch(0, 0), Event::Thread, fetch(0, 0)];
    assert_eq!(counts(&ample, &fetches, OccasionKind::Switch, Kind::Fetch), [4, 3]);
}

/// Memory has ten frames, and a page takes the least recently used frame: the eleventh page takes the frame of
/// page 1. When page 1 returns, the unit evicts line 0 of the page that was loaded last.
#[test]
fn a_unit_is_told_of_a_return_where_the_page_was_evicted() {
    let scarce = direct(
        r#"memory = { size = "40KiB", page = "4KiB" }
           placement = { policy = "first", pool = "4KiB" }"#,
    );
    let others = (1u8..10).map(|page| load(page, u16::from(page) * 64));
    let mut events: Vec<Event> = others.chain([load(0, 0), load(10, 640), load(0, 0)]).collect();
    assert_eq!(counts(&scarce, &events, OccasionKind::Return, Kind::Load), [12, 11]);
    events.extend([load(1, 64), load(0, 0)]);
    // The line of page 1 left with its page, and the unit's load evicted line 0.
    assert_eq!(counts(&scarce, &events, OccasionKind::Return, Kind::Load), [15, 14]);
}

/// Where physical = virtual, each of the 512 sets of the cache is a slot of its filter. The lines of one number
/// within their pages lie in four sets, by the low bits of the page number. The bits of the unit's page are 11,
/// like the bits of page 3.
#[test]
fn an_occasion_reaches_the_slots_of_every_page() {
    let wide = Machine::parse(
        &direct(
            r#"memory = { page = "4KiB" }
                   placement = { policy = "identity" }"#,
        )
        .resolved(),
        "wide",
        &["cache.l1i.size=16KiB".to_string(), "cache.l1d.size=16KiB".to_string()],
    )
    .unwrap();
    let between = |page| [load(page, 0), load(page, 0), Event::Thread, load(page, 0)];
    let lost = |page| counts(&wide, &between(page), OccasionKind::Switch, Kind::Load);
    assert_eq!([0, 1, 2, 3].map(lost), [[4, 2], [4, 2], [4, 2], [4, 3]]);
}

/// Filters keep what they know of other lines: 99 of 100 loads of line 1 are skipped, whatever happens at line 0.
#[test]
fn accesses_to_lines_that_no_unit_may_touch_are_skipped_as_before() {
    let events: Vec<Event> = (0..100).flat_map(|_| [load(0, 32), Event::Thread]).collect();
    let rows = |touched: TouchedLines| {
        let subscription = Subscription::new(0, Agent::ALL).at(OccasionKind::Switch, touched);
        let options =
            RunOptions { units: Some(units(subscription, |_, _, _| Ok(()))), ..RunOptions::default() };
        let mut source = Fixed::new(batch(&events), 1000);
        binhop_sim::Prepared::new(&[direct(AMPLE)], &mut source, &options).unwrap().rows()
    };
    let data = |data| TouchedLines { fetch: Lines::All, data };
    assert_eq!(rows(TouchedLines::NOTHING), 1);
    assert_eq!(rows(data(Lines::None)), 1);
    assert_eq!(rows(data(Lines::Bytes(0..32))), 1);
    assert_eq!(rows(data(Lines::Bytes(64..4096))), 1);
    assert_eq!(rows(data(Lines::Bytes(0..33))), 100);
    assert_eq!(rows(data(Lines::Bytes(63..64))), 100);
    assert_eq!(rows(data(Lines::All)), 100);
}

/// One fetch misses and costs 10 cycles. At the switch after it the unit's load misses, and the processor waits
/// 10 cycles for agents for which it waits. The unit adds 3 cycles, and two instructions are executed.
#[test]
fn cycles_that_the_processor_waits_for_a_unit_are_counted() {
    let events = batch(&[fetch(0, 0), Event::Thread, fetch(0, 0)]);
    for (agent, cycles) in
        [(Agent::Handler, 25), (Agent::Walk, 25), (Agent::Device, 15), (Agent::Prefetch, 15)]
    {
        let subscription =
            Subscription::new(1, Agent::ALL).at(OccasionKind::Switch, TouchedLines::EVERYTHING);
        let act = move |_: u64, _: &Occasion, injector: &mut Injector<'_>| {
            assert!(!injector.holds(Kind::Load, injector.own_page(0), 0)?);
            assert_eq!(injector.access(agent, Kind::Load, injector.own_page(0), 0)?.cycles, 10);
            assert!(injector.holds(Kind::Load, injector.own_page(0), 0)?);
            injector.wait(3);
            Ok(())
        };
        let options =
            RunOptions { seeds: vec![0, 1], units: Some(units(subscription, act)), ..RunOptions::default() };
        for share in [true, false] {
            let outcome = run(&direct(AMPLE), &events, 10, &RunOptions { share, ..options.clone() });
            assert_eq!(value(&outcome, 0, "cycles"), cycles, "{agent:?}");
            assert_eq!(value(&outcome, 1, "cycles"), cycles, "{agent:?}");
        }
    }
}

/// A unit accesses a page under a name that the program never uses: the second address of the page. What the unit
/// stores there is dirty, so a load of the program reads an old copy. What the unit loads there is old when the program
/// stores. The program has one name for the page, so it counts no alias.
#[test]
fn a_unit_that_stores_under_a_name_of_its_own_leaves_a_different_copy() {
    let (here, there) = (3 << 28, (4 << 28) + (3 << 12));
    let shared = map_flags::READ | map_flags::WRITE | map_flags::SHARED;
    let trace = |op: Op| {
        let mut rows = EventBuilder::default();
        for start in [here, there] {
            rows.push_args(Op::Map, start, shared, 8, [Some(7), Some(0)]);
        }
        rows.push_args(op, there + 64, 4, 7, [Some(1), Some(RUNNING_SPACE)]);
        rows.push(Op::Load, here + 64, 4, 1);
        rows.push(Op::Load, here + 64, 4, 1);
        rows.push_args(Op::DmaRead, there + 96, 4, 7, [Some(2), Some(RUNNING_SPACE)]);
        rows.push(Op::Store, here + 96, 4, 1);
        rows.push(Op::Store, here + 96, 4, 1);
        rows.finish()
    };
    let act = |_: u64, occasion: &Occasion, injector: &mut Injector<'_>| {
        let Occasion::Device { writes, mapping, offset, .. } = *occasion else { return Ok(()) };
        let kind = if writes { Kind::Store } else { Kind::Load };
        injector.access(Agent::Kernel, kind, mapping, offset).map(|_| ())
    };
    let subscription = Subscription::new(0, Agent::ALL).at(OccasionKind::Device, TouchedLines::EVERYTHING);
    for tag in ["global", "asid"] {
        for translation in ["on", "off"] {
            let tags = ["l1i", "l1d", "l2i", "l2d"].map(|cache| format!("cache.{cache}.tag={tag}"));
            let settings = [&tags[..], &[format!("translation={translation}")]].concat();
            let machine = Machine::load("jm97", &settings).unwrap();
            for share in [true, false] {
                let units = Some(units(subscription.clone(), act));
                let options = RunOptions { seeds: vec![0, 1], units, share, ..RunOptions::default() };
                let counts = |op: Op| {
                    let outcome = run(&machine, &trace(op), 10, &options);
                    ["translation.aliases", "translation.synonyms"].map(|name| value(&outcome, 1, name))
                };
                assert_eq!(counts(Op::DmaWrite), [0, 2], "{tag}, translation {translation}, {share}");
                assert_eq!(counts(Op::DmaRead), [0, 1], "{tag}, translation {translation}, {share}");
            }
        }
    }
    // No unit acts where software translates at cache misses.
    let softvm = Machine::load("softvm", &["translation=on".to_string()]).unwrap();
    let problem = refusal(&softvm, &trace(Op::DmaWrite), units(subscription, act));
    assert!(problem.rule.contains("only the program and its handlers"), "{problem}");
}

/// Returns the placements of a lane, in order: the virtual page number, and the page that was evicted.
fn evicted(placements: &RecordBatch, seed: u64) -> Vec<(u64, Option<u32>)> {
    let column = |name: &str| placements.column_by_name(name).unwrap();
    let seeds = column("seed").as_primitive::<UInt64Type>();
    let (placed, evicted) =
        (column("page_no").as_primitive::<UInt64Type>(), column("evicted").as_primitive::<UInt32Type>());
    let out = |row: usize| evicted.is_valid(row).then(|| evicted.value(row));
    (0..placements.num_rows())
        .filter(|&row| seeds.value(row) == seed)
        .map(|row| (placed.value(row), out(row)))
        .collect()
}

/// The least recently used page is evicted, by the order of the program's references. The accesses that a unit
/// makes in one lane to the oldest pages do not change the order, and neither do the rows that are passed
/// because of the unit.
#[test]
fn injected_accesses_change_no_page_s_time_of_last_reference() {
    let scarce = direct(
        r#"memory = { size = "64KiB", page = "4KiB" }
           placement = { policy = "first", pool = "16KiB" }"#,
    );
    let pages = (0u16..60).map(|n| (n * 7 % 23) as u8);
    let events: Vec<Event> = pages
        .flat_map(|page| [load(page, u16::from(page) * 32), load(0, 0), load(page, u16::from(page) * 32)])
        .collect();
    let met: Arc<Mutex<[Vec<binhop_base::MappingId>; 2]>> = Arc::default();
    let act = move |seed: u64, occasion: &Occasion, injector: &mut Injector<'_>| {
        let mut met = met.lock().unwrap();
        let met = &mut met[seed as usize];
        if let Occasion::FirstTouch { mapping } | Occasion::PageChange { mapping, .. } = *occasion {
            met.push(mapping);
        }
        // In lane 0 the unit touches and invalidates lines of every page at every occasion; in lane 1 it does
        // nothing.
        for &mapping in met.iter() {
            if seed != 0 || !injector.is_resident(mapping) {
                continue;
            }
            injector.access(Agent::Kernel, Kind::Store, mapping, 0)?;
            injector.invalidate(Agent::Kernel, mapping, 64..4096, DirtyData::WriteBack)?;
        }
        Ok(())
    };
    let subscription =
        [OccasionKind::FirstTouch, OccasionKind::Return, OccasionKind::PageChange, OccasionKind::Miss];
    let subscription = subscription.iter().fold(Subscription::new(0, Agent::ALL), |subscription, &kind| {
        subscription.at(kind, TouchedLines::EVERYTHING)
    });
    let options = RunOptions { seeds: vec![0, 1], log: true, ..RunOptions::default() };
    let run = |units: Option<Units>, share| {
        let outcome = run(&scarce, &batch(&events), 17, &RunOptions { units, share, ..options.clone() });
        [0, 1].map(|seed| evicted(outcome.placements.as_ref().unwrap(), seed))
    };
    let without = run(None, true);
    assert_eq!(without[0], without[1], "the order of leaving does not depend on the placement");
    assert!(without[0].iter().filter(|(_, evicted)| evicted.is_some()).count() > 20);
    for share in [true, false] {
        assert_eq!(run(Some(units(subscription.clone(), act.clone())), share), without);
    }
}

fn refusal(machine: &Machine, events: &EventBatch, units: Units) -> Box<Problem> {
    let options = RunOptions { units: Some(units), ..RunOptions::default() };
    let source = Box::new(Fixed::new(events.clone(), 1000));
    simulate(machine, source, &options, None, &mut |_| Ok(())).map(|_| ()).unwrap_err()
}

#[test]
fn a_unit_that_touches_what_it_did_not_ask_for_ends_the_run() {
    let subscription = |touched| Subscription::new(1, Agent::ALL).at(OccasionKind::Switch, touched);
    let narrow = || subscription(TouchedLines { fetch: Lines::All, data: Lines::Bytes(0..64) });
    let events = batch(&[load(0, 0), Event::Thread]);
    type Act = fn(u64, &Occasion, &mut Injector<'_>) -> Result<()>;
    let cases: [(Subscription, Act, &str); 8] = [
        (narrow(), |_, _, i| i.access(Agent::Walk, Kind::Load, i.own_page(0), 64).map(|_| ()), "64 to 65"),
        (
            subscription(TouchedLines::EVERYTHING),
            |_, _, i| i.access(Agent::Walk, Kind::Load, i.own_page(0), u64::MAX).map(|_| ()),
            "4096 bytes",
        ),
        (narrow(), |_, _, i| i.ask(1, Agent::Walk, Kind::Load, i.own_page(0), 64).map(|_| ()), "64 to 65"),
        (
            narrow(),
            |_, _, i| i.invalidate(Agent::Device, i.own_page(0), 0..65, DirtyData::Discard),
            "0 to 65",
        ),
        (
            narrow(),
            |_, _, i| i.invalidate(Agent::Device, i.own_page(0), 0..4097, DirtyData::Discard),
            "4096 bytes",
        ),
        (subscription(TouchedLines::NOTHING), |_, _, i| i.contents(0).map(|_| ()), "level 1"),
        (
            subscription(TouchedLines::NOTHING),
            |_, _, i| i.invalidate(Agent::Device, i.own_page(0), 7..7, DirtyData::Discard),
            "level 1",
        ),
        (
            subscription(TouchedLines::NOTHING),
            |_, _, i| i.holds(Kind::Load, i.own_page(0), 0).map(|_| ()),
            "level 1",
        ),
    ];
    // A refusal does not depend on whether lanes share the front.
    for (subscription, act, part) in cases {
        let options =
            RunOptions { seeds: vec![0, 1], units: Some(units(subscription, act)), ..RunOptions::default() };
        for share in [true, false] {
            let source = Box::new(Fixed::new(events.clone(), 1000));
            let done =
                simulate(&direct(AMPLE), source, &RunOptions { share, ..options.clone() }, None, &mut |_| {
                    Ok(())
                });
            let problem = done.map(|_| ()).expect_err(part);
            assert_eq!(problem.class, Class::Run, "{problem}");
            assert!(problem.to_string().contains(part) && problem.place.contains("switch"), "{problem}");
        }
    }
    // The unit may touch all bytes for which it asks, to the last.
    let act: Act = |_, _, i| {
        i.access(Agent::Walk, Kind::Load, i.own_page(0), 63)?;
        i.invalidate(Agent::Device, i.own_page(0), 0..64, DirtyData::Discard)
    };
    run(
        &direct(AMPLE),
        &events,
        10,
        &RunOptions { units: Some(units(narrow(), act)), ..RunOptions::default() },
    );
}

#[test]
fn a_unit_cannot_act_on_a_page_that_is_not_in_memory() {
    // Mapping 0 leads to page 0, because the unit owns no page.
    let subscription = Subscription::new(0, Agent::ALL).at(OccasionKind::Switch, TouchedLines::EVERYTHING);
    let act = |_: u64, _: &Occasion, i: &mut Injector<'_>| {
        let mapping = binhop_base::MappingId(0);
        assert!(i.is_resident(mapping));
        i.access(Agent::Kernel, Kind::Load, mapping, 0).map(|_| ())
    };
    let events = batch(&[load(0, 0), Event::Thread]);
    run(
        &direct(AMPLE),
        &events,
        10,
        &RunOptions { units: Some(units(subscription.clone(), act)), ..RunOptions::default() },
    );
    let act = |_: u64, _: &Occasion, i: &mut Injector<'_>| {
        let mapping = binhop_base::MappingId(0);
        assert!(!i.is_resident(mapping));
        i.access(Agent::Kernel, Kind::Load, mapping, 0).map(|_| ())
    };
    let map = |op, page: u64, pages| (op, page * 4096, pages);
    let mut rows = EventBuilder::default();
    rows.push(Op::Map, 0, binhop_trace::event::map_flags::READ, 1);
    rows.push(Op::Load, 0, 4, 1);
    let (op, start, pages) = map(Op::Unmap, 0, 1);
    rows.push(op, start, 0, pages);
    rows.push(Op::Switch, 0, 0, 0);
    let problem = refusal(&direct(AMPLE), &rows.finish(), units(subscription, act));
    assert!(problem.rule.contains("in memory"), "{problem}");
}

#[test]
fn features_that_units_do_not_support_are_refused_by_name() {
    let watch = |pages| {
        units(
            Subscription::new(pages, Agent::ALL).at(OccasionKind::Switch, TouchedLines::NOTHING),
            |_, _, _| Ok(()),
        )
    };
    let cachegrind =
        (0..crate::common::SMALL.len()).find(|&n| crate::common::SMALL[n].1.contains("cachegrind")).unwrap();
    let problem = refusal(&machine(cachegrind), &batch(&[load(0, 0)]), watch(0));
    assert_eq!((problem.class, &*problem.value), (Class::Request, "cachegrind"));
    // A device's event is refused unless a unit asks for devices.
    let device = batch(&[Event::Device { writes: false, page: 1 }]);
    assert_eq!(&*refusal(&direct(AMPLE), &device, watch(1)).value, "dma-read");
}

#[test]
fn explain_tells_how_units_limit_sharing() {
    let explained = |subscription: &Subscription| {
        let options = RunOptions {
            seeds: vec![0, 1],
            units: Some(units(subscription.clone(), |_, _, _| Ok(()))),
            ..RunOptions::default()
        };
        explain(&[direct(AMPLE)], &["direct".to_string()], &options, None).unwrap().join("\n")
    };
    let subscription = Subscription::new(1, Agent::ALL)
        .at(OccasionKind::Switch, TouchedLines::EVERYTHING)
        .at(OccasionKind::Syscall, TouchedLines::NOTHING);
    let text = explained(&subscription);
    assert!(text.contains("until a frame may change hands or a unit may touch it (switch)"), "{text}");
    assert!(
        text.contains("at occasions (switch, syscall); rows between two are simulated all at once"),
        "{text}"
    );
    let text = explained(&subscription.at(OccasionKind::Miss, TouchedLines::NOTHING));
    assert!(text.contains("units act where level 1 misses, in each placement for itself"), "{text}");
    assert!(text.contains("simulated one by one"), "{text}");
}

/// The unit's pages keep their frames for the whole run: three of eleven. The ninth page of the program evicts
/// the first.
#[test]
fn pages_of_a_unit_are_wired() {
    let scarce = direct(
        r#"memory = { size = "44KiB", page = "4KiB" }
           placement = { policy = "first", pool = "4KiB" }"#,
    );
    let evictions = |owned, pages| {
        let subscription =
            Subscription::new(owned, Agent::ALL).at(OccasionKind::Switch, TouchedLines::NOTHING);
        let options =
            RunOptions { units: Some(units(subscription, |_, _, _| Ok(()))), ..RunOptions::default() };
        let events: Vec<Event> = (0..pages).map(|page| load(page, 0)).collect();
        value(&run(&scarce, &batch(&events), 10, &options), 0, "os.evictions")
    };
    assert_eq!([evictions(0, 11), evictions(0, 12)], [0, 1]);
    assert_eq!([evictions(3, 8), evictions(3, 9)], [0, 1]);
    let subscription = Subscription::new(12, Agent::ALL).at(OccasionKind::Switch, TouchedLines::NOTHING);
    let problem = refusal(&scarce, &batch(&[load(0, 0)]), units(subscription, |_, _, _| Ok(())));
    assert!(problem.to_string().contains("wired"), "{problem}");
}

/// A unit that owns pages and does nothing changes no segment number. (Policies draw by these numbers.) It
/// changes no count where a policy decides by bins alone, because a bin with a wired frame has other frames.
#[test]
fn pages_of_a_unit_shift_no_segment_of_the_trace() {
    let events: Vec<Event> = (0..60).cycle().take(180).map(|page| load(page, 64)).collect();
    let mut counted = Vec::new();
    for policy in POLICIES.iter().filter(|policy| policy.name != "recorded") {
        let memory = match policy.name {
            "identity" => r#"page = "4KiB""#,
            _ => r#"page = "4KiB", size = "16MiB""#,
        };
        let pool = if policy.uses("pool") { r#", pool = "4MiB""# } else { "" };
        let toml = format!(
            r#"memory = {{ {memory} }}
            placement = {{ policy = "{}"{pool} }}
            [cache.l1]
            serves = "all"
            size = "128KiB"
            line = "32B"
            next = "memory""#,
            policy.name
        );
        let machine = Machine::parse(&toml, policy.name, &[]).unwrap();
        let outcome = |owned: u32| {
            let subscription =
                Subscription::new(owned, Agent::ALL).at(OccasionKind::Switch, TouchedLines::NOTHING);
            let units = (owned > 0).then(|| units(subscription, |_, _, _| Ok(())));
            run(
                &machine,
                &batch(&events),
                10,
                &RunOptions { seeds: vec![0, 1], log: true, units, ..RunOptions::default() },
            )
        };
        let [without, with] = [outcome(0), outcome(3)];
        let [results, results_with] = [&without, &with].map(|outcome| {
            let log = outcome.placements.as_ref().unwrap();
            ["seed", "asid", "page_no", "segment"].map(|name| log.column_by_name(name).unwrap().clone())
        });
        assert_eq!(results, results_with, "{}", policy.name);
        let misses =
            [0, 1].map(|seed| [&without, &with].map(|outcome| value(outcome, seed, "l1.load.misses")));
        if policy.uses("bins") {
            assert!(misses.iter().all(|[without, with]| without == with), "{}: {misses:?}", policy.name);
            counted.push(policy.name);
        }
    }
    assert!(counted.contains(&"page-coloring-offset"), "{counted:?}");
}

#[test]
fn every_kind_of_occasion_has_a_name_and_a_meaning_of_its_own() {
    for (number, &kind) in OccasionKind::ALL.iter().enumerate() {
        assert_eq!(kind as usize, number);
        assert!(kind.meaning().ends_with('.'), "{kind:?}");
        assert_eq!(OccasionKind::ALL.iter().filter(|other| other.name() == kind.name()).count(), 1);
    }
}
