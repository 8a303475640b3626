//! These tests run every placement policy in a whole machine. They check its keys and its errors, and that
//! sharing and skipping leave its results as they are.
#![allow(missing_docs, clippy::unwrap_used)]

use crate::common::{Event, Fixed, SMALL, behind_warm_up, event, machine, reference, run, short_and_long};
use binhop_base::{Class, Result};
use binhop_os::placement::{POLICIES, Policy, policy};
use binhop_sim::{Machine, RunOptions, simulate_all};
use proptest::prelude::*;

/// Returns the policies that need no file. `tests/recorded.rs` tests the policy that needs a file.
fn built_in() -> impl Iterator<Item = &'static Policy> {
    POLICIES.iter().copied().filter(|policy| !policy.uses("file"))
}

/// `BASE` is a machine of 64 frames with a level 1 of 1 bin, a level 2 of 8 bins and a level 3 of 4 bins.
const BASE: &str = r#"
name = "base"
memory = { size = "256KiB", page = "4KiB" }
[cache.l1]
serves = "all"
size = "8KiB"
line = "32B"
ways = 4
next = "l2"
[cache.l2]
size = "64KiB"
line = "64B"
ways = 2
next = "l3"
[cache.l3]
size = "256KiB"
line = "64B"
ways = 16
next = "memory"
"#;

fn with(settings: &[&str]) -> Result<Machine> {
    let settings: Vec<String> = settings.iter().map(ToString::to_string).collect();
    Machine::parse(BASE, "base.toml", &settings)
}

fn placed(settings: &[&str]) -> Machine {
    with(settings).unwrap_or_else(|problem| panic!("{settings:?}: {problem}"))
}

fn bins(settings: &[&str]) -> u64 {
    placed(&[&["placement.policy=hierarchical"], settings].concat()).placement().settings.bins.bytes()
}

#[test]
fn bins_are_those_given_or_of_the_cache_tuned_for_or_the_most_there_are() {
    assert_eq!(bins(&[]), 8);
    assert_eq!(bins(&["placement.tuned-for=l3"]), 4);
    assert_eq!(bins(&["placement.tuned-for=l1"]), 1);
    assert_eq!(bins(&["placement.bins=64"]), 64);
    let both = ["placement.policy=hierarchical", "placement.bins=16", "placement.tuned-for=l3"];
    assert_eq!(bins(&both), 16);
    assert_eq!(
        placed(&both).notes(),
        ["--set placement.tuned-for=l3: placement.bins is given, and is used instead"]
    );
    let both = ["placement.policy=colored-lists", "placement.colors=5", "placement.tuned-for=l3"];
    assert_eq!(
        placed(&both).notes(),
        ["--set placement.tuned-for=l3: placement.colors is given, and is used instead"]
    );
    // A virtually indexed cache has no bins.
    let virtual_l2 =
        ["cache.l1.index=virtual", "cache.l1.tag=asid", "cache.l2.index=virtual", "cache.l2.tag=asid"];
    assert_eq!(bins(&virtual_l2), 4);
    let colors = |settings: &[&str]| {
        placed(&[&["placement.policy=colored-lists"], settings].concat()).placement().settings.colors
    };
    assert_eq!(colors(&[]), 8);
    assert_eq!(colors(&["placement.tuned-for=l3"]), 4);
    assert_eq!(colors(&["placement.colors=5"]), 5);
    assert_eq!(colors(&["cache.l2.size=1MiB", "cache.l2.ways=1"]), 64, "no more than there are frames");
}

#[test]
fn wrong_placements_are_answered_with_value_place_rule_and_remedy() {
    for (settings, value, rule, remedy) in [
        (&["placement.policy=sequential", "placement.bins=3"], "3", "a power of two", "take 2 or 4"),
        (&["placement.policy=sequential", "placement.bins=128"], "128", "memory has 64", "fewer bins"),
        (&["placement.policy=sequential", "placement.bins=0"], "0", "at least one bin", "take 1 or more"),
        (&["placement.policy=sequential", "placement.bins=2097152"], "2097152", "at most 1048576", "fewer"),
        (&["placement.policy=random", "placement.bins=6"], "6", "a power of two", "take 4 or 8"),
        (&["placement.policy=hierarchical", "placement.tuned-for=l4"], "l4", "l1, l2, l3", "or give bins"),
        (
            &["placement.policy=colored-lists", "placement.colors=65"],
            "65",
            "memory has 64",
            "64 colors or fewer",
        ),
        (
            &["placement.policy=colored-lists", "placement.colors=0"],
            "0",
            "at least one color",
            "take 1 or more",
        ),
        (&["placement.policy=colored-lists", "placement.pid-hash=1"], "1", "true or false", "in that form"),
        (&["placement.policy=hierarchical", "placement.sharing=process"], "process", "segment, space", ""),
        (&["placement.policy=buddy", "placement.fragmentation=101"], "101", "between 0 and 100", "range"),
        (&["placement.policy=bin-hopping", "placement.pool=0KiB"], "0B", "at least one", "multiple"),
        (
            &["placement.policy=bin-hoping", "placement.pool=4KiB"],
            "bin-hoping",
            "policies are",
            "bin-hopping?",
        ),
    ] {
        let problem = with(settings).unwrap_err();
        assert_eq!((problem.class, &*problem.value), (Class::Request, value), "{settings:?}");
        let key = if value == "bin-hoping" { settings[0] } else { settings[1] };
        assert_eq!(problem.place, format!("--set {key}"));
        assert!(problem.rule.contains(rule) && problem.remedy.contains(remedy), "{problem}");
    }
}

#[test]
fn keys_that_a_policy_does_not_use_are_reported_and_make_no_difference() {
    let all = [
        ("pool", "16KiB"),
        ("bins", "2"),
        ("tuned-for", "l3"),
        ("colors", "3"),
        ("pid-hash", "true"),
        ("sharing", "space"),
        ("fragmentation", "7"),
        ("file", "none.parquet"),
    ];
    for policy in built_in() {
        let chosen = format!("placement.policy={}", policy.name);
        let size = if policy.name == "identity" { 1 } else { 0 };
        let plain = placed(&[&chosen]);
        assert_eq!(plain.notes().len(), size);
        for (key, value) in all {
            let machine = placed(&[&chosen, &format!("placement.{key}={value}")]);
            let unused = format!("placement {} does not use {key}", policy.name);
            assert_eq!(machine.notes().iter().any(|note| note.ends_with(&unused)), !policy.uses(key));
            assert_eq!(machine.notes().len(), size + usize::from(!policy.uses(key)), "{:?}", machine.notes());
            // `first` does not use its pool but keeps it: a custom policy that replaces `first` picks from
            // this pool.
            if !(policy.name == "first" && key == "pool") {
                let equal = machine.placement() == plain.placement();
                assert_eq!(equal, !policy.uses(key), "{} {key}", policy.name);
            }
        }
        assert!(policy.parameters.iter().all(|parameter| all.iter().any(|(key, _)| key == parameter)));
    }
}

#[test]
fn a_key_that_is_not_used_need_not_fit_the_memory() {
    for name in ["buddy", "colored-lists"] {
        let machine = placed(&[&format!("placement.policy={name}"), "placement.pool=1MiB"]);
        assert_eq!(machine.notes().len(), 1);
    }
    assert!(
        with(&["placement.policy=first", "placement.pool=1MiB"]).is_err(),
        "a policy of one's own has it"
    );
    assert!(with(&["placement.policy=hierarchical", "placement.colors=1000"]).is_ok());
}

#[test]
fn a_resolved_placement_reads_back_as_the_same() {
    for policy in built_in() {
        let chosen = format!("placement.policy={}", policy.name);
        let settings = [
            "placement.bins=16",
            "placement.colors=5",
            "placement.pid-hash=true",
            "placement.sharing=space",
            "placement.fragmentation=30",
            "placement.pool=12KiB",
        ];
        for given in [&settings[..], &[], &["placement.tuned-for=l3"], &["placement.pool=12KiB"]] {
            let machine = placed(&[&[&*chosen], given].concat());
            let again = Machine::parse(&machine.resolved(), "resolved", &[]).unwrap();
            assert_eq!(machine.placement(), again.placement());
            assert_eq!(machine.resolved(), again.resolved());
            // A key that makes no difference is not reported to a user who did not give it.
            let unused = policy.name == "first" && given.contains(&"placement.pool=12KiB");
            let notes: Vec<&str> =
                again.notes().iter().map(|note| note.rsplit_once(": ").unwrap().1).collect();
            let expected = ["placement first does not use pool"].into_iter().filter(|_| unused);
            assert!(notes.iter().copied().eq(expected), "{} {given:?}: {notes:?}", policy.name);
        }
    }
}

#[test]
fn what_is_safe_from_eviction_and_whether_seeds_differ() {
    let safe = |settings: &[&str]| placed(settings).safe_frames();
    assert_eq!(safe(&["placement.policy=identity"]), None);
    assert_eq!(safe(&["placement.policy=hierarchical", "placement.pool=16KiB"]), Some(60));
    assert_eq!(safe(&["placement.policy=colored-lists", "placement.colors=5"]), Some(11));
    assert_eq!(safe(&["placement.policy=colored-lists", "placement.colors=64"]), Some(0));
    assert_eq!(safe(&["placement.policy=buddy"]), Some(63));
    let random = |settings: &[&str]| placed(settings).is_random();
    assert!(!random(&["placement.policy=identity"]) && !random(&["placement.policy=buddy"]));
    assert!(random(&["placement.policy=buddy", "placement.fragmentation=1"]));
    assert!(random(&["placement.policy=buddy", "cache.l3.replacement=random"]));
    assert!(random(&["placement.policy=first"]) && random(&["placement.policy=colored-lists"]));
}

#[test]
fn a_policy_of_ones_own_needs_a_pool() {
    let make = || {
        let settings = binhop_os::placement::Settings::new(64, 8);
        policy("random").unwrap().build(&settings)
    };
    let custom = |name: &str| placed(&[&format!("placement.policy={name}")]).frames(1, make());
    assert!(custom("first").is_ok() && custom("hierarchical").is_ok());
    for name in ["identity", "buddy", "colored-lists"] {
        let problem = custom(name).map(|_| ()).unwrap_err();
        assert_eq!((problem.class, &*problem.value), (Class::Request, name));
        assert!(
            problem.place.contains("random places") && problem.remedy.contains("policy=random"),
            "{problem}"
        );
    }
}

/// Makes one of the small machines under every policy that needs no file, and some under other settings.
fn family(number: usize) -> Vec<Machine> {
    let base = machine(number);
    // Where physical = virtual, memory has no size. The other policies need a size.
    let size = base.memory().frames.is_none().then_some("memory.size=160KiB");
    let base = base.resolved();
    let with = |settings: &[&str]| {
        let settings: Vec<String> = settings.iter().copied().chain(size).map(String::from).collect();
        Machine::parse(&base, &settings.join(" "), &settings).unwrap()
    };
    let named = built_in().map(|policy| format!("placement.policy={}", policy.name));
    let mut family: Vec<Machine> = named.map(|name| with(&[&name])).collect();
    for settings in [
        &["placement.policy=hierarchical", "placement.bins=16", "placement.sharing=space"][..],
        &["placement.policy=sequential", "placement.bins=8", "placement.sharing=space"],
        &["placement.policy=colored-lists", "placement.colors=3", "placement.pid-hash=true"],
        &["placement.policy=buddy", "placement.fragmentation=40"],
    ] {
        family.push(with(settings));
    }
    family
}

fn compare(number: usize, events: &[Event]) {
    // Under cachegrind's rules no page is placed. Other policies are refused (`tests/cachegrind.rs`).
    if SMALL[number].1.contains("rules = \"cachegrind\"") {
        return;
    }
    let machines = family(number);
    let options = RunOptions { seeds: vec![0, 1], warmup: 40, interval: Some(300), ..RunOptions::default() };
    let events = behind_warm_up(options.warmup, events);
    let source = Box::new(Fixed::new(events.clone(), 1000));
    let together = simulate_all(&machines, source, &options, None, &mut |_| Ok(())).unwrap();
    for (machine, together) in machines.iter().zip(&together) {
        let name = machine.placement().policy;
        let plain = run(machine, &events, 1000, &RunOptions { share: false, ..options.clone() });
        let fast = run(machine, &events, 1000, &options);
        for outcome in [&fast, together] {
            assert!(plain.results == outcome.results, "results of {name}");
            assert!(plain.series.whole().unwrap() == outcome.series.whole().unwrap(), "series of {name}");
            assert!(
                plain.processes.whole().unwrap() == outcome.processes.whole().unwrap(),
                "processes of {name}"
            );
        }
    }
}

short_and_long! { many_machines: 3, 12;
    fn every_policy_gives_the_same_shared_and_collapsed_or_not(number in 0..SMALL.len(), events in prop::collection::vec(event(), 1..1000)) {
        compare(number, &events);
    }

    fn and_under_scarce_memory(number in 0..SMALL.len(), events in prop::collection::vec(reference(), 1..2500)) {
        compare(number, &events);
    }
}
