//! The rules of counting of Valgrind's cachegrind: what to compare with what it reports.
//!
//! Counting rules
//!
//! *Caches.* One for instructions and one for data, and one behind both; least recently used leaves; the set
//! is the low bits of the line's number; a store is looked up, and brings its line in, as a load does. No line is ever
//! dirty: nothing is written back and nothing passed down.
//!
//! *Access.* A reference is one access, and touches one line or, if it straddles, two. Both are looked up and
//! brought in, the lower first; the access is one miss if either was absent. It is a compulsory miss if either
//! had never been asked for.
//!
//! *The level behind* is asked once for each miss, with the whole reference: it touches every line of its own that
//! the reference touches, also the one that level 1 held. What it misses is one access to memory.
//!
//! *Sizes.* No reference is longer than the smallest line of the three caches: one that is (a helper's that
//! saves all of a processor's state) counts as if it ended there. A modify is one load of its bytes, and no
//! store. Whoever makes rows of references sees to both.
//!
//! Fills and evictions are those of lines, so that a miss may be two of them. Source: the facts that
//! `valgrind --tool=cachegrind` shows (version 3.19): its counts of known streams, and its manual, "Cache
//! Simulation Specifics".

use binhop_base::{Agents, Kind, LineAddr, Translation};

use crate::{
    Access, Back, Front, IndexBy, Next, Replacement, TagBy, TreeConfig, WritePolicy,
    cache::{Cache, Place, note_repeat},
    fast::chain::is_first,
    flow::cache,
    lines::Word,
};

/// Panics unless these are two caches that the processor asks, and one behind both, as the rules want them.
pub(crate) fn assert_sound(config: &TreeConfig) {
    let (fetch, data) = (&config.caches[config.fetch], &config.caches[config.data]);
    let apart = config.fetch != config.data && config.caches.len() == 3;
    let Next::Cache(last) = fetch.next else { panic!("cachegrind's rules: a level stands behind the first") };
    let one_behind = fetch.next == data.next && config.caches[last].next == Next::Memory;
    assert!(apart && one_behind, "cachegrind's rules: two caches of the first level, one behind both");
    assert!(config.agents == Agents::USER, "cachegrind's rules: the program alone makes accesses");
    for cache in &config.caches {
        let name = &cache.name;
        assert!(cache.write == WritePolicy::Back && cache.allocate, "{name}: a store brings its line in");
        assert!(!cache.inclusive && !cache.hashed, "{name}: neither inclusive nor hashed");
        assert!(cache.replacement == Replacement::Lru, "{name}: LRU");
        assert!(
            cache.index == IndexBy::Physical && cache.tag == TagBy::Physical,
            "{name}: one kind of address"
        );
    }
}

impl Front {
    /// The processor makes the references of `rows` under cachegrind's rules: one row, or two where it straddles
    /// two lines. Returns the cycles it waits for all.
    ///
    /// # Panics
    /// The last row says that its reference goes on; the trees of front and back are not one that the rules want.
    #[must_use = "the processor waits so many cycles"]
    pub fn refer_all<A: Access, T: Translation>(
        &mut self,
        back: &mut Back,
        rows: &[A],
        translation: &T,
    ) -> u64 {
        back.waiting(|back| {
            let mut rows = rows.iter();
            while let Some(&row) = rows.next() {
                let rest =
                    row.goes_on().then(|| rows.next().expect("a reference's rows stand together").at());
                self.refer(back, row.kind(), row.at(), rest, translation);
            }
        })
    }

    fn refer<T: Translation>(
        &mut self,
        back: &mut Back,
        kind: Kind,
        at: LineAddr,
        rest: Option<LineAddr>,
        translation: &T,
    ) {
        let asked = cache(&mut self.caches.caches, self.serving[usize::from(kind != Kind::Fetch)]);
        let place = |at| asked.place_of_mapping(at, translation);
        let (first, rest) = (place(at), rest.map(place));
        if !look_up(asked, kind, first, rest) {
            return;
        }
        // The line behind covers the line here; two neighbours here may be one there.
        let first = asked.name_behind(first.key, translation);
        let rest = rest.map(|rest| asked.name_behind(rest.key, translation)).filter(|rest| *rest != first);
        let (last, memory) = back.only();
        let place = |at| last.place_of_request(at, translation);
        let (first, rest) = (place(first), rest.map(place));
        if look_up(last, kind, first, rest) {
            memory.accesses[kind] += 1;
        }
    }
}

/// One access of a reference that touches these lines; whether it misses.
#[inline(always)]
fn look_up(cache: &mut Cache, kind: Kind, first: Place, rest: Option<Place>) -> bool {
    cache.counters.accesses[kind] += 1;
    let mut absent = None;
    let mut new = false;
    for place in [Some(first), rest].into_iter().flatten() {
        if cache.lines.touch_hot(place.set, place.key, false).is_none() {
            new |= bring_in(cache, place);
            absent = absent.or(Some(place.key));
        }
    }
    let Some(key) = absent else { return false };
    cache.counters.misses[kind] += 1;
    cache.counters.sent[kind] += 1;
    cache.counters.compulsory[kind] += u64::from(new);
    if !new {
        let page = cache.line_of(key).id;
        note_repeat(&mut cache.repeats, page.into());
    }
    true
}

/// Brings a line in; whether it comes for the first time ever.
fn bring_in(cache: &mut Cache, place: Place) -> bool {
    cache.counters.fills += 1;
    if cache.lines.put(place.set, Word::new(place.key, false)).is_some() {
        cache.counters.evictions += 1;
    }
    is_first(&mut cache.touched, place.key)
}
