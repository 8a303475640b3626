//! These tests check joined traces.

use std::collections::BTreeMap;

use binhop_trace::event::{Event, Op};
use binhop_trace::source::{Meta, Source};
use binhop_trace::transform::Joined;
use proptest::prelude::*;

use super::world::{Mapped, worlds};
use super::{CASES, Memory, events, meta, source};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(CASES))]

    #[test]
    fn processes_of_joined_traces_stay_different(a in events(), b in events(), batch in 1..40_usize) {
        let mut joined = Joined::new(vec![source(&a, batch), source(&b, batch)]).unwrap();
        let mut events = Vec::new();
        while let Some(batch) = joined.next_batch().unwrap() {
            events.extend((0..batch.len()).map(|row| Event::of(&batch, row)));
        }
        let (first, second) = (worlds(&a), worlds(&b));
        let all = worlds(&events);
        prop_assert_eq!(&all[..first.len()], &first[..]);
        // The second trace finds its own state under other asids. Segments of files are the same.
        let rest = &all[first.len()..];
        prop_assert_eq!(rest.len(), second.len());
        let mut number: BTreeMap<u64, u64> = BTreeMap::new();
        for (joined, alone) in rest.iter().zip(&second) {
            // File ids are joined by path. These files have no path, so file 3 of the second trace is another
            // file.
            let plain = |event: Event| Event { arg0: event.arg0.filter(|_| event.op != Op::Syscall), ..event };
            prop_assert_eq!((plain(joined.0), joined.2), (plain(alone.0), alone.2));
            prop_assert_eq!(*number.entry(alone.1).or_insert(joined.1), joined.1);
            prop_assert!(first.iter().all(|found| found.1 != joined.1), "a space of the first trace");
            let named = |mapped: Option<Mapped>, meta: &Meta| {
                mapped.map(|(flags, segment, offset)| (flags, segment.map(|s| meta.segments[&s].clone()), offset))
            };
            prop_assert_eq!(named(joined.3, joined_meta(&joined_numbers(&a, &b))), named(alone.3, &meta()));
        }
    }
}

/// Returns the metadata of the joined trace.
fn joined_numbers(a: &[Event], b: &[Event]) -> Meta {
    let mut joined = Joined::new(vec![source(a, 1000), source(b, 1000)]).unwrap();
    while joined.next_batch().unwrap().is_some() {}
    joined.meta().clone()
}

fn joined_meta(meta: &Meta) -> &Meta {
    assert_eq!(meta.processes.len(), 8);
    assert_eq!(meta.segments.len(), 6, "two libraries are shared, heap and stack are not");
    meta
}

#[test]
fn a_joined_trace_names_the_systems_of_all_calls() {
    let joined = |systems: &[Option<&str>]| {
        let one = |system: &Option<&str>| -> Box<dyn Source> {
            let meta = Meta { system_calls: system.map(str::to_owned), ..meta() };
            Box::new(Memory { meta, events: vec![], at: 0, batch: 1 })
        };
        let mut joined = Joined::new(systems.iter().map(one).collect()).unwrap();
        while joined.next_batch().unwrap().is_some() {}
        joined.meta().call_system().to_owned()
    };
    assert_eq!(joined(&[None, Some(Meta::LINUX), None]), "linux-x86-64");
    assert_eq!(joined(&[Some(Meta::BSD), Some(Meta::BSD)]), "4.3bsd");
    assert_eq!(joined(&[None, Some(Meta::BSD), Some(Meta::LINUX)]), "4.3bsd + linux-x86-64");
}

/// A file of which some calls are direct has two numbers in every trace, and two in the joined trace. Files whose path
/// is unknown are different files.
#[test]
fn direct_calls_keep_a_number_of_their_own() {
    let one = |numbers: [u64; 3]| -> Box<dyn Source> {
        let [buffered, direct, unknown] = numbers;
        let path = || "/data".to_owned();
        let files = BTreeMap::from([(buffered, path()), (direct, path()), (unknown, String::new())]);
        let meta = Meta { files, direct_files: [direct].into(), ..meta() };
        let call = |file| Event { op: Op::Syscall, addr: 0, size: 0, count: 0, arg0: Some(file), arg1: None };
        Box::new(Memory { meta, events: numbers.map(call).to_vec(), at: 0, batch: 1 })
    };
    let mut joined = Joined::new(vec![one([1, 2, 3]), one([2, 1, 5])]).unwrap();
    let mut files = Vec::new();
    while let Some(batch) = joined.next_batch().unwrap() {
        let calls =
            (0..batch.len()).map(|row| Event::of(&batch, row)).filter(|event| event.op == Op::Syscall);
        files.extend(calls.filter_map(|event| event.arg0));
    }
    assert_eq!(files, [1, 2, 3, 1, 2, 5]);
    assert_eq!(joined.meta().direct_files, [2].into());
}

#[test]
fn traces_of_different_page_sizes_are_not_joined() {
    let other = Memory { meta: Meta { page_size: Some(8192), ..meta() }, events: vec![], at: 0, batch: 1 };
    let problem = Joined::new(vec![source(&[], 1), Box::new(other)]).err().unwrap();
    assert_eq!((problem.value.as_str(), problem.place.as_str()), ("4096, 8192", "page size"));
}
