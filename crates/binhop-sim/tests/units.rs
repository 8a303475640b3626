//! Units, one rule at a time, in exact integers.
#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use std::sync::{Arc, Mutex};

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{Float64Type, UInt32Type, UInt64Type};
use binhop_base::{Agent, Class, Kind, Problem, Result};
use binhop_hw::DirtyData;
use binhop_os::placement::POLICIES;
use binhop_sim::occasion::{Lines, Occasion, OccasionKind, Subscription, TouchedLines};
use binhop_sim::unit::{Injector, Unit, Units};
use binhop_sim::{Machine, Outcome, RunOptions, explain, simulate};
use binhop_trace::event::EventBuilder;
use binhop_trace::{EventBatch, Op};
use common::{Event, Fixed, batch, machine, run};

/// A unit that does one thing at every occasion, given the seed of its lane.
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

/// The data cache has as many sets as a page has lines: lines of one number within their pages fight, no others.
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

/// Level 1's accesses and misses of a kind, the unit's included, where a unit asks for one kind of occasion, and at each that it is told of loads
/// or fetches byte 8 of a page of its own; shared and collapsed, or not.
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

/// Line 0 of page 0 is loaded again and again; what a unit loads or fetches at an occasion takes its place.
#[test]
fn what_a_unit_may_have_taken_is_believed_no_more() {
    let (ample, a) = (direct(AMPLE), load(0, 0));
    let data = |events: &[Event], asked| counts(&ample, events, asked, Kind::Load);
    // Three loads, and one by the unit between: of its first the second load finds nothing left.
    let between = |event: Event| [a.clone(), a.clone(), event, a.clone()];
    assert_eq!(data(&between(Event::Thread), OccasionKind::Switch), [4, 3]);
    assert_eq!(data(&between(Event::Syscall(0)), OccasionKind::Syscall), [4, 3]);
    assert_eq!(data(&between(Event::Device { writes: true, page: 0 }), OccasionKind::Device), [4, 3]);
    // A first touch: of page 0, before anything is there to be lost, and of page 1.
    assert_eq!(data(&between(load(1, 64)), OccasionKind::FirstTouch), [6, 5]);
    // To page 0, to page 1, and back. The unit's second load hits: nothing has been loaded there since its first.
    let change = [a.clone(), load(1, 64), a.clone(), load(1, 64)];
    assert_eq!(data(&change, OccasionKind::PageChange), [8, 6]);
    // Before the misses of line 0, of line 2, and of line 0 again, which the unit has taken.
    assert_eq!(data(&between(load(0, 64)), OccasionKind::Miss), [7, 5]);
    // Instructions behind the other port.
    let fetches = [fetch(0, 0), fetch(0, 0), Event::Thread, fetch(0, 0)];
    assert_eq!(counts(&ample, &fetches, OccasionKind::Switch, Kind::Fetch), [4, 3]);
}

/// Ten frames, of which the least recently used is taken: the eleventh page takes that of page 1. When this returns,
/// the unit takes line 0 of the page that was loaded last.
#[test]
fn a_return_is_told_where_the_page_was_gone() {
    let scarce = direct(
        r#"memory = { size = "40KiB", page = "4KiB" }
           placement = { policy = "first", pool = "4KiB" }"#,
    );
    let others = (1u8..10).map(|page| load(page, u16::from(page) * 64));
    let mut events: Vec<Event> = others.chain([load(0, 0), load(10, 640), load(0, 0)]).collect();
    assert_eq!(counts(&scarce, &events, OccasionKind::Return, Kind::Load), [12, 11]);
    events.extend([load(1, 64), load(0, 0)]);
    // Page 1's line left with its page; line 0 by the unit's load.
    assert_eq!(counts(&scarce, &events, OccasionKind::Return, Kind::Load), [15, 14]);
}

/// Where physical = virtual, each of the 512 sets of a cache is a slot: the lines of one number lie in four of them, by their
/// pages. The unit's page has a number that ends in 11, as page 3 has.
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

/// What is believed of other lines stays: of 100 loads of line 1, 99 are dropped, whatever happens at line 0.
#[test]
fn lines_that_no_unit_may_take_are_dropped_as_before() {
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

/// One fetch misses (10 cycles); at the switch after it the unit's load misses, and the processor waits, or does not,
/// and three cycles more; two instructions are executed in all.
#[test]
fn cycles_that_a_unit_is_waited_for_are_counted() {
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

/// The pages a run evicted in a lane, in order, each under its virtual page number.
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

/// The least recently used page leaves, by the order of the program's references: not by what a unit does in one lane
/// to pages that are about to leave, nor by where preparation has to ask again because of it.
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
        // In lane 0 every page is touched, or taken out, at every occasion; in lane 1 nothing is.
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
    // What is refused does not depend on whether lanes share the front.
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
    // What lies within is allowed to the last byte.
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
fn a_page_that_is_not_in_memory_is_not_acted_upon() {
    // Page 0 is the first mapping, as the unit owns none; it is touched after the switch.
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
fn what_units_cannot_do_is_refused_by_name() {
    let watch = |pages| {
        units(
            Subscription::new(pages, Agent::ALL).at(OccasionKind::Switch, TouchedLines::NOTHING),
            |_, _, _| Ok(()),
        )
    };
    let cachegrind = (0..common::SMALL.len()).find(|&n| common::SMALL[n].1.contains("cachegrind")).unwrap();
    let problem = refusal(&machine(cachegrind), &batch(&[load(0, 0)]), watch(0));
    assert_eq!((problem.class, &*problem.value), (Class::Request, "cachegrind"));
    // Devices are refused unless a unit asks for them.
    let device = batch(&[Event::Device { writes: false, page: 1 }]);
    assert_eq!(&*refusal(&direct(AMPLE), &device, watch(1)).value, "dma-read");
}

#[test]
fn the_plan_says_what_units_do_to_it() {
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

/// The unit's pages take frames of memory for good: of eleven, three; the ninth page of the program evicts the first.
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

/// A unit that owns pages and does nothing changes no number of a segment, by which policies draw, and no count where a
/// policy decides by bins alone: a frame that is wired leaves its bin others.
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
        let [told, told_with] = [&without, &with].map(|outcome| {
            let log = outcome.placements.as_ref().unwrap();
            ["seed", "asid", "page_no", "segment"].map(|name| log.column_by_name(name).unwrap().clone())
        });
        assert_eq!(told, told_with, "{}", policy.name);
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
