//! The laws that hold after every run, whatever ran. Sender and receiver count apart from each other, and
//! resident lines are counted by looking, so that a law can fail.

use binhop_base::{Kind, PerKind, Problem, Result};

use crate::{CacheCounters, Front, MemoryCounters, Next, Outside, Tree};

/// What a back tells of itself: counts since the start.
pub trait Counted {
    /// What a cache of the back has counted.
    ///
    /// # Panics
    /// The cache belongs to the front.
    fn counters(&self, cache: usize) -> &CacheCounters;
    /// What was done to a cache of the back from outside the tree.
    ///
    /// # Panics
    /// The cache belongs to the front.
    fn outside(&self, cache: usize) -> Outside;
    /// How many lines a cache of the back holds, and how many of them are dirty: looked at, not counted along.
    ///
    /// # Panics
    /// The cache belongs to the front.
    fn resident(&self, cache: usize) -> (u64, u64);
    /// What memory has counted.
    fn memory(&self) -> &MemoryCounters;
}

/// Checks a front and a back that has seen everything the front sent.
///
/// # Errors
/// A law does not hold: the run is wrong, and says which cache and which law.
pub fn check(tree: &Tree, front: &Front, back: &impl Counted) -> Result<()> {
    let config = tree.config();
    let counters = |cache| if tree.in_front(cache) { front.counters(cache) } else { back.counters(cache) };
    let outside = |cache| if tree.in_front(cache) { front.outside(cache) } else { back.outside(cache) };
    for (number, cache) in config.caches.iter().enumerate() {
        let (resident, dirty) =
            if tree.in_front(number) { front.resident(number) } else { back.resident(number) };
        check_lines(&cache.name, counters(number), outside(number).discarded, resident, dirty)?;
    }
    for (number, cache) in config.caches.iter().enumerate() {
        let senders = (0..config.caches.len()).filter(|&s| config.caches[s].next == Next::Cache(number));
        let asked = outside(number).asked;
        let mut sent = senders.map(|s| without_system(counters(s).sent)).fold(asked, add);
        let mut received = counters(number).accesses;
        if number == config.fetch || number == config.data {
            // The processor's own accesses have no sender that counts.
            for kind in [Kind::Fetch, Kind::Load, Kind::Store] {
                (sent[kind], received[kind]) = (0, 0);
            }
        }
        check_sent(&cache.name, sent, received)?;
    }
    let all = 0..config.caches.len();
    let sent = all
        .map(|s| match config.caches[s].next {
            Next::Memory => counters(s).sent,
            Next::Cache(_) => only_system(counters(s).sent),
        })
        .fold(PerKind::default(), add);
    check_sent("memory", sent, back.memory().accesses)
}

fn check_lines(
    name: &str,
    counters: &CacheCounters,
    discarded: u64,
    resident: u64,
    dirty: u64,
) -> Result<()> {
    let c = counters;
    equal(
        name,
        "fills = evictions + invalidated + purged + resident",
        c.fills,
        &[c.evictions, c.invalidated, c.purged, resident],
    )?;
    equal(
        name,
        "lines made dirty = written back + invalidated dirty + purged dirty + resident dirty",
        c.dirtied,
        &[c.evictions_dirty, c.invalidated_dirty, c.purged_dirty, dirty],
    )?;
    equal(
        name,
        "dirty lines purged = lines the system wrote out + discarded",
        c.purged_dirty,
        &[c.sent[Kind::System], discarded],
    )?;
    for &kind in Kind::ALL {
        at_most(name, kind, "misses ≤ accesses", c.misses[kind], c.accesses[kind])?;
        at_most(name, kind, "compulsory misses ≤ misses", c.compulsory[kind], c.misses[kind])?;
    }
    Ok(())
}

fn check_sent(name: &str, sent: PerKind<u64>, received: PerKind<u64>) -> Result<()> {
    for &kind in Kind::ALL {
        if sent[kind] != received[kind] {
            let law = "accesses = requests sent by the levels above + made here by agents";
            return Err(broken(name, kind.name(), law, received[kind], sent[kind]));
        }
    }
    Ok(())
}

fn equal(name: &str, law: &str, left: u64, right: &[u64]) -> Result<()> {
    let sum = right.iter().sum();
    if left == sum { Ok(()) } else { Err(broken(name, "lines", law, left, sum)) }
}

fn at_most(name: &str, kind: Kind, law: &str, left: u64, right: u64) -> Result<()> {
    if left <= right { Ok(()) } else { Err(broken(name, kind.name(), law, left, right)) }
}

fn broken(name: &str, what: &str, law: &str, left: u64, right: u64) -> Box<Problem> {
    Problem::run(
        &format!("{left} against {right}"),
        &format!("{name}, {what}"),
        law,
        "this is a defect of binhop: please report it with the machine and the trace",
    )
}

fn add(mut sum: PerKind<u64>, more: PerKind<u64>) -> PerKind<u64> {
    sum += more;
    sum
}

fn without_system(mut sent: PerKind<u64>) -> PerKind<u64> {
    sent[Kind::System] = 0;
    sent
}

fn only_system(sent: PerKind<u64>) -> PerKind<u64> {
    let mut only = PerKind::default();
    only[Kind::System] = sent[Kind::System];
    only
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_law_about_lines_can_fail_and_names_the_cache() {
        let mut sound = CacheCounters {
            fills: 10,
            evictions: 4,
            evictions_dirty: 2,
            invalidated: 1,
            purged: 2,
            purged_dirty: 1,
            dirtied: 4,
            ..CacheCounters::default()
        };
        sound.sent[Kind::System] = 1;
        sound.accesses[Kind::Load] = 9;
        sound.misses[Kind::Load] = 8;
        sound.compulsory[Kind::Load] = 7;
        check_lines("l1", &sound, 0, 3, 1).unwrap();

        let breaks = |change: fn(&mut CacheCounters), law: &str| {
            let mut counters = sound;
            change(&mut counters);
            let problem = check_lines("l1", &counters, 0, 3, 1).unwrap_err();
            assert!(problem.rule.contains(law) && problem.place.contains("l1"), "{problem}");
        };
        breaks(|c| c.fills += 1, "fills");
        breaks(|c| c.evictions -= 1, "fills");
        breaks(|c| c.dirtied += 1, "made dirty");
        breaks(|c| c.evictions_dirty += 1, "made dirty");
        breaks(|c| c.sent[Kind::System] = 0, "system");
        breaks(|c| c.misses[Kind::Load] = 10, "misses ≤ accesses");
        breaks(|c| c.compulsory[Kind::Load] = 9, "compulsory");
    }

    #[test]
    fn what_is_sent_must_arrive() {
        let mut sent = PerKind::default();
        sent[Kind::Writeback] = 2;
        check_sent("l2", sent, sent).unwrap();
        let problem = check_sent("l2", sent, PerKind::default()).unwrap_err();
        assert_eq!(problem.place, "l2, writeback");
        assert_eq!(problem.value, "0 against 2");
    }
}
