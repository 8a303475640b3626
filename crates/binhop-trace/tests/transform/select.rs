//! These tests check selections.

use binhop_trace::event::{Event, Op};
use binhop_trace::transform::{self, Mode, Selection};
use proptest::prelude::*;

use super::world::{Found, worlds};
use super::{CASES, PAGE, drain, events, part, source};

/// Kinds to filter by. The filter keeps changes of state if a kind is a reference, or if no kind is given.
const KINDS: &[&[&str]] = &[&[], &["fetch"], &["data"], &["load", "syscall"], &["reference"]];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(CASES))]

    #[test]
    fn a_filter_keeps_the_rows_that_pass_and_their_state(
        all in events(), batch in 1..40_usize,
        kinds in prop::sample::select(KINDS),
        asids in prop::collection::btree_set(0..8_u64, 0..4),
        addresses in prop::option::of((0..20_u64, 1..9_u64)),
        region in prop::option::of(prop::sample::select(&["heap", "text", "lib3"][..])),
        mode in prop::option::of(prop::sample::select(&[Mode::User, Mode::Kernel][..])),
    ) {
        let selection = Selection {
            kinds: kinds.iter().map(|kind| (*kind).to_owned()).collect(),
            asids: asids.iter().copied().collect(),
            addresses: addresses.iter().map(|&(page, pages)| (page * PAGE, (page + pages) * PAGE)).collect(),
            regions: region.iter().map(|&region| region.to_owned()).collect(),
            mode,
            ..Selection::default()
        };
        let wanted = |op: Op| {
            kinds.is_empty()
                || kinds.contains(&op.name())
                || kinds.contains(&"reference") && op.is_reference()
                || kinds.contains(&"data") && op.is_reference() && op != Op::Fetch
        };
        let passes = |&(event, current, kernel, mapped): &Found| {
            let runs = asids.is_empty() || asids.contains(&current) || event.op == Op::Time;
            let last = event.addr + u64::from(event.size.max(1)) - 1;
            let segment = mapped.and_then(|(_, segment, _)| segment);
            let lies = match region {
                None => true,
                Some("heap") => segment == Some(0),
                Some("text") => matches!(segment, Some(2 | 3)),
                _ => segment == Some(3),
            };
            let reference = !event.op.is_reference()
                || lies
                    && addresses.is_none_or(|(page, pages)| event.addr < (page + pages) * PAGE && last >= page * PAGE)
                    && mode.is_none_or(|mode| (mode == Mode::Kernel) == (kernel > 0));
            wanted(event.op) && runs && reference
        };
        let filtered = part(transform::select(source(&all, batch), &selection));
        let want: Vec<Found> = worlds(&all).into_iter().filter(|found| passes(found)).collect();
        // A time event does not depend on the running process. State is not kept if no kind is a reference.
        let facts = |found: Vec<Found>| -> Vec<Found> {
            found
                .into_iter()
                .map(|found| match found.0.op {
                    Op::Time => (found.0, 0, 0, None),
                    _ => found,
                })
                .collect()
        };
        prop_assert_eq!(facts(worlds(&filtered)), facts(want));
        let foreign = |event: &&Event| {
            event.op == Op::Switch && !asids.is_empty() && !asids.contains(&event.addr)
        };
        prop_assert_eq!(filtered.iter().find(foreign), None);
    }
}

#[test]
fn a_selection_may_name_only_what_the_trace_has() {
    let refused =
        |selection: Selection| transform::select(source(&[], 1), &selection).err().unwrap().to_string();
    let text = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let message = refused(Selection { kinds: text(&["lod"]), ..Selection::default() });
    assert!(
        message.starts_with("kinds: lod: no kind of row has this name; take some of fetch, load"),
        "{message}"
    );
    let message = refused(Selection { pids: vec![7], ..Selection::default() });
    assert!(
        message.contains("the trace has 0 (pid 100, sh), 1 (pid 101, sh), 2 (pid 102, cc1)"),
        "{message}"
    );
    let message = refused(Selection { regions: text(&["libm"]), ..Selection::default() });
    assert!(message.ends_with("the trace has heap, stack, text, /lib/lib2.so, /lib/lib3.so"), "{message}");
    let message = refused(Selection { addresses: vec![(8, 8)], ..Selection::default() });
    assert!(message.contains("a range ends behind its beginning"), "{message}");
}

#[test]
fn the_error_of_an_empty_filter_names_who_makes_references() {
    let event = |op, addr| Event { op, addr, size: 4, count: 1, arg0: None, arg1: None };
    let selection = Selection { asids: vec![3], kinds: vec!["load".into()], ..Selection::default() };
    let rule = |events: &[Event]| {
        let selected = transform::select(source(events, 2), &selection).unwrap();
        drain(selected).unwrap_err().rule
    };
    let none = "no row of the trace passes this filter: ";
    let referring = [event(Op::Load, 64), event(Op::Switch, 2), event(Op::Load, 64)];
    assert_eq!(rule(&referring), format!("{none}references are made by asid 0, 2"));
    assert_eq!(rule(&[event(Op::Switch, 2)]), format!("{none}there is no reference in it"));
}

#[test]
fn commands_and_pids_select_address_spaces() {
    let event = |op, addr, size, count| Event { op, addr, size, count, arg0: None, arg1: None };
    let all = [
        event(Op::Load, 1, 1, 1),
        event(Op::Switch, 2, 0, 0),
        event(Op::Load, 2, 1, 1),
        event(Op::Switch, 3, 0, 0),
        event(Op::Load, 3, 1, 1),
    ];
    let kept = |selection: Selection| drain(transform::select(source(&all, 2), &selection).unwrap()).unwrap();
    assert_eq!(kept(Selection { commands: vec!["cc1".into()], ..Selection::default() }), &all[1..3]);
    assert_eq!(kept(Selection { pids: vec![103], ..Selection::default() }), &all[3..]);
    assert_eq!(
        kept(Selection { commands: vec!["cc1".into()], asids: vec![3], ..Selection::default() }),
        &all[1..]
    );
}

/// Returns a parent with `maps` mappings that forks `children` children. Each child loads once.
fn family(maps: u64, children: u64) -> Vec<Event> {
    let event = |op, addr, count, arg0| Event { op, addr, size: 0, count, arg0, arg1: None };
    let mut events = vec![event(Op::Switch, 1, 0, None)];
    // Every other page is mapped, because adjacent mappings might be joined.
    events.extend((0..maps).map(|at| event(Op::Map, 2 * at * PAGE, 1, Some(at))));
    for child in 2..2 + children {
        events.push(event(Op::Fork, child, 0, Some(1)));
        events.push(event(Op::Switch, child, 0, None));
        events.push(Event { size: 8, ..event(Op::Load, 0, 1, None) });
        events.push(event(Op::Switch, 1, 0, None));
    }
    events
}

#[test]
fn children_without_their_parent_are_refused_if_their_mappings_exceed_the_trace() {
    let rows_of = |events: &[Event], parent: bool| {
        let children = events.iter().filter(|event| event.op == Op::Fork).map(|event| event.addr);
        let asids = children.chain(parent.then_some(1)).collect();
        let selection = Selection { asids, ..Selection::default() };
        let mut part = transform::select(source(events, 4096), &selection).unwrap();
        let mut rows = 0;
        loop {
            match part.next_batch() {
                Ok(Some(batch)) => rows += batch.len(),
                Ok(None) => return Ok(rows),
                Err(problem) => return Err(problem.to_string()),
            }
        }
    };
    // Each child has a switch, a thousand mappings and its own rows.
    assert_eq!(rows_of(&family(1000, 200), false).unwrap(), 200 * (1 + 1000 + 2));
    let many = family(1000, 2000);
    let refused = rows_of(&many, false).unwrap_err();
    assert!(refused.contains("without asid 1"), "{refused}");
    assert!(refused.contains("keep asid 1, too, or fewer of its children"), "{refused}");
    assert_eq!(rows_of(&many, true).unwrap(), many.len());
}
