//! This file counts as Valgrind's cachegrind does, so that counts can be compared with cachegrind's report.
//!
//! Counting rules
//!
//! *Caches.* There are two caches of the first level, for instructions and for data, and one cache behind both. The
//! least recently used line leaves. The set is the low bits of the line's number. A store is looked up, and brings
//! its line in, as a load does. No line is ever dirty: nothing is written back and nothing is passed down.
//!
//! *Access.* A reference is one access. It touches one line or, if it straddles, two lines. Both lines are looked up
//! and brought in, the lower line first. The access is one miss if either line was absent, and a compulsory miss if
//! either line had never been asked for.
//!
//! *The level behind* is asked once for each miss, with the whole reference. It looks up every line of its own that the
//! reference touches, also a line that level 1 held. Its miss is one access to memory.
//!
//! *Sizes.* No reference is longer than the smallest line of the three caches. A longer reference, such as that of a
//! helper that saves all of a processor's state, is cut to the length of this line. A modify is one load of its bytes,
//! and no store. The caller that makes rows of references applies both rules.
//!
//! Fills and evictions count lines, so that one miss may be two fills. Source: the counts that
//! `valgrind --tool=cachegrind` (version 3.19) reports for known streams, and its manual, "Cache Simulation
//! Specifics".

use binhop_base::{Kind, LineAddr, Translation};

use super::{Cache, Place, is_first, lines::Word, note_repeat, stage::Caches};
use crate::{Access, CacheCounters, MemoryCounters};

/// Makes the references of `rows`. A reference is one row, or two rows if it straddles two lines. `serving` are the
/// caches of the first level for instructions and for data, `last` is the cache behind both.
///
/// # Panics
/// The last row says that its reference goes on.
pub(crate) fn refer_all<A: Access, T: Translation>(
    first: &mut Caches,
    serving: [usize; 2],
    (last, memory): (&mut Cache, &mut MemoryCounters),
    rows: &[A],
    translation: &T,
) {
    let mut rows = rows.iter();
    while let Some(&row) = rows.next() {
        let rest = row.goes_on().then(|| rows.next().expect("a reference's rows stand together").at());
        let asked = first.get_mut(serving[usize::from(row.kind() != Kind::Fetch)]);
        refer(asked, last, memory, row.kind(), (row.at(), rest), translation);
    }
}

fn refer<T: Translation>(
    asked: &mut Cache,
    last: &mut Cache,
    memory: &mut MemoryCounters,
    kind: Kind,
    (at, rest): (LineAddr, Option<LineAddr>),
    translation: &T,
) {
    let place = |at| asked.place_of_mapping(at, translation);
    let (first, rest) = (place(at), rest.map(place));
    if !look_up(asked, kind, first, rest) {
        return;
    }
    // A line of the last level covers the line of level 1, and may cover two neighbours.
    let first = asked.name_behind(first.key, translation);
    let rest = rest.map(|rest| asked.name_behind(rest.key, translation)).filter(|rest| *rest != first);
    let place = |at| last.place_of_request(at, translation);
    let (first, rest) = (place(first), rest.map(place));
    if look_up(last, kind, first, rest) {
        let MemoryCounters { accesses } = memory;
        accesses[kind] += 1;
    }
}

/// Makes one access of a reference that touches these lines. Returns whether the access misses.
#[inline(always)]
fn look_up(cache: &mut Cache, kind: Kind, first: Place, rest: Option<Place>) -> bool {
    let names = cache.names();
    let Cache { lines, counts_compulsory, touched, repeats, counters, .. } = cache;
    let CacheCounters {
        accesses,
        misses,
        compulsory,
        sent,
        fills,
        evictions,
        // No line is ever dirty.
        evictions_dirty: _,
        invalidated_dirty: _,
        purged_dirty: _,
        dirtied: _,
        // No cache is inclusive, and pages keep their frames.
        invalidated: _,
        purged: _,
        // There is no write buffer.
        merges: _,
        // Nothing is prefetched.
        stream_hits: _,
        stalls: _,
        stall_cycles: _,
    } = counters;
    accesses[kind] += 1;
    let mut absent = None;
    let mut new = false;
    for place in [Some(first), rest].into_iter().flatten() {
        if lines.touch_hot(place.set, place.key, false).is_none() {
            *fills += 1;
            *evictions += u64::from(lines.put(place.set, Word::new(place.key, false)).is_some());
            new |= *counts_compulsory && is_first(touched, place.key);
            absent = absent.or(Some(place.key));
        }
    }
    let Some(key) = absent else { return false };
    misses[kind] += 1;
    sent[kind] += 1;
    compulsory[kind] += u64::from(new);
    if !new {
        note_repeat(repeats, names.line_of(key).id.into());
    }
    true
}
