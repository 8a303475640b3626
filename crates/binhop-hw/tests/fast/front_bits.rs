//! This test compares level 1 that continues in bits, where lanes no longer share a front, with a stepper for each lane.

use binhop_base::{Agent, Kind, LineAddr, PageId, Rng, Translation};
use binhop_hw::{Computer, CountedCaches, Front, LaneBits, MOST_LANES, Replacement, Request, Tree};

use super::{BackModel, Draw, Event, PAGE, Plain, bits::sorted, world};
use crate::common::{World, assert_counts_of_stepper, power, resize};

/// Many lanes that share a front, which replaces the least recently used line. At some event the sharing ends: from
/// there on, level 1 of each lane is a bit, and pages are flushed in some lanes only.
pub(super) fn front_bits(draw: &Draw, events: &[Event]) {
    let (ways, sets) = draw.front;
    let many_ways = draw.virtually;
    let draw = Draw { virtually: false, front: (ways, sets.min(PAGE / 16)), ..draw.clone() };
    let line = power(draw.behind[0].0.max(32));
    let asked = draw.level(2, |cache| {
        let sets = cache.sets();
        cache.line = line;
        resize(cache, cache.ways, sets);
    });
    let mut config = draw.tree(&[asked]).config().clone();
    let data = config.data;
    for (number, cache) in config.caches[..=data].iter_mut().enumerate() {
        cache.replacement = Replacement::Lru;
        if many_ways {
            let ways = if number < data { 8 } else { 9 + events.len() as u32 % 8 };
            resize(cache, ways, cache.sets().min(4));
        }
    }
    let tree = Tree::new(config);
    let lanes = if events.len().is_multiple_of(16) { MOST_LANES } else { 1 + events.len() % 5 };
    let mut worlds: Vec<World> = (0..lanes as u64).map(world).collect();
    let mut steppers: Vec<Computer> =
        (0..lanes as u64).map(|lane| Computer::new(&tree, Rng::new(lane))).collect();
    let mut others: Vec<Plain> =
        (0..lanes as u64).map(|lane| Plain::new(std::slice::from_ref(&tree), lane, None)).collect();
    let mut front = Front::new(&tree, Rng::new(0));
    let mut bits: Option<LaneBits> = None;
    let mut rows: Vec<(Kind, LineAddr)> = Vec::new();
    for (at, &event) in events.iter().chain(&[Event::Replay]).enumerate() {
        if let Event::Access(kind, page, offset) = event {
            let cache = if kind == Kind::Fetch { tree.config().fetch } else { data };
            let line = (offset / tree.config().caches[cache].line.bytes()) as u32;
            rows.push((kind, LineAddr { id: page, line }));
            continue;
        }
        for (stepper, world) in steppers.iter_mut().zip(&worlds) {
            for &(kind, at) in &rows {
                stepper.access(Agent::User, kind, at, world, &mut ());
            }
        }
        let mut passed: Vec<Request> = Vec::new();
        match &mut bits {
            Some(bits) => bits.access_all(&rows, PageId),
            None => assert_eq!(front.access_all(&rows, &worlds[0], &mut passed), 0),
        }
        rows.clear();
        for (lane, (other, world)) in others.iter_mut().zip(&worlds).enumerate() {
            match &mut bits {
                Some(bits) => other.replay(&std::mem::take(bits.requests(lane)), world),
                None => other.replay(&passed, world),
            }
        }
        if bits.is_none() && at >= events.len() / 3 {
            bits = Some(front.in_bits(&[&tree], lanes));
        }
        let Some(bits) = &mut bits else { continue };
        if let Event::FlushPage(page) = event {
            for (lane, world) in
                worlds.iter_mut().enumerate().filter(|(lane, _)| !(lane + page as usize).is_multiple_of(3))
            {
                let (mappings, page_id) = (world.mappings_of(page), PageId(page));
                steppers[lane].flush_page(Agent::User, page_id, &mappings, world, &mut ());
                bits.flush_page(lane, page_id);
                others[lane].replay(&std::mem::take(bits.requests(lane)), world);
                others[lane].flush_page(page_id, world);
                world.frames[page as usize] += 1000 + lane as u64;
                bits.put(lane, page_id, world.frame(page_id));
            }
        }
        let fronts = bits.fronts();
        for (lane, (other, stepper)) in others.iter().zip(&steppers).enumerate() {
            for cache in (0..tree.config().caches.len()).filter(|&cache| tree.in_front(cache)) {
                assert_counts_of_stepper(fronts[lane].counters(cache), stepper.counters(cache));
                let held = sorted(&mut stepper.contents(cache).into_iter().flatten().flatten());
                assert_eq!(sorted(&mut bits.front_contents(lane, cache).into_iter()), held);
                let dirty = held.iter().filter(|(_, _, dirty)| *dirty).count() as u64;
                assert_eq!(fronts[lane].resident(cache), (held.len() as u64, dirty));
            }
            other.assert_equal(0, &tree, stepper, 0);
        }
    }
}
