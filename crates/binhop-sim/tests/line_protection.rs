//! These tests compare the protection that the lines of virtual caches keep, on machines without translation, with a
//! slow model, and check it by hand.
#![allow(missing_docs, clippy::unwrap_used)]

use std::collections::BTreeMap;

use crate::common::{Fixed, cases, run};
use crate::features_of_jm97::{EXEC, READ, REGION, Trace, WRITE, of};
use crate::softvm::{Design, design, direct_mapped, events, scatter, starts};
use crate::whole_engine::{Injection, Observer, Slow, World, counts};
use binhop_base::{Asid, Problem};
use binhop_oracle::cache_tree::CacheTree;
use binhop_oracle::protection::{ProtectedAccess, Protection};
use binhop_sim::{Machine, RunOptions, explain, simulate};
use binhop_trace::{EventBatch, Op};
use proptest::prelude::*;

const PAGE: u64 = 4096;

/// `SlowProtection` tells the slow model of accesses and of events.
struct SlowProtection {
    protection: Protection,
    asid: Asid,
    access: Option<ProtectedAccess>,
}

impl Observer for SlowProtection {
    fn inject(&mut self, next: &Injection, tree: &mut CacheTree, world: &mut World) {
        let &Injection { kind, page_no, mapping, offset, .. } = next;
        let access = ProtectedAccess { kind, asid: self.asid, page_no: page_no.0, mapping, offset };
        self.protection.before(&access);
        self.protection.forget_older(tree, world);
        self.access = Some(access);
    }

    fn follow(&mut self, tree: &mut CacheTree, world: &World) {
        if let Some(access) = self.access.take() {
            self.protection.forget_older(tree, world);
            self.protection.update_line(&access, tree);
        }
    }

    fn protect(&mut self, events: &EventBatch, row: usize, tree: &mut CacheTree, world: &World) {
        let (first, count) = (events.addr()[row] / PAGE, u64::from(events.count()[row]));
        if count > 0 {
            let pages = [first, first + count - 1];
            self.protection.protect(self.asid, pages, events.size()[row], tree, world);
        }
    }

    fn event(&mut self, events: &EventBatch, row: usize) {
        let (addr, count) = (events.addr()[row], u64::from(events.count()[row]));
        match Op::from_code(events.op()[row]).unwrap() {
            Op::Switch => self.asid = Asid(addr as u32),
            op @ (Op::Map | Op::Unmap) if count > 0 => {
                let flags = (op == Op::Map).then_some(events.size()[row]);
                self.protection.map(self.asid, addr / PAGE, addr / PAGE + count - 1, flags);
            }
            Op::Fork => {
                let parent = events.arg0(row).map_or(self.asid, |parent| Asid(parent as u32));
                self.protection.inherit(Asid(addr as u32), Some(parent));
            }
            Op::Exec | Op::Exit => self.protection.inherit(Asid(addr as u32), None),
            _ => {}
        }
    }
}

/// Returns the machine of a design without translation, whose lines keep the protection of their pages.
fn plain(design: &Design, write_through: bool) -> Machine {
    let mut settings = vec!["translation=off", "translation.line-protection=true"];
    if write_through {
        settings.extend(["cache.l1d.write=through", "cache.l1d.allocate=false"]);
    }
    let settings: Vec<String> = settings.iter().map(ToString::to_string).collect();
    Machine::parse(&design.machine().resolved(), "plain", &settings).unwrap()
}

/// Compares a run with the slow model under two seeds.
fn compare(machine: &Machine, events: &EventBatch) {
    let options = RunOptions { seeds: vec![0, 1], ..RunOptions::default() };
    let fast = run(machine, events, 500, &options);
    for seed in 0..2 {
        let config = machine.tree().config();
        let mut protection = Protection::new([config.fetch, config.data]);
        protection.lazy = machine.resolved().contains("protection-changes = \"lazy\"");
        protection.counts_violations = machine.resolved().contains("protection-violations = \"count\"");
        let observer = SlowProtection { protection, asid: Asid(0), access: None };
        let mut slow = Slow::new(machine, seed, observer);
        slow.run(events);
        let mut expected = slow.metrics();
        let counted = slow.observer.protection.counts.iter();
        let counted = counted.filter(|(name, _)| machine.has_cost() || !name.ends_with("protection.cycles"));
        expected.extend(counted.map(|(name, &count)| (name.clone(), count as f64)));
        expected.retain(|_, value| *value > 0.0);
        let mut fast = counts(&fast, seed as usize, 2);
        // The slow model does not know what a mapping allows.
        fast.remove("translation.aliases.writable");
        for name in expected.keys().chain(fast.keys()) {
            assert_eq!(fast.get(name), expected.get(name), "{name}, seed {seed}");
        }
    }
    for other in [
        run(machine, events, 7, &options),
        run(machine, events, 500, &RunOptions { threads: 2, ..options.clone() }),
        run(machine, events, 500, &RunOptions { share: false, ..options.clone() }),
    ] {
        assert_eq!(other.results, fast.results);
    }
}

proptest! {
    #![proptest_config(cases(16, 64))]

    #[test]
    fn lines_keep_the_protection_of_their_pages(
        design in prop_oneof![design(), direct_mapped()],
        write_through in prop::bool::weighted(0.2),
        starts in starts(),
        events in events(500),
    ) {
        compare(&plain(&design.without_superpages(), write_through), &scatter(&crate::common::batch(&events), &starts));
    }
}

/// The machines whose lines keep protection: with software that translates at cache misses, and without translation.
const MACHINES: [(&str, &[&str]); 2] =
    [("softvm", &["translation=on"]), ("jm97", &["translation=off", "translation.line-protection=true"])];

/// The counts and the notes of a run.
type Counted = (BTreeMap<String, f64>, Vec<String>);

fn run_on(trace: Trace, (machine, on): (&str, &[&str]), settings: &[&str]) -> Result<Counted, Box<Problem>> {
    let outcome = trace.outcome_on(machine, &[on, settings].concat())?;
    Ok((counts(&outcome, 0, 1), outcome.notes))
}

/// A page of data with three lines, and a page of code.
fn pages() -> Trace {
    let here = 3 * REGION + 0x7000;
    let trace = Trace::default().switch(1).map(here, 1, READ | WRITE, 7, 0);
    let trace = trace.map(here + 0x4000, 1, READ | EXEC, 8, 0).fetch(here + 0x4200);
    [0x100, 0x110, 0x480].iter().fold(trace, |trace, at| trace.store(here + at))
}

/// A store to a line whose bits forbid it is a violation, although the line is in the cache. The run counts it or
/// stops.
#[test]
fn a_store_to_a_line_that_forbids_it_is_a_violation() {
    let here = 3 * REGION + 0x7000;
    for machine in MACHINES {
        let wrong = || {
            let trace = pages().protect(here, 1, READ).load(here + 0x100).store(here + 0x108);
            trace.store(here + 0x108).store(here + 0x4200).fetch(here + 0x100)
        };
        let (counts, notes) = run_on(wrong(), machine, &[]).unwrap();
        let violations =
            ["fetch", "load", "store"].map(|kind| of(&counts, &format!("translation.{kind}.violations")));
        assert_eq!(violations, [1, 0, 3], "{machine:?}");
        assert_eq!(of(&counts, "l1d.store.misses"), 4, "{machine:?}");
        let note = notes.iter().find(|note| note.contains("protection")).unwrap();
        assert!(note.contains("a store of 0x30007100 in asid 1, whose page allows loads"), "{note}");
        let stop = &["translation.protection-violations=stop"];
        let problem = run_on(wrong(), machine, stop).unwrap_err();
        assert_eq!(problem.value, "a store of 0x30007100 in asid 1", "{machine:?}");
        // A switch, two maps, a fetch and three stores come before the change of protection and the load.
        assert!(problem.place.ends_with(": row 9"), "{problem}");
        let ignore = &["translation.protection-violations=ignore"];
        let (counts, _) = run_on(wrong(), machine, ignore).unwrap();
        assert_eq!(of(&counts, "translation.store.violations"), 0, "{machine:?}");
    }
}

/// A `protect` event states what its pages allow in a trace without maps, too. A page that may be written may be read.
#[test]
fn a_protect_event_counts_without_maps() {
    let here = 3 * REGION + 0x7000;
    for machine in MACHINES {
        let trace = Trace::default().store(here).fetch(here).protect(here, 1, READ).store(here).load(here);
        let trace = trace.protect(here, 1, WRITE).store(here).load(here).fetch(here).store(here + 0x1000);
        let (counts, _) = run_on(trace, machine, &[]).unwrap();
        let violations =
            ["fetch", "load", "store"].map(|kind| of(&counts, &format!("translation.{kind}.violations")));
        assert_eq!(violations, [1, 0, 1], "{machine:?}");
    }
}

/// A change sweeps the lines of its page, eagerly or lazily, and takes the cycles of JM97 §5.4.
#[test]
fn a_change_of_protection_sweeps_lines_with_and_without_software_translation() {
    let here = 3 * REGION + 0x7000;
    for machine in MACHINES {
        let run = |trace: Trace, settings: &[&str]| {
            let (counts, _) = run_on(trace, machine, settings).unwrap();
            ["level-1.checked", "level-1.updated", "level-2.updated", "late-updates", "cycles"]
                .map(|name| of(&counts, &format!("translation.protection.{name}")))
        };
        let page = |held: u64| held * 5 + (256 - held) * 3 + held * 40 + (256 - held) * 20;
        let back = || pages().protect(here, 1, READ).protect(here, 1, READ | WRITE).store(here + 0x110);
        assert_eq!(run(back(), &[]), [512, 6, 6, 0, 2 * page(3)], "{machine:?}");
        let lazy = &["translation.protection-changes=lazy"];
        assert_eq!(run(back(), lazy), [256, 3, 3, 1, page(3) + 5], "{machine:?}");
    }
}

#[test]
fn lines_that_cannot_keep_protection_are_refused() {
    let refused = |machine: &str, settings: &[&str]| {
        let on = ["translation.line-protection=true"];
        let settings: Vec<String> = on.iter().chain(settings).map(ToString::to_string).collect();
        Machine::load(machine, &settings).unwrap_err()
    };
    let physical = ["cache.l2i.tag=physical", "cache.l2i.index=physical"];
    for (settings, words) in [
        (&["translation=on"][..], "behind a TLB"),
        (&["placement.policy=identity"], "whose pages have frames"),
        (&physical, "l2i has physical tags"),
        (&["cache.l2i.next=l2d"], "l2d serves both"),
        (&["stream-buffers.l2d.depth=4"], "l2d prefetches"),
    ] {
        let problem = refused("jm97", settings);
        assert!(problem.rule.contains(words) && !problem.remedy.is_empty(), "{settings:?}: {problem}");
        assert!(problem.place.contains("line-protection"), "{problem}");
    }
}

/// Nothing but the program accesses these caches, and each placement has a front of its own if placements differ.
#[test]
fn lines_keep_protection_for_the_program_alone() {
    let settings = MACHINES[1].1.iter().map(ToString::to_string).collect::<Vec<_>>();
    let machine = Machine::load("jm97", &settings).unwrap();
    let options = RunOptions { seeds: vec![0, 1], kernel: true, ..RunOptions::default() };
    let source = Box::new(Fixed::new(crate::common::batch(&[]), 100));
    let problem = simulate(&machine, source, &options, None, &mut |_| Ok(())).map(|_| ()).unwrap_err();
    assert!(problem.rule.contains("only the program accesses the caches"), "{problem}");
    assert_eq!(problem.value, "translation.line-protection");
    let options = RunOptions { kernel: false, ..options };
    let random = ["cache.l2d.ways=2", "cache.l2d.replacement=random"].map(ToString::to_string);
    let differs = Machine::load("jm97", &[settings, random.to_vec()].concat()).unwrap();
    for (machine, why) in
        [(&machine, "no cache depends on placement"), (&differs, "lines keep the protection")]
    {
        let lines = explain(std::slice::from_ref(machine), &["jm97".to_string()], &options, None).unwrap();
        assert!(lines.iter().any(|line| line.contains(why)), "{lines:?}");
    }
}
