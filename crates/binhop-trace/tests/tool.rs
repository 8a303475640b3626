//! Parts of traces against an obvious model: every event replayed, one by one, with a table of pages.
#![allow(
    clippy::unwrap_used,
    reason = "a test file; the lint's own exception sees only functions marked as tests"
)]

use std::collections::BTreeMap;

use binhop_base::Result;
use binhop_trace::event::Event;
use binhop_trace::event::{EventBatch, EventBuilder, Op};
use binhop_trace::import;
use binhop_trace::input::Input;
use binhop_trace::source::{Meta, ProcessMeta, SegmentMeta, Source};
use binhop_trace::text::{self, LineFormat};
use binhop_trace::transform;
use binhop_trace::transform::{Joined, Mode, Selection, Windows};
use proptest::prelude::*;

const PAGE: u64 = 4096;

/// Events from memory, in batches of a few.
struct Memory {
    meta: Meta,
    events: Vec<Event>,
    at: usize,
    batch: usize,
}

impl Source for Memory {
    fn name(&self) -> &str {
        "memory"
    }
    fn meta(&self) -> &Meta {
        &self.meta
    }
    fn next_batch(&mut self) -> Result<Option<EventBatch>> {
        let rows = self.batch.min(self.events.len() - self.at);
        if rows == 0 {
            return Ok(None);
        }
        let mut batch = EventBuilder::default();
        for event in &self.events[self.at..self.at + rows] {
            batch.push_args(event.op, event.addr, event.size, event.count, [event.arg0, event.arg1]);
        }
        self.at += rows;
        Ok(Some(batch.finish()))
    }
}

fn source(events: &[Event], batch: usize) -> Box<dyn Source> {
    Box::new(Memory { meta: meta(), events: events.to_vec(), at: 0, batch })
}

fn meta() -> Meta {
    let mut meta = Meta { page_size: Some(PAGE), command: Some("make \"a\"".into()), ..Meta::default() };
    for asid in 0..4 {
        let command = if asid == 2 { "cc1" } else { "sh" };
        let process = ProcessMeta {
            pid: Some(100 + u64::from(asid)),
            command: Some(command.into()),
            ..ProcessMeta::default()
        };
        meta.processes.insert(asid, process);
    }
    for (segment, kind) in [(0, "heap"), (1, "stack"), (2, "text"), (3, "text")] {
        let file = (kind == "text").then(|| format!("/lib/lib{segment}.so"));
        meta.segments.insert(segment, SegmentMeta { file, kind: Some(kind.into()) });
    }
    meta
}

fn drain(mut source: Box<dyn Source>) -> Result<Vec<Event>> {
    let mut events = Vec::new();
    while let Some(batch) = source.next_batch()? {
        events.extend((0..batch.len()).map(|row| Event::of(&batch, row)));
    }
    Ok(events)
}

/// Flags, segment, offset of a page.
type Mapped = (u32, Option<u64>, Option<u64>);

/// The state of things, page by page.
#[derive(Clone, Default)]
struct World {
    current: u64,
    kernel: u32,
    pages: BTreeMap<(u64, u64), Mapped>,
}

/// An event that is no state, and what it finds: who runs, how deep in the kernel, how its first page is mapped.
type Found = (Event, u64, u32, Option<Mapped>);

impl World {
    fn step(&mut self, event: &Event) {
        let first = event.addr / PAGE;
        let pages = first..first + u64::from(event.count);
        match event.op {
            Op::Switch => self.current = event.addr,
            Op::KernelEnter => self.kernel += 1,
            Op::KernelLeave => self.kernel = self.kernel.saturating_sub(1),
            Op::Map => {
                for page in pages {
                    let offset = event.arg1.map(|offset| offset + (page - first) * PAGE);
                    self.pages.insert((self.current, page), (event.size, event.arg0, offset));
                }
            }
            Op::Unmap => pages.for_each(|page| {
                self.pages.remove(&(self.current, page));
            }),
            Op::Protect => {
                for page in pages {
                    if let Some(mapped) = self.pages.get_mut(&(self.current, page)) {
                        mapped.0 = event.size;
                    }
                }
            }
            Op::Fork | Op::Exec | Op::Exit => {
                self.pages.retain(|&(asid, _), _| asid != event.addr);
                if let (Op::Fork, Some(parent)) = (event.op, event.arg0) {
                    let copied: Vec<_> = self.pages.range((parent, 0)..(parent + 1, 0)).collect();
                    let copied: Vec<_> = copied
                        .into_iter()
                        .map(|(&(_, page), &mapped)| ((event.addr, page), mapped))
                        .collect();
                    self.pages.extend(copied);
                }
            }
            _ => {}
        }
    }

    fn found(&self, event: &Event) -> Found {
        let mapped = self.pages.get(&(self.current, event.addr / PAGE)).copied();
        (*event, self.current, self.kernel, mapped)
    }
}

/// Returns every event that is no state, with the state before it and its position: that of the last
/// reference up to it.
fn replay(events: &[Event]) -> Vec<(u64, Found)> {
    let (mut world, mut references) = (World::default(), 0_u64);
    let mut found = Vec::new();
    for event in events {
        world.step(event);
        references += event.references();
        if !event.is_state() {
            found.push((references.saturating_sub(1), world.found(event)));
        }
    }
    found
}

fn worlds(events: &[Event]) -> Vec<Found> {
    replay(events).into_iter().map(|(_, found)| found).collect()
}

/// Events that make sense in a row: a few spaces, forks of new ones, mappings of a few pages.
fn events() -> impl Strategy<Value = Vec<Event>> {
    let choice = (0..40_u8, 0..24_u64, 1..6_u32, 0..5_u64, any::<bool>());
    proptest::collection::vec(choice, 1..160).prop_map(|choices| {
        let (mut events, mut next) = (Vec::new(), 4);
        let (mut current, mut kernel) = (0, 0);
        for (what, place, count, which, flag) in choices {
            let at = place * PAGE + u64::from(what) * 40;
            let event = |op, addr, size, count| Event { op, addr, size, count, arg0: None, arg1: None };
            let made = match what {
                0..12 => event(Op::Fetch, at, count * 4, count),
                12..18 => event(Op::Load, at, 8, 1),
                18..22 => event(Op::Store, at, count, 1),
                22 => event(Op::Modify, at, 4, 1),
                23..27 => {
                    current = which;
                    Event { arg0: Some(which % 4), ..event(Op::Switch, which, 1, 0) }
                }
                27..31 => Event {
                    arg0: flag.then_some(which % 4),
                    arg1: flag.then_some(place * PAGE),
                    ..event(Op::Map, place * PAGE, (which as u32) | 1, count)
                },
                31 => event(Op::Protect, place * PAGE, which as u32, count),
                32 => event(Op::Unmap, place * PAGE, 0, count),
                33 => {
                    next += 1;
                    Event { arg0: Some(if flag { current } else { which }), ..event(Op::Fork, next, 0, 0) }
                }
                34 => event(if flag { Op::Exec } else { Op::Exit }, which, 0, 0),
                35 => {
                    kernel += 1;
                    event(Op::KernelEnter, 0, 0, count)
                }
                36 if kernel > 0 => {
                    kernel -= 1;
                    event(Op::KernelLeave, 0, 0, 0)
                }
                37 => Event { arg0: Some(3), ..event(Op::Syscall, at, 512, count) },
                38 => event(Op::Range, at, 64, 1),
                _ => event(Op::Time, place, 0, 0),
            };
            events.push(made);
        }
        events
    })
}

/// A part, or nothing where its error says that there is nothing.
fn part(made: Result<Box<dyn Source>>) -> Vec<Event> {
    match made.and_then(drain) {
        Ok(events) => events,
        Err(problem) => {
            assert_eq!(problem.remedy, "`binhop inspect` says what the trace holds");
            Vec::new()
        }
    }
}

/// Kinds to filter by; the filter keeps the world where they hold one of reference, or none is said.
const KINDS: &[&[&str]] = &[&[], &["fetch"], &["data"], &["load", "syscall"], &["reference"]];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_slice_holds_the_events_of_its_range_in_the_world_they_had(
        all in events(), batch in 1..40_usize, from in 0..80_u64, length in 1..80_u64, open in any::<bool>(),
    ) {
        let to = if open { u64::MAX } else { from + length };
        let sliced = part(transform::slice(source(&all, batch), from, (!open).then_some(to)));
        let want: Vec<Found> = replay(&all)
            .into_iter()
            .filter(|(position, _)| (from..to).contains(position))
            .map(|(_, found)| found)
            .collect();
        // A slice of state alone is a slice too, but one of nothing is an error.
        prop_assert_eq!(worlds(&sliced), want);
    }

    #[test]
    fn the_first_references_are_the_rows_before_the_one_that_would_exceed_them(
        all in events(), batch in 1..40_usize, length in 1..80_u64,
    ) {
        let mut left = length;
        let fits = |event: &&Event| {
            let fits = event.references() <= left;
            left = left.saturating_sub(event.references());
            fits
        };
        let want: Vec<Event> = all.iter().take_while(fits).copied().collect();
        prop_assert_eq!(drain(transform::head(source(&all, batch), Some(length))).unwrap(), want);
        let sliced = part(transform::slice(source(&all, batch), 0, Some(length)));
        prop_assert_eq!(worlds(&sliced), worlds(&drain(transform::head(source(&all, batch), Some(length))).unwrap()));
    }

    #[test]
    fn slices_end_to_end_hold_everything_once(all in events(), batch in 1..40_usize, cut in 1..60_u64) {
        let mut laid = worlds(&part(transform::slice(source(&all, batch), 0, Some(cut))));
        laid.extend(worlds(&part(transform::slice(source(&all, batch), cut, None))));
        prop_assert_eq!(laid, worlds(&all));
        if !worlds(&all).is_empty() {
            prop_assert_eq!(drain(transform::slice(source(&all, batch), 0, None).unwrap()).unwrap(), all);
        }
    }

    #[test]
    fn a_sample_holds_the_events_of_its_windows_in_the_world_they_had(
        all in events(), batch in 1..40_usize, every in 2..40_u64, share in 1..40_u64, seed in prop::option::of(0..9_u64),
    ) {
        let window = share.min(every);
        let sampled = part(Ok(transform::sample(source(&all, batch), Windows::new(every, window, seed).unwrap())));
        if seed.is_none() {
            let want: Vec<Found> = replay(&all)
                .into_iter()
                .filter(|(position, _)| position % every < window)
                .map(|(_, found)| found)
                .collect();
            prop_assert_eq!(worlds(&sampled), want);
        } else {
            // Drawn windows: in every stretch the events of one run of positions, no longer than the window.
            let kept = worlds(&sampled);
            let mut places: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
            let mut left = kept.iter().peekable();
            for (position, found) in replay(&all) {
                if left.peek() == Some(&&found) {
                    left.next();
                    places.entry(position / every).or_default().push(position);
                }
            }
            prop_assert!(left.next().is_none(), "kept events are events of the trace, in order");
        }
    }

    #[test]
    fn a_filter_holds_what_passes_in_the_world_it_had(
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
        // Time passes for all, whoever runs; and where no kind of reference is asked for, the world is not kept.
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

    #[test]
    fn text_is_read_back(all in events(), batch in 1..40_usize) {
        let mut written = Vec::new();
        let failed = |_: &std::io::Error| unreachable!("memory takes everything");
        text::write(&mut *source(&all, batch), LineFormat::Text, true, &mut written, &failed, &mut || Ok(())).unwrap();
        let text = String::from_utf8(written).unwrap();
        let input = Input::from_reader("text", std::io::Cursor::new(text.clone())).unwrap();
        let mut importer = (import::format("text").unwrap().open)(input).unwrap();
        let mut read = Vec::new();
        loop {
            match importer.next_batch() {
                Ok(Some(batch)) => read.extend((0..batch.len()).map(|row| Event::of(&batch, row))),
                Ok(None) => break,
                Err(problem) => {
                    prop_assert_eq!(&problem.rule, "a trace holds at least one reference");
                    return Ok(());
                }
            }
        }
        prop_assert_eq!(read, all, "{}", text);
        prop_assert_eq!(importer.meta(), &meta());
    }

    #[test]
    fn joined_traces_have_processes_of_their_own(a in events(), b in events(), batch in 1..40_usize) {
        let mut joined = Joined::new(vec![source(&a, batch), source(&b, batch)]).unwrap();
        let mut events = Vec::new();
        while let Some(batch) = joined.next_batch().unwrap() {
            events.extend((0..batch.len()).map(|row| Event::of(&batch, row)));
        }
        let (first, second) = (worlds(&a), worlds(&b));
        let all = worlds(&events);
        prop_assert_eq!(&all[..first.len()], &first[..]);
        // The second trace finds the world it had, under other numbers of spaces; segments of files are the same.
        let rest = &all[first.len()..];
        prop_assert_eq!(rest.len(), second.len());
        let mut number: BTreeMap<u64, u64> = BTreeMap::new();
        for (joined, alone) in rest.iter().zip(&second) {
            // Files' ids are joined by path, and these have none: a second trace's file 3 is another.
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

/// The joined trace's metadata.
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

/// A length or a slice splits runs of one-byte instructions, and no other runs.
#[test]
fn runs_are_split_where_their_instructions_are_known() {
    let fetch = |addr, size, count| Event { op: Op::Fetch, addr, size, count, arg0: None, arg1: None };
    let load = Event { op: Op::Load, ..fetch(0x800, 8, 1) };
    let first =
        |run: Event, length| drain(transform::head(source(&[load, run, load], 2), Some(length))).unwrap();
    let rest = |run: Event, from| {
        drain(transform::slice(source(&[load, run, load], 2), from, None).unwrap()).unwrap()
    };
    assert_eq!(first(fetch(0x100, 5, 5), 4), [load, fetch(0x100, 3, 3)]);
    assert_eq!(rest(fetch(0x100, 5, 5), 4), [fetch(0x103, 2, 2), load]);
    assert_eq!(first(fetch(0x100, 0, 5), 4), [load, fetch(0x100, 0, 3)]);
    assert_eq!(rest(fetch(0x100, 0, 5), 4), [fetch(0x100, 0, 2), load]);
    assert_eq!(first(fetch(0x100, 20, 5), 4), [load]);
    assert_eq!(rest(fetch(0x100, 20, 5), 4), [fetch(0x100, 20, 5), load]);
    assert_eq!(first(fetch(0x100, 5, 5), 6), [load, fetch(0x100, 5, 5)]);
    assert_eq!(rest(fetch(0x100, 5, 5), 6), [load]);
}

/// Events behind the last reference stay, whichever batch they are in.
#[test]
fn where_batches_end_changes_nothing_in_what_a_length_keeps() {
    let event = |op, addr| Event { op, addr, size: 1, count: 1, arg0: None, arg1: None };
    let all = [event(Op::Load, 1), event(Op::Load, 2), event(Op::Switch, 3), event(Op::Load, 4)];
    for batch in 1..5 {
        assert_eq!(
            drain(transform::head(source(&all, batch), Some(2))).unwrap(),
            all[..3],
            "batches of {batch}"
        );
    }
}

#[test]
fn what_a_selection_names_must_be_there() {
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
fn a_filter_that_nothing_passes_says_who_makes_references() {
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
fn commands_and_pids_are_looked_up() {
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

#[test]
fn traces_of_other_pages_are_not_joined() {
    let other = Memory { meta: Meta { page_size: Some(8192), ..meta() }, events: vec![], at: 0, batch: 1 };
    let problem = Joined::new(vec![source(&[], 1), Box::new(other)]).err().unwrap();
    assert_eq!((problem.value.as_str(), problem.place.as_str()), ("4096, 8192", "page size"));
}

/// A parent of so many mappings forks so many children, each of which loads once.
fn family(maps: u64, children: u64) -> Vec<Event> {
    let event = |op, addr, count, arg0| Event { op, addr, size: 0, count, arg0, arg1: None };
    let mut events = vec![event(Op::Switch, 1, 0, None)];
    // Every other page: mappings that meet might be joined.
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
fn children_without_their_parent_are_refused_where_their_mappings_exceed_the_trace() {
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
    // A switch and a thousand mappings for each child, and its own rows.
    assert_eq!(rows_of(&family(1000, 200), false).unwrap(), 200 * (1 + 1000 + 2));
    let many = family(1000, 2000);
    let refused = rows_of(&many, false).unwrap_err();
    assert!(refused.contains("without asid 1"), "{refused}");
    assert!(refused.contains("keep asid 1, too, or fewer of its children"), "{refused}");
    assert_eq!(rows_of(&many, true).unwrap(), many.len());
}
