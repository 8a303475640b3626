//! These tests check slices, lengths and samples.

use std::collections::BTreeMap;

use binhop_trace::event::{Event, Op};
use binhop_trace::transform::{self, Windows};
use proptest::prelude::*;

use super::world::{Found, replay, worlds};
use super::{CASES, drain, events, part, source};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(CASES))]

    #[test]
    fn a_slice_holds_the_events_of_its_range_and_their_state(
        all in events(), batch in 1..40_usize, from in 0..80_u64, length in 1..80_u64, open in any::<bool>(),
    ) {
        let to = if open { u64::MAX } else { from + length };
        let sliced = part(transform::slice(source(&all, batch), from, (!open).then_some(to)));
        let want: Vec<Found> = replay(&all)
            .into_iter()
            .filter(|(position, _)| (from..to).contains(position))
            .map(|(_, found)| found)
            .collect();
        // A slice may hold changes of state alone. An empty slice is an error.
        prop_assert_eq!(worlds(&sliced), want);
    }

    #[test]
    fn a_length_keeps_the_rows_before_the_row_that_would_exceed_it(
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
    fn consecutive_slices_hold_every_row_once(all in events(), batch in 1..40_usize, cut in 1..60_u64) {
        let mut laid = worlds(&part(transform::slice(source(&all, batch), 0, Some(cut))));
        laid.extend(worlds(&part(transform::slice(source(&all, batch), cut, None))));
        prop_assert_eq!(laid, worlds(&all));
        if !worlds(&all).is_empty() {
            prop_assert_eq!(drain(transform::slice(source(&all, batch), 0, None).unwrap()).unwrap(), all);
        }
    }

    #[test]
    fn a_sample_holds_the_events_of_its_windows_and_their_state(
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
            // A drawn window holds the events of consecutive positions in its period, and is no longer than
            // asked.
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
}

/// A length or a slice splits runs of one-byte instructions, and no other runs.
#[test]
fn runs_are_split_if_their_instructions_are_known() {
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

/// Events behind the last reference are kept, whichever batch holds them.
#[test]
fn a_length_keeps_the_same_rows_however_batches_are_cut() {
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
