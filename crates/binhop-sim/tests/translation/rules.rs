//! These tests check single rules of translation: the effect of tables on the program, the causes of faults, the
//! references of units, and refusals.

use std::sync::Arc;

use crate::common::{Event, Fixed, batch, cases, event, machine, run};
use crate::whole_engine::counts;
use binhop_base::{Agent, Kind, Result};
use binhop_sim::occasion::{Lines, Occasion, OccasionKind, Subscription, TouchedLines};
use binhop_sim::unit::{Injector, Unit, Units};
use binhop_sim::{Machine, Outcome, RunOptions, SwitchOptions, simulate};
use binhop_trace::event::EventBuilder;
use binhop_trace::{EventBatch, Op};
use proptest::prelude::*;

/// Returns a machine with costs, whose page walker asks memory, with tables placed by this rule; without translation if
/// there is no rule.
fn walking_in_memory(policy: &str, memory: &str, rule: Option<&str>) -> Machine {
    let text = format!(
        r#"
memory = {{ page = "4KiB", size = "{memory}" }}
placement = {{ policy = "{policy}", pool = "64KiB" }}
[cache.l1]
serves = "all"
size = "8KiB"
line = "32B"
next = "l2"
[cache.l2]
size = "32KiB"
line = "64B"
ways = 2
replacement = "random"
next = "memory"
[tlb.tlb]
serves = "all"
entries = 3
[translation]
active = {}
table = "radix"
reserve = "256KiB"
reads = "memory"
placement = "{}"
"#,
        rule.is_some(),
        rule.unwrap_or("fixed")
    );
    Machine::parse(&text, policy, &[]).unwrap()
}

/// Checks that translation changes neither the frames of the program's pages nor the counts of caches and of the
/// operating system.
fn same_without(policy: &str, memory: &str, rule: &str, events: &EventBatch) {
    let options = RunOptions { seeds: vec![0, 7], log: true, ..RunOptions::default() };
    let [on, off] =
        [Some(rule), None].map(|rule| run(&walking_in_memory(policy, memory, rule), events, 500, &options));
    // The pages of tables have numbers, too, so the program's pages have other numbers.
    let frames = |outcome: &Outcome| {
        let log = outcome.placements.clone().unwrap();
        ["seed", "fault", "asid", "page_no", "frame"].map(|name| log.column_by_name(name).unwrap().clone())
    };
    assert!(frames(&on) == frames(&off), "{policy} in {memory}, tables {rule}");
    for seed in 0..2 {
        let of_user = |outcome| {
            let mut counts = counts(outcome, seed, 2);
            counts.retain(|name, _| {
                !["tlb.", "translation."].iter().any(|of| name.starts_with(of)) && !name.contains(".walk.")
            });
            counts
        };
        let (on, off) = (of_user(&on), of_user(&off));
        assert_eq!(on, off, "{policy} in {memory}, tables {rule}, seed {seed}");
    }
}

proptest! {
    #![proptest_config(cases(3, 6))]

    #[test]
    fn walks_that_bypass_the_caches_change_nothing_for_the_program(
        events in prop::collection::vec(event(), 1..300),
    ) {
        let events = batch(&events);
        for policy in binhop_os::placement::POLICIES {
            if ["identity", "recorded"].contains(&policy.name) {
                continue;
            }
            for memory in ["96KiB", "4MiB"] {
                for rule in ["random", "fixed", "policy"] {
                    same_without(policy.name, memory, rule, &events);
                }
            }
        }
    }
}

/// Page faults of each cause are counted.
#[test]
fn page_faults_have_causes() {
    let data = |op, page| Event::Data { op, page, offset: 8, size: 4 };
    let of = |memory, events: &[Event]| {
        let machine = walking_in_memory("first", memory, Some("fixed"));
        let counts = counts(&run(&machine, &batch(events), 3, &RunOptions::default()), 0, 1);
        ["first", "unmapped", "copied", "evicted"]
            .map(|cause| counts.get(&format!("translation.faults.{cause}")).copied().unwrap_or(0.0))
    };
    let map = Event::Map { page: 1, pages: 2, segment: None, shared: false };
    // Pages 1 and 2 are mapped, page 9 is not. The child shares page 1 and copies page 2.
    let events = [
        Event::Switch(1),
        map,
        data(Op::Store, 1),
        data(Op::Load, 2),
        data(Op::Load, 9),
        data(Op::Load, 9),
        Event::Fork(2),
        Event::Switch(2),
        data(Op::Load, 1),
        data(Op::Load, 2),
        data(Op::Store, 2),
    ];
    assert_eq!(of("1MiB", &events), [2.0, 1.0, 1.0, 0.0]);
    // Without maps, no page lies outside them.
    assert_eq!(of("1MiB", &[data(Op::Load, 1), data(Op::Load, 9)]), [2.0, 0.0, 0.0, 0.0]);
    // Memory has 24 frames, and 30 pages are referenced twice.
    let twice: Vec<Event> = (0..60).map(|number| data(Op::Load, number % 30)).collect();
    let [first, _, _, evicted] = of("96KiB", &twice);
    assert!(first == 30.0 && (1.0..=30.0).contains(&evicted), "{evicted}");
}

/// The hashed and the inverted table take their fixed pages at the start, so a trace without references has tables.
#[test]
fn tables_of_a_fixed_size_take_memory_before_the_first_reference() {
    let tables = |table: &str, events: &[Event]| {
        let settings = [format!("translation.table={table}"), "translation=on".to_string()];
        let machine = Machine::load("jm97", &settings).unwrap();
        let counts = counts(&run(&machine, &batch(events), 3, &RunOptions::default()), 0, 1);
        counts.get("translation.tables").copied().unwrap_or(0.0)
    };
    let nothing = [Event::Switch(0)];
    let load = [Event::Switch(0), Event::Data { op: Op::Load, page: 1, offset: 8, size: 4 }];
    for table in ["hashed", "inverted"] {
        assert!(tables(table, &nothing) > 0.0, "{table}");
        assert_eq!(tables(table, &nothing), tables(table, &load), "{table}");
    }
    assert_eq!(tables("mips", &nothing), 0.0);
    assert!(tables("mips", &load) > 0.0);
}

/// A map of a whole page ends the page's translation, even if the page stays what it was.
#[test]
fn a_page_that_is_mapped_again_is_looked_up_again() {
    let machine = walking_in_memory("first", "1MiB", Some("fixed"));
    let map = || Event::Map { page: 1, pages: 1, segment: Some(0), shared: true };
    let load = || Event::Data { op: Op::Load, page: 1, offset: 8, size: 4 };
    let events = batch(&[Event::Switch(1), map(), load(), load(), map(), load()]);
    let counts = counts(&run(&machine, &events, 3, &RunOptions::default()), 0, 1);
    assert_eq!((counts["tlb.load.misses"], counts["os.faults"]), (2.0, 1.0));
}

/// A page that leaves memory takes along what walk caches hold for its own addresses. Addresses that it had before
/// belong to other pages.
#[test]
fn a_page_that_leaves_memory_ends_walks_to_its_own_addresses_alone() {
    const SMALL: &str = r#"
memory = { page = "4KiB", size = "16KiB" }
placement = { policy = "first", pool = "4KiB" }
cost = { memory = 40 }
[cache.l1]
serves = "all"
size = "1KiB"
line = "32B"
next = "memory"
[tlb.tlb]
serves = "all"
entries = 8
[walk-cache.3]
entries = 8
[translation]
active = true
table = "radix"
levels = 5
entry = "128B"
placement = "fixed"
"#;
    let machine = Machine::parse(SMALL, "small", &[]).unwrap();
    let load = |page| Event::Data { op: Op::Load, page, offset: 8, size: 4 };
    // A page of the segment is at two addresses, and the first of them is unmapped. Then other pages push it out.
    let spared = |first: u8, other: u8| {
        let map = |page| Event::Map { page, pages: 1, segment: Some(0), shared: true };
        let mut events = vec![map(first), load(first), map(other), Event::Unmap { page: first, pages: 1 }];
        events.extend([2, 2, 3, 4, 5, 6].map(load));
        let counts = counts(&run(&machine, &batch(&events), 3, &RunOptions::default()), 0, 1);
        assert!(counts["os.evictions"] > 0.0);
        counts["translation.entries.spared"]
    };
    // A table page has 32 entries: for page 1 and the pages that push it out, but not for pages 100 and 200.
    assert_eq!(spared(1, 100), spared(200, 100));
}

#[test]
fn what_units_reference_is_not_translated() {
    let machine = walking_in_memory("random", "1MiB", Some("fixed"));
    let settings =
        ["kernel.switch.code=200B", "kernel.switch.data=6KiB", "kernel.fault.data=65B"].map(String::from);
    let machine = Machine::parse(&machine.resolved(), "kernel", &settings).unwrap();
    let data = |page| Event::Data { op: Op::Load, page, offset: 8, size: 4 };
    let events =
        batch(&[Event::Switch(1), data(1), data(2), Event::Switch(2), data(1), Event::Switch(1), data(2)]);
    let of =
        |kernel| counts(&run(&machine, &events, 3, &RunOptions { kernel, ..RunOptions::default() }), 0, 1);
    let (with, without) = (of(true), of(false));
    assert!(with["l1.kernel.load.accesses"] > 100.0 && !without.contains_key("l1.kernel.load.accesses"));
    for (name, count) in &without {
        if name.starts_with("tlb.") || name.starts_with("translation.") && !name.contains("tlb-miss") {
            assert_eq!(with.get(name), Some(count), "{name}");
        }
    }
    assert_eq!(without["tlb.load.misses"], 3.0);
}

#[test]
fn the_number_of_all_spaces_is_refused() {
    let mut events = EventBuilder::default();
    events.push(Op::Load, 4096, 4, 1);
    events.push(Op::Switch, u64::from(u32::MAX), 0, 0);
    events.push(Op::Load, 4096, 4, 1);
    let events = events.finish();
    let of = |rule| {
        let machine = walking_in_memory("random", "1MiB", rule);
        let source = Box::new(Fixed::new(events.clone(), 7));
        simulate(&machine, source, &RunOptions::default(), None, &mut |_| Ok(()))
    };
    of(None).unwrap();
    let problem = of(Some("fixed")).unwrap_err();
    assert_eq!(problem.value, "4294967295");
    assert!(problem.place.ends_with("row 1: asid"), "{problem}");
}

/// `Toucher` is a unit that accesses level 1 on behalf of the kernel at every change of a page.
struct Toucher;

impl Unit for Toucher {
    fn act(&mut self, _: &Occasion, injector: &mut Injector<'_>) -> Result<()> {
        injector.access(Agent::Kernel, Kind::Load, injector.own_page(0), 8).map(|_| ())
    }
}

/// A unit that acts between a walk and the access behind the walk ends the sharing of a front there.
#[test]
fn a_unit_that_ends_sharing_behind_a_walk_moves_no_count() {
    let load = |page, offset| Event::Data { op: Op::Load, page, offset, size: 4 };
    // The pages in a TLB of three entries leave it, and their lines stay in level 1.
    let before: Vec<Event> = (0..6).map(|page| load(page, 256 * u16::from(page))).collect();
    let events = batch(&[&before[..], &before].concat());
    let touched = TouchedLines { fetch: Lines::None, data: Lines::Bytes(8..9) };
    let machine = walking_in_memory("random", "1MiB", Some("fixed"));
    for asked in [OccasionKind::PageChange, OccasionKind::FirstTouch] {
        let subscription = Subscription::new(1, &[Agent::Kernel]).at(asked, touched.clone());
        let units = Units::new(subscription, Arc::new(|_: &Machine, _| Box::new(Toucher)));
        let of = |share| {
            let options =
                RunOptions { seeds: vec![0, 1], units: Some(units.clone()), share, ..RunOptions::default() };
            run(&machine, &events, 100, &options).results
        };
        assert_eq!(of(true), of(false), "{asked:?}");
    }
}

#[test]
fn a_policy_that_places_no_page_tables_is_refused() {
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("tables.txt");
    std::fs::write(&path, "0x0 0x1000\n").unwrap();
    let settings =
        ["placement.policy=recorded", &format!("placement.file={}", path.display())].map(String::from);
    let of = |rule| {
        let machine = walking_in_memory("random", "1MiB", Some(rule));
        Machine::parse(&machine.resolved(), "recorded", &settings)
    };
    of("fixed").unwrap();
    let problem = of("policy").unwrap_err();
    assert!(problem.place.ends_with("translation.placement"), "{problem}");
    assert!(problem.rule.contains("recording"), "{problem}");
}

#[test]
fn a_policy_of_ones_own_places_no_page_tables() {
    let machine = walking_in_memory("random", "1MiB", Some("policy"));
    let make: binhop_sim::PolicyMaker<'_> = &|_| unreachable!("the machine is refused");
    let source = Box::new(Fixed::new(batch(&[Event::Switch(1)]), 7));
    let problem =
        simulate(&machine, source, &RunOptions::default(), Some(make), &mut |_| Ok(())).unwrap_err();
    assert!(problem.rule.contains("page tables"), "{problem}");
}

#[test]
fn private_caches_and_translation_are_refused_together() {
    let machine = Machine::parse(
        &machine(0).resolved(),
        "both",
        &["translation.table=radix", "translation=on", "tlb.tlb.serves=all", "tlb.tlb.entries=4"]
            .map(String::from),
    );
    let options = RunOptions { switches: Some(SwitchOptions::default()), ..RunOptions::default() };
    let source = Box::new(Fixed::new(batch(&[Event::Switch(1)]), 7));
    let problem = simulate(&machine.unwrap(), source, &options, None, &mut |_| Ok(())).unwrap_err();
    assert!(problem.to_string().contains("translation=off"), "{problem}");
}
