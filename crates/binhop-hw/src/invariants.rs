//! `check` checks the invariants that hold after every run. Sender and receiver count apart from each other, and
//! resident lines are counted by looking at them, so that an invariant can fail.

use binhop_base::{Agent, Kind, PerKind, Problem, Result};

use crate::{AgentCounters, CacheCounters, Counted, CountedCaches, Next, Tree};

/// Checks the invariants of a front, and of a back that has handled every request of the front.
///
/// # Errors
/// An invariant does not hold: the problem names the cache and the invariant.
pub fn check(tree: &Tree, front: &impl CountedCaches, back: &impl Counted) -> Result<()> {
    let config = tree.config();
    let counters = |cache| if tree.in_front(cache) { front.counters(cache) } else { back.counters(cache) };
    let by_agent = |cache| if tree.in_front(cache) { front.by_agent(cache) } else { back.by_agent(cache) };
    for (number, cache) in config.caches.iter().enumerate() {
        let (resident, dirty) =
            if tree.in_front(number) { front.resident(number) } else { back.resident(number) };
        check_lines(&cache.name, counters(number), by_agent(number), resident, dirty)?;
    }
    for (number, cache) in config.caches.iter().enumerate() {
        let senders = || (0..config.caches.len()).filter(|&s| config.caches[s].next == Next::Cache(number));
        let mut sent = senders().map(|s| without_system(counters(s).sent)).fold(PerKind::default(), add);
        let mut received = counters(number).accesses;
        if number == config.fetch || number == config.data {
            // The processor sends the user's own accesses, and counts nothing.
            for kind in [Kind::Fetch, Kind::Load, Kind::Store] {
                (sent[kind], received[kind]) = (0, 0);
            }
        }
        check_sent(&cache.name, Agent::User, sent, received)?;
        for (place, agent) in config.agents.others().enumerate() {
            let own = &by_agent(number)[place];
            let sent = senders().map(|s| without_system(by_agent(s)[place].sent)).fold(own.asked, add);
            check_sent(&cache.name, agent, sent, own.accesses)?;
        }
    }
    let to_memory = |cache: usize, sent| match config.caches[cache].next {
        Next::Memory => sent,
        Next::Cache(_) => only_system(sent),
    };
    let all = || 0..config.caches.len();
    let sent = all().map(|s| to_memory(s, counters(s).sent)).fold(PerKind::default(), add);
    check_sent("memory", Agent::User, sent, back.memory().accesses)?;
    for (place, agent) in config.agents.others().enumerate() {
        let own = &back.memory_by_agent()[place];
        let sent = all().map(|s| to_memory(s, by_agent(s)[place].sent)).fold(own.asked, add);
        check_sent("memory", agent, sent, own.accesses)?;
    }
    Ok(())
}

fn check_lines(
    name: &str,
    counters: &CacheCounters,
    by_agent: &[AgentCounters],
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
    let cleaned: u64 = by_agent.iter().map(|a| a.cleaned).sum();
    equal(
        name,
        "lines made dirty = written back + invalidated dirty + purged dirty + cleaned + resident dirty",
        c.dirtied,
        &[c.evictions_dirty, c.invalidated_dirty, c.purged_dirty, cleaned, dirty],
    )?;
    let written: u64 = by_agent.iter().map(|a| a.sent[Kind::System]).sum();
    let discarded: u64 = by_agent.iter().map(|a| a.discarded).sum();
    equal(
        name,
        "dirty lines purged + cleaned = lines the system wrote out + discarded",
        c.purged_dirty + cleaned,
        &[c.sent[Kind::System], written, discarded],
    )?;
    let of_agents = by_agent.iter().map(|a| (a.accesses, a.misses, a.compulsory));
    for (accesses, misses, compulsory) in [(c.accesses, c.misses, c.compulsory)].into_iter().chain(of_agents)
    {
        for &kind in Kind::ALL {
            at_most(name, kind, "misses ≤ accesses", misses[kind], accesses[kind])?;
            at_most(name, kind, "compulsory misses ≤ misses", compulsory[kind], misses[kind])?;
        }
    }
    Ok(())
}

fn check_sent(name: &str, agent: Agent, sent: PerKind<u64>, received: PerKind<u64>) -> Result<()> {
    for &kind in Kind::ALL {
        if sent[kind] != received[kind] {
            let invariant = "accesses = requests sent by the levels above + made here by agents";
            let what = format!("{}{}", prefix(agent), kind.name());
            return Err(broken(name, &what, invariant, received[kind], sent[kind]));
        }
    }
    Ok(())
}

/// Returns the prefix of a kind's name in a message about an agent.
fn prefix(agent: Agent) -> String {
    if agent == Agent::User { String::new() } else { format!("{} ", agent.name()) }
}

fn equal(name: &str, invariant: &str, left: u64, right: &[u64]) -> Result<()> {
    let sum = right.iter().sum();
    if left == sum { Ok(()) } else { Err(broken(name, "lines", invariant, left, sum)) }
}

fn at_most(name: &str, kind: Kind, invariant: &str, left: u64, right: u64) -> Result<()> {
    if left <= right { Ok(()) } else { Err(broken(name, kind.name(), invariant, left, right)) }
}

fn broken(name: &str, what: &str, invariant: &str, left: u64, right: u64) -> Box<Problem> {
    Problem::run(
        &format!("{left} against {right}"),
        &format!("{name}, {what}"),
        invariant,
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
    fn each_invariant_about_lines_can_fail_and_names_the_cache() {
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
        check_lines("l1", &sound, &[], 3, 1).unwrap();

        let breaks = |change: fn(&mut CacheCounters), invariant: &str| {
            let mut counters = sound;
            change(&mut counters);
            let problem = check_lines("l1", &counters, &[], 3, 1).unwrap_err();
            assert!(problem.rule.contains(invariant) && problem.place.contains("l1"), "{problem}");
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
    fn every_request_that_is_sent_must_arrive() {
        let mut sent = PerKind::default();
        sent[Kind::Writeback] = 2;
        check_sent("l2", Agent::User, sent, sent).unwrap();
        let problem = check_sent("l2", Agent::User, sent, PerKind::default()).unwrap_err();
        assert_eq!(problem.place, "l2, writeback");
        assert_eq!(problem.value, "0 against 2");
    }
}
