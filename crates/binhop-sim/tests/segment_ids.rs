//! Segment ids that a user gives to regions of address spaces (JM97 §3.2): what they share, and what is refused.
#![allow(missing_docs, clippy::unwrap_used)]

use crate::features_of_jm97::{READ, REGION, SHARED, Trace, VIRTUAL, WRITE, of};
use binhop_sim::Machine;

const IDS: &str = "translation.segment-ids=1:0x30000000=7, 2:0x60000000=7";
const DECLARED: &str = "translation.shared-segments=7";

/// Two spaces map one segment, and memory of their own in the same regions: no region is shared as a whole.
fn mixed_regions() -> Trace {
    let map = |trace: Trace, addr, own| {
        let trace = trace.map(addr, 8, READ | WRITE | SHARED, 7, 0);
        trace.map(addr + (own << 12), 1, READ | WRITE, own, 0)
    };
    map(map(Trace::default().switch(1), 3 * REGION, 16).switch(2), 6 * REGION, 17)
}

#[test]
fn regions_of_one_declared_id_share_their_memory() {
    for machine in VIRTUAL {
        let accesses = || {
            let trace = mixed_regions().switch(1).store(3 * REGION + 64).store(3 * REGION + (16 << 12));
            trace.switch(2).load(6 * REGION + 64).store(6 * REGION + (17 << 12))
        };
        let counts = |settings: &[&str]| {
            let (counts, _) = accesses().run_on(machine, settings);
            ["l2d.load.misses", "translation.aliases.writable"].map(|name| of(&counts, name))
        };
        assert_eq!(counts(&[]), [1, 1], "{machine:?}");
        // The load finds the line that the first space has made dirty.
        assert_eq!(counts(&[IDS, DECLARED]), [0, 0], "{machine:?}");
    }
}

/// An id replaces what a region would share by itself.
#[test]
fn regions_of_different_ids_share_no_line() {
    let map = |trace: Trace, addr| trace.map(addr, 8, READ | WRITE | SHARED, 7, 0);
    let run = |settings: &[&str]| {
        let trace = map(map(Trace::default().switch(1), 3 * REGION).switch(2), 6 * REGION);
        let (counts, _) =
            trace.switch(1).store(3 * REGION + 64).switch(2).load(6 * REGION + 64).run(settings);
        [of(&counts, "translation.synonyms"), of(&counts, "translation.tables")]
    };
    // A map, a page of roots, and a page of the global table for each segment.
    assert_eq!(run(&[]), [0, 3 << 12]);
    assert_eq!(run(&["translation.segment-ids=1:0x30000000=7, 2:0x60000000=8"]), [1, 4 << 12]);
    // Without sharing by itself, an id is the only way to share.
    assert_eq!(run(&["translation.sharing=aliases"]), [1, 4 << 12]);
    assert_eq!(run(&["translation.sharing=aliases", IDS, DECLARED]), [0, 3 << 12]);
}

#[test]
fn two_pages_at_one_global_address_stop_the_run() {
    for (machine, translation) in VIRTUAL {
        let trace = mixed_regions().switch(1).store(3 * REGION + (17 << 12));
        let trace = trace.switch(2).store(6 * REGION + (17 << 12));
        let problem = trace.outcome_on(machine, &[translation, IDS, DECLARED]).unwrap_err();
        for (part, of) in [
            ("0x60011000 in address space 2", &problem.value),
            ("0x30011000 in address space 1", &problem.value),
            (": row 9: a global address", &problem.place),
            ("segment id 7", &problem.rule),
            ("different ids in translation.segment-ids", &problem.remedy),
        ] {
            assert!(of.contains(part), "{machine}: {problem}");
        }
    }
}

/// In a region that spaces share as a whole, a page outside every map is private: it has lines of its own.
#[test]
fn a_private_page_in_a_region_that_is_shared_as_a_whole_has_lines_of_its_own() {
    let outside = 3 * REGION + (20 << 12);
    let map = |trace: Trace| trace.map(3 * REGION, 8, READ | WRITE | SHARED, 7, 0);
    let trace = map(map(Trace::default().switch(1)).switch(2));
    let trace = trace.switch(1).store(3 * REGION + 64).store(outside);
    let trace = trace.switch(2).load(3 * REGION + 64).load(outside);
    let (counts, _) = trace.run_on(("jm97", "translation=off"), &[]);
    assert_eq!([of(&counts, "os.faults"), of(&counts, "l1d.load.misses")], [3, 1]);
    assert_eq!(of(&counts, "translation.synonyms"), 0);
}

/// A page that has left one region may be followed by another page in the other region.
#[test]
fn one_global_address_may_have_two_pages_one_after_the_other() {
    let own = |region: u64| region * REGION + (17 << 12);
    for machine in VIRTUAL {
        let trace = mixed_regions().switch(1).store(own(3)).unmap(own(3), 1).switch(2).store(own(6));
        let (counts, _) = trace.run_on(machine, &[IDS, DECLARED]);
        assert_eq!(of(&counts, "os.faults"), 2, "{machine:?}");
    }
}

/// A fork shares private memory until a store copies it. Then the pages differ.
#[test]
fn a_copy_on_write_in_a_declared_segment_stops_the_run() {
    let here = 3 * REGION + (16 << 12);
    let ids = "translation.segment-ids=1:0x30000000=7, 3:0x30000000=7";
    let forked = || mixed_regions().switch(1).store(here).fork(3, 1).switch(3).load(here);
    let (counts, _) = forked().run(&[ids, DECLARED]);
    assert_eq!(of(&counts, "l1d.load.misses"), 0);
    let problem = forked().store(here).outcome(&[ids, DECLARED, "translation=on"]).unwrap_err();
    assert!(problem.value.contains("0x30010000 in address space 3 and"), "{problem}");
}

/// Returns the refusal of a machine with these settings.
fn refused(machine: &str, settings: &[&str]) -> Box<binhop_base::Problem> {
    let settings: Vec<String> = settings.iter().map(ToString::to_string).collect();
    Machine::load(machine, &settings).unwrap_err()
}

#[test]
fn an_id_that_is_used_twice_must_be_declared_shared() {
    let problem = refused("softvm", &[IDS]);
    assert_eq!(
        problem.value,
        "segment id 7 of region 0x30000000 of address space 1, and of region 0x60000000 of address space 2"
    );
    assert!(problem.rule.contains("must be declared shared"), "{problem}");
    assert!(problem.remedy.contains("translation.shared-segments = \"7\""), "{problem}");
    assert!(problem.place.contains("translation.segment-ids"), "{problem}");
    // Two regions of one space are no exception.
    let problem = refused("softvm", &["translation.segment-ids=1:0x30000000=7, 1:0x60000000=7"]);
    assert!(problem.value.ends_with("and of region 0x60000000 of address space 1"), "{problem}");
    // Another id is declared.
    let ids = "translation.segment-ids=1:0x30000000=7, 2:0x60000000=7, 2:0x70000000=8";
    assert!(refused("softvm", &[ids, "translation.shared-segments=8"]).value.starts_with("segment id 7"));
}

#[test]
fn ids_that_cannot_be_are_refused() {
    for (settings, value, rule) in [
        (&["translation.segment-ids=1:0x30000000"][..], "1:0x30000000", "SPACE:ADDRESS=ID"),
        (&["translation.segment-ids=1:0x30001000=7"], "1:0x30001000=7", "a multiple of 256MiB"),
        (&["translation.segment-ids=1:0x30000000=16777216"], "=16777216", "an id below 16777216"),
        (&["translation.segment-ids=1:0x30000000=7,"], "\"\"", "SPACE:ADDRESS=ID"),
        (&["translation.segment-ids=7"], "7", "segment-ids takes SPACE:ADDRESS=ID"),
        (&["translation.shared-segments=seven"], "seven", "ids with commas between them"),
        (
            &["translation.segment-ids=1:0x30000000=256", "translation=on"],
            "segment id 256 of region 0x30000000 of address space 1",
            "room for 256 segments",
        ),
        (
            &["translation.segment-ids=1:0x30000000=7, 1:805306368=8"],
            "segment ids 7 and 8 of region 0x30000000 of address space 1",
            "a region has one segment id",
        ),
        (
            &["translation.segment-ids=1:0x30000000=7", "translation.shared-segments=7, 9"],
            "segment id 9",
            "is the id of a region",
        ),
        (
            &["translation.segment-ids=1:0x30000000=7", "placement.policy=identity"],
            "segment id 7",
            "address spaces share no memory",
        ),
    ] {
        let problem = refused("softvm", settings);
        assert!(problem.value.contains(value) && problem.rule.contains(rule), "{settings:?}: {problem}");
        assert!(!problem.remedy.is_empty() && problem.place.contains("translation."), "{problem}");
    }
    // Where no software translates, an id is limited by its bits alone.
    Machine::load("softvm", &["translation.segment-ids=1:0x30000000=256".to_string()]).unwrap();
}

#[test]
fn ids_that_nothing_needs_are_reported() {
    let tags = ["l1i", "l1d", "l2i", "l2d"].map(|cache| format!("cache.{cache}.tag=asid"));
    let note = |settings: &[&str]| {
        let settings: Vec<String> = settings.iter().map(ToString::to_string).chain(tags.clone()).collect();
        let machine = Machine::load("softvm", &settings).unwrap();
        machine.notes().iter().any(|note| note.contains("segment ids have no effect"))
    };
    assert!(note(&[IDS, DECLARED]));
    assert!(!note(&[IDS, DECLARED, "translation=on"]));
    assert!(!note(&[]));
}
