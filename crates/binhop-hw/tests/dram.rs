//! The memory controller is checked against a slow model that looks at every cycle and at every earlier command, and
//! against figures worked out by hand.
#![allow(missing_docs, clippy::unwrap_used)]

use std::collections::BTreeMap;

use binhop_hw::{
    AddressMapping, DRAM_PRESETS, Dram, DramAddress, DramCommand, DramCommandKind, DramConfig, DramCounters,
    DramListener, DramMemory, DramOrganisation, DramPreset, DramRequest, DramTiming, DramUseCounters,
    LineMemory, LineUse, PagePolicy, RowOutcome, TapClass,
};
use proptest::prelude::*;

use DramCommandKind::{Activate, Precharge, PrechargeAll, Read, Refresh, Write};

/// `Heard` keeps commands, and the cycles and outcomes of requests.
#[derive(Default)]
struct Heard {
    commands: Vec<DramCommand>,
    done: BTreeMap<u64, u64>,
    outcomes: BTreeMap<u64, RowOutcome>,
}

impl DramListener for Heard {
    fn command(&mut self, command: &DramCommand) {
        self.commands.push(*command);
    }

    fn done(&mut self, request: u64, cycle: u64, outcome: RowOutcome) {
        assert_eq!(self.done.insert(request, cycle), None, "a request is done once");
        self.outcomes.insert(request, outcome);
    }
}

fn run(config: DramConfig, requests: &[DramRequest]) -> (Dram, Heard) {
    let (mut dram, mut heard) = (Dram::new(config).unwrap(), Heard::default());
    for (number, request) in requests.iter().enumerate() {
        assert_eq!(dram.push(request, &mut heard).0, number as u64);
    }
    dram.finish(&mut heard);
    dram.go_on_until(end_of(&heard), &mut heard);
    (dram, heard)
}

/// Returns the cycle at which the last data have passed the bus.
fn end_of(heard: &Heard) -> u64 {
    heard.done.values().copied().max().unwrap_or(0)
}

/// Returns the least distance from a command to a later command of the same channel (JESD79-4, §4; see `timing.rs`).
fn distance(timing: &DramTiming, banks: u32, one: &DramCommand, other: &DramCommand) -> u64 {
    let (same_rank, same_bank) = (one.rank == other.rank, one.rank == other.rank && one.bank == other.bank);
    let same_group = same_rank && one.bank / banks == other.bank / banks;
    let DramTiming { cl, cwl, burst, turn, .. } = *timing;
    let rules = [
        (true, 1),
        (same_bank && (one.kind, other.kind) == (Activate, Activate), timing.rc),
        (same_bank && (one.kind, other.kind) == (Activate, Precharge), timing.ras),
        (same_bank && one.kind == Activate && matches!(other.kind, Read | Write), timing.rcd),
        (same_bank && (one.kind, other.kind) == (Precharge, Activate), timing.rp),
        (same_bank && (one.kind, other.kind) == (Read, Precharge), timing.rtp),
        (same_bank && (one.kind, other.kind) == (Write, Precharge), cwl + burst + timing.wr),
        (same_group && (one.kind, other.kind) == (Activate, Activate), timing.rrd_l),
        (same_group && (one.kind, other.kind) == (Read, Read), timing.ccd_l),
        (same_group && (one.kind, other.kind) == (Write, Write), timing.ccd_l_write),
        (same_group && (one.kind, other.kind) == (Write, Read), cwl + burst + timing.wtr_l),
        (same_rank && (one.kind, other.kind) == (Activate, Activate), timing.rrd_s),
        (same_rank && one.kind == other.kind && matches!(one.kind, Read | Write), timing.ccd_s),
        (same_rank && (one.kind, other.kind) == (Write, Read), cwl + burst + timing.wtr_s),
        ((one.kind, other.kind) == (Read, Write), (cl + burst + turn).saturating_sub(cwl)),
        (!same_rank && one.kind == other.kind && matches!(one.kind, Read | Write), burst + turn),
        (!same_rank && (one.kind, other.kind) == (Write, Read), (cwl + burst + turn).saturating_sub(cl)),
        // Commands to all banks of a rank.
        (same_rank && (one.kind, other.kind) == (Activate, PrechargeAll), timing.ras),
        (same_rank && (one.kind, other.kind) == (Read, PrechargeAll), timing.rtp),
        (same_rank && (one.kind, other.kind) == (Write, PrechargeAll), cwl + burst + timing.wr),
        (same_rank && one.kind == PrechargeAll && matches!(other.kind, Activate | Refresh), timing.rp),
        (same_rank && (one.kind, other.kind) == (Precharge, Refresh), timing.rp),
        (same_rank && (one.kind, other.kind) == (Activate, Refresh), timing.rc),
        (same_rank && one.kind == Refresh && matches!(other.kind, Activate | Refresh), timing.rfc),
    ];
    rules.iter().filter(|(applies, _)| *applies).map(|&(_, cycles)| cycles).max().unwrap()
}

/// Returns whether the timing allows a command behind earlier commands of its channel.
fn allowed(config: &DramConfig, history: &[DramCommand], command: &DramCommand) -> bool {
    let (timing, banks) = (&config.timing, config.organisation.banks);
    let kept = history.iter().all(|one| one.cycle + distance(timing, banks, one, command) <= command.cycle);
    let in_window = |one: &&DramCommand| {
        one.kind == Activate && one.rank == command.rank && one.cycle + timing.faw > command.cycle
    };
    kept && (command.kind != Activate || history.iter().filter(in_window).count() < 4)
}

struct SlowWaiting {
    at: DramAddress,
    line: u64,
    number: u64,
    class: u8,
    arrival: u64,
    needed: u8,
}

#[derive(Default)]
struct SlowChannel {
    queues: [Vec<SlowWaiting>; 2],
    open: BTreeMap<(u32, u32), u32>,
    due: Vec<u64>,
    drains: bool,
    history: Vec<DramCommand>,
}

/// Runs requests cycle by cycle, until the last data have passed the bus. Returns what was heard, and the counts of
/// each class.
fn run_slowly(config: &DramConfig, requests: &[DramRequest]) -> (Heard, [DramUseCounters; 4]) {
    let organisation = &config.organisation;
    let (ranks, refi) = (u64::from(organisation.ranks), config.timing.refi);
    let mut channels: Vec<SlowChannel> = (0..organisation.channels)
        .map(|_| SlowChannel {
            due: (1..=ranks).map(|rank| rank * refi / ranks).collect(),
            ..Default::default()
        })
        .collect();
    let (mut heard, mut counts, mut next) = (Heard::default(), [DramUseCounters::default(); 4], 0);
    for cycle in 0.. {
        while let Some(request) = requests.get(next).filter(|request| request.arrival <= cycle) {
            let at = config.mapping.address(request.line, organisation);
            let channel = &mut channels[at.channel as usize];
            let DramRequest { line, class, arrival, write } = *request;
            let number = next as u64;
            if !write && channel.queues[1].iter().any(|waiting| waiting.line == line) {
                counts[class as usize].forwarded += 1;
                counts[class as usize].latency += cycle + 1 - arrival;
                heard.done(number, cycle + 1, RowOutcome::Forwarded);
            } else if channel.queues[usize::from(write)].len() == config.queue as usize
                || write && channel.queues[0].iter().any(|waiting| waiting.line == line)
            {
                break;
            } else {
                let waiting = SlowWaiting { at, line, number, class, arrival, needed: 0 };
                channel.queues[usize::from(write)].push(waiting);
            }
            next += 1;
        }
        for (number, channel) in channels.iter_mut().enumerate() {
            if let Some(command) = decide(config, channel, number as u32, cycle, &mut heard, &mut counts) {
                assert!(allowed(config, &channel.history, &command));
                channel.history.push(command);
                heard.commands.push(command);
            }
        }
        if heard.done.len() == requests.len() && cycle + 1 >= end_of(&heard) {
            return (heard, counts);
        }
    }
    unreachable!("the loop has no end")
}

/// Decides on the command of a cycle, and carries it out.
fn decide(
    config: &DramConfig,
    channel: &mut SlowChannel,
    number: u32,
    cycle: u64,
    heard: &mut Heard,
    counts: &mut [DramUseCounters; 4],
) -> Option<DramCommand> {
    let bank_of = |at: &DramAddress| at.bank_group * config.organisation.banks + at.bank;
    let command = |kind, rank, bank, row| DramCommand { cycle, kind, channel: number, rank, bank, row };
    let writes = channel.queues[1].len() as u32;
    channel.drains = if channel.drains { writes > config.drain_low } else { writes >= config.drain_high };
    let going = usize::from(channel.drains || channel.queues[0].is_empty());
    for rank in 0..config.organisation.ranks {
        if cycle < channel.due[rank as usize] {
            continue;
        }
        let kind = if channel.open.keys().any(|key| key.0 == rank) { PrechargeAll } else { Refresh };
        let wanted = command(kind, rank, 0, 0);
        if allowed(config, &channel.history, &wanted) {
            match kind {
                PrechargeAll => channel.open.retain(|key, _| key.0 != rank),
                _ => channel.due[rank as usize] += config.timing.refi,
            }
            return Some(wanted);
        }
    }
    let is_due = |rank: u32| cycle >= channel.due[rank as usize];
    let key = |waiting: &SlowWaiting| (waiting.at.rank, bank_of(&waiting.at));
    let kind = if going == 0 { Read } else { Write };
    for place in 0..channel.queues[going].len() {
        let waiting = &channel.queues[going][place];
        let (rank, bank) = key(waiting);
        let wanted = command(kind, rank, bank, waiting.at.row);
        let is_open = channel.open.get(&(rank, bank)) == Some(&waiting.at.row);
        if is_open && !is_due(rank) && allowed(config, &channel.history, &wanted) {
            let waiting = channel.queues[going].remove(place);
            let count = &mut counts[waiting.class as usize];
            let latency = if going == 0 { config.timing.cl } else { config.timing.cwl };
            let end = cycle + latency + config.timing.burst;
            *[&mut count.row_hits, &mut count.row_misses, &mut count.row_conflicts]
                [waiting.needed as usize] += 1;
            if going == 0 {
                count.reads += 1;
                count.latency += end - waiting.arrival;
            } else {
                count.writes += 1;
            }
            heard.done(waiting.number, end, RowOutcome::ALL[waiting.needed as usize]);
            return Some(wanted);
        }
    }
    for place in 0..channel.queues[going].len() {
        let waiting = &channel.queues[going][place];
        let (rank, bank) = key(waiting);
        if is_due(rank) {
            continue;
        }
        let wanted = match channel.open.get(&(rank, bank)) {
            None => command(Activate, rank, bank, waiting.at.row),
            Some(&row) => {
                let wants = |other: &SlowWaiting| key(other) == (rank, bank) && other.at.row == row;
                if channel.queues[going].iter().any(wants) {
                    continue;
                }
                command(Precharge, rank, bank, 0)
            }
        };
        if allowed(config, &channel.history, &wanted) {
            let waiting = &mut channel.queues[going][place];
            if wanted.kind == Activate {
                waiting.needed = if waiting.needed == 0 { 1 } else { waiting.needed };
                channel.open.insert((rank, bank), waiting.at.row);
            } else {
                // The first command for the request decides.
                waiting.needed = if waiting.needed == 0 { 2 } else { waiting.needed };
                channel.open.remove(&(rank, bank));
            }
            return Some(wanted);
        }
    }
    if config.pages == PagePolicy::Closed {
        for (&(rank, bank), &row) in &channel.open {
            let wants = |waiting: &SlowWaiting| key(waiting) == (rank, bank) && waiting.at.row == row;
            let wanted = command(Precharge, rank, bank, 0);
            let is_wanted = channel.queues.iter().flatten().any(wants);
            if !is_wanted && !is_due(rank) && allowed(config, &channel.history, &wanted) {
                channel.open.remove(&(rank, bank));
                return Some(wanted);
            }
        }
    }
    None
}

fn config(preset: &str) -> DramConfig {
    let preset = DramPreset::of(preset).unwrap();
    DramConfig {
        organisation: preset.organisation,
        timing: preset.timing,
        mapping: AddressMapping::parse(AddressMapping::ROW_FIRST, "dram.mapping").unwrap(),
        queue: 32,
        drain_high: 24,
        drain_low: 8,
        pages: PagePolicy::Open,
    }
}

fn read(arrival: u64, line: u64) -> DramRequest {
    DramRequest { arrival, line, write: false, class: 0 }
}

/// Returns the cycles between the last data of the first and of the last request.
fn span(heard: &Heard) -> u64 {
    heard.done.values().max().unwrap() - heard.done.values().min().unwrap()
}

#[test]
fn a_row_that_is_open_closed_or_another_takes_the_time_of_its_commands() {
    for preset in DRAM_PRESETS {
        let (config, timing) = (config(preset.name), preset.timing);
        let row = u64::from(preset.organisation.lines)
            * u64::from(preset.organisation.banks_of_rank())
            * u64::from(preset.organisation.ranks);
        let (dram, heard) = run(config, &[read(0, 0), read(200, 1), read(400, row)]);
        let latency = timing.cl + timing.burst;
        assert_eq!(heard.done[&0], timing.rcd + latency, "{}: a closed bank", preset.name);
        assert_eq!(heard.done[&1], 200 + latency, "{}: an open row", preset.name);
        assert_eq!(heard.done[&2], 400 + timing.rp + timing.rcd + latency, "{}: another row", preset.name);
        let counts = dram.class(0);
        assert_eq!((counts.row_misses, counts.row_hits, counts.row_conflicts), (1, 1, 1));
        let outcomes: Vec<_> = heard.outcomes.into_values().collect();
        assert_eq!(outcomes, [RowOutcome::Miss, RowOutcome::Hit, RowOutcome::Conflict]);
        assert_eq!(counts.latency, timing.rcd + timing.rp + timing.rcd + 3 * latency);
    }
}

#[test]
fn streams_are_bound_by_bus_groups_and_activates() {
    let mut config = config("ddr4-2400");
    let timing = config.timing;
    let lines: Vec<_> = (0..100).map(|line| read(0, line)).collect();
    assert_eq!(span(&run(config, &lines).1), 99 * timing.ccd_l, "one bank group");
    config.mapping = AddressMapping::parse("row-rank-column-bank-group-channel", "dram.mapping").unwrap();
    let (dram, heard) = run(config, &lines);
    // Sixteen rows are opened first, at most four in a window. From then on the bus is busy.
    let first = *heard.done.values().min().unwrap();
    let busy = heard.done.values().filter(|&&cycle| cycle > first + 4 * timing.faw).count() as u64;
    let late = heard.done.values().filter(|&&cycle| cycle > first + 4 * timing.faw);
    assert_eq!(late.clone().max().unwrap() - late.min().unwrap(), (busy - 1) * timing.burst);
    assert_eq!(dram.counters().bus, 100 * timing.burst);
    // Each line has a row of its own, so every transfer needs an activate, and four activates take a window.
    let banks = u64::from(config.organisation.banks_of_rank());
    let rows: Vec<_> = (0..64).map(|at| read(0, at % banks + at / banks * banks * 128)).collect();
    let (_, heard) = run(config, &rows[..16]);
    let activates: Vec<u64> = heard
        .commands
        .iter()
        .filter(|command| command.kind == Activate)
        .map(|command| command.cycle)
        .collect();
    assert_eq!(activates.len(), 16);
    for (number, cycle) in activates.iter().enumerate() {
        assert_eq!(
            *cycle,
            number as u64 / 4 * timing.faw + number as u64 % 4 * timing.rrd_s,
            "activate {number}"
        );
    }
}

#[test]
fn writes_of_one_bank_group_keep_a_distance_of_their_own() {
    for preset in DRAM_PRESETS {
        let writes: Vec<_> = (0..8).map(|line| DramRequest { write: true, ..read(0, line) }).collect();
        let (_, heard) = run(config(preset.name), &writes);
        assert_eq!(span(&heard), 7 * preset.timing.ccd_l_write, "{}", preset.name);
    }
    let timing = DramPreset::of("ddr5-4800").unwrap().timing;
    assert_eq!((timing.ccd_l, timing.ccd_l_write), (12, 24), "JESD79-5: 5 ns and 10 ns");
}

#[test]
fn a_rank_is_refreshed_at_its_interval() {
    let config = config("ddr4-2400");
    let DramTiming { refi, rfc, rcd, cl, burst, .. } = config.timing;
    // The read that comes while the refresh is due finds its row closed, and waits for the refresh.
    let (dram, heard) = run(config, &[read(0, 0), read(refi, 1), read(10 * refi + 500, 2)]);
    assert_eq!(dram.counters().refreshes, 10);
    let refreshes: Vec<u64> = heard
        .commands
        .iter()
        .filter(|command| command.kind == Refresh)
        .map(|command| command.cycle)
        .collect();
    assert_eq!(refreshes[0], refi + config.timing.rp);
    assert_eq!(heard.done[&1], refreshes[0] + rfc + rcd + cl + burst);
    assert_eq!(dram.class(0).row_misses, 3);
}

#[test]
fn a_read_takes_data_from_the_queue_of_writes() {
    let write = DramRequest { write: true, class: 3, ..read(0, 7) };
    let (dram, heard) = run(config("ddr2-666"), &[read(0, 1 << 20), write, read(0, 7)]);
    assert_eq!((heard.done[&2], heard.outcomes[&2]), (1, RowOutcome::Forwarded));
    assert_eq!((dram.class(0).forwarded, dram.class(0).reads, dram.class(3).writes), (1, 1, 1));
}

#[test]
fn a_write_does_not_pass_an_older_read_of_its_line() {
    for preset in DRAM_PRESETS {
        // Writes are served first as soon as a write waits.
        let config = DramConfig { drain_high: 1, drain_low: 0, ..config(preset.name) };
        let DramTiming { rcd, cl, burst, turn, .. } = preset.timing;
        let (_, heard) = run(config, &[read(0, 7), DramRequest { write: true, ..read(0, 7) }]);
        let kinds: Vec<_> = heard.commands.iter().map(|command| command.kind).collect();
        assert_eq!(kinds, [Activate, Read, Write], "{}", preset.name);
        assert_eq!(heard.done[&0], rcd + cl + burst, "{}: the read", preset.name);
        assert_eq!(heard.done[&1], rcd + cl + burst + turn + burst, "{}: the write", preset.name);
    }
}

#[test]
fn the_last_reference_ends_with_its_read_and_the_cycles_of_its_caches() {
    let config = config("ddr2-666");
    let mut memory = DramMemory::new(config, 6).unwrap();
    memory.access(0, TapClass::CpuRead, LineUse::Demand);
    memory.pass(TapClass::CpuRead, 20);
    let DramTiming { rcd, cl, burst, .. } = config.timing;
    let data = rcd + cl + burst;
    assert_eq!(
        (memory.finish(), memory.end_of_references()),
        (data, data + 4),
        "20 cycles are 3 and a third"
    );
    // Caches serve the processor, and then a device, while memory has nothing to do.
    memory.pass(TapClass::CpuWrite, 100);
    assert_eq!((memory.finish(), memory.end_of_references()), (data, data + 20));
    memory.pass(TapClass::DmaRead, 300);
    assert_eq!((memory.finish(), memory.end_of_references()), (data, 50));
    // A posted write may be on the bus when its reference is long complete.
    let mut memory = DramMemory::new(config, 6).unwrap();
    memory.access(0, TapClass::CpuWrite, LineUse::PostedWrite);
    memory.pass(TapClass::CpuWrite, 6);
    assert_eq!((memory.finish(), memory.end_of_references()), (rcd + config.timing.cwl + burst, 1));
}

#[test]
fn what_cannot_be_built_is_refused() {
    let refused = |change: fn(&mut DramConfig), place: &str| {
        let mut config = config("ddr4-2400");
        change(&mut config);
        let problem = Dram::new(config).err().unwrap();
        assert_eq!(problem.place, place, "{problem}");
    };
    refused(|config| config.queue = 0, "dram.queue");
    refused(|config| config.drain_high = 33, "dram.drain-high, dram.drain-low");
    refused(|config| config.drain_low = 24, "dram.drain-high, dram.drain-low");
    refused(|config| config.organisation.rows = 1000, "dram.rows");
    refused(|config| config.organisation.ranks = 32, "dram.banks");
    refused(|config| config.timing.rc = 10, "dram.rc");
}

#[test]
fn each_contradiction_of_a_timing_is_refused_with_its_rule() {
    type Broken = (&'static str, fn(&mut DramTiming), &'static str);
    let broken: [Broken; 16] = [
        ("cycle-ps", |timing| timing.cycle_ps = 0, "a cycle takes time"),
        ("burst", |timing| timing.burst = 0, "a line occupies the bus"),
        ("cl", |timing| timing.cl = 0, "data come a cycle after their read"),
        ("cwl", |timing| timing.cwl = 0, "data are written a cycle after"),
        ("rcd", |timing| timing.rcd = 0, "a row is open a cycle after"),
        ("rp", |timing| timing.rp = 0, "a row is closed a cycle after"),
        ("ras", |timing| timing.ras = timing.rcd - 1, "tRAS is tRCD at least"),
        ("rc", |timing| timing.rc = timing.ras + timing.rp - 1, "tRC is tRAS + tRP at least"),
        ("rrd-l", |timing| timing.rrd_l = timing.rrd_s - 1, "tRRD_L is tRRD_S at least"),
        ("faw", |timing| timing.faw = 4 * timing.rrd_s - 1, "tFAW is 4 tRRD_S at least"),
        ("ccd-s", |timing| timing.ccd_s = timing.burst - 1, "tCCD_S is a burst at least"),
        ("ccd-l", |timing| timing.ccd_l = timing.ccd_s - 1, "tCCD_L is tCCD_S at least"),
        ("ccd-l-write", |timing| timing.ccd_l_write = timing.ccd_s - 1, "tCCD_L of writes is tCCD_S"),
        ("wtr-l", |timing| timing.wtr_l = timing.wtr_s - 1, "tWTR_L is tWTR_S at least"),
        ("rfc", |timing| timing.rfc = timing.rp - 1, "tRFC is tRP at least"),
        ("refi", |timing| timing.refi = 2 * (timing.rfc + timing.rc) - 1, "tREFI leaves as much time"),
    ];
    for preset in DRAM_PRESETS {
        for (key, change, rule) in broken {
            let mut config = config(preset.name);
            change(&mut config.timing);
            let problem = Dram::new(config).err().unwrap();
            let value = config.timing.parts().iter().find(|(name, _)| *name == key).unwrap().1;
            assert_eq!(
                (problem.value.clone(), problem.place.clone()),
                (value.to_string(), format!("dram.{key}"))
            );
            assert!(problem.rule.starts_with(rule), "{}: {problem}", preset.name);
            assert_eq!(problem.remedy.ends_with("at least, or the others smaller"), value > 0, "{problem}");
        }
    }
}

/// The remedy for a value that is too long names the unit of the value.
#[test]
fn the_remedy_of_a_value_that_is_too_long_names_its_unit() {
    let refused = |change: fn(&mut DramTiming)| {
        let mut config = config("ddr4-2400");
        change(&mut config.timing);
        Dram::new(config).err().unwrap().to_string()
    };
    let cycle = refused(|timing| timing.cycle_ps = DramTiming::MOST + 1);
    assert!(cycle.starts_with("dram.cycle-ps: 1000001: a cycle has at most 1000000 picoseconds"), "{cycle}");
    assert!(cycle.contains("in picoseconds") && !cycle.contains("data sheet"), "{cycle}");
    let distance = refused(|timing| timing.rcd = DramTiming::MOST + 1);
    assert!(distance.starts_with("dram.rcd: 1000001: a distance has at most 1000000 cycles"), "{distance}");
    assert!(distance.contains("in cycles of the memory's clock"), "{distance}");
}

fn timings() -> impl Strategy<Value = DramTiming> {
    let first = (1u64..8, 1u64..8, 1u64..5, 1u64..8, 1u64..8, 0u64..8, 0u64..8);
    let second = (0u64..8, 1u64..5, 0u64..4, 0u64..12, 0u64..3, 0u64..4);
    let third = (1u64..8, 1u64..8, 0u64..5, 0u64..5, 0u64..4, 1u64..20, 0u64..60);
    (first, second, third).prop_map(|((cl, cwl, burst, rcd, rp, ras, writes), b, c)| {
        let (rc, rrd_s, rrd_l, faw, ccd_s, ccd_l) = b;
        let (rtp, wr, wtr_s, wtr_l, turn, rfc, refi) = c;
        let ras = rcd + ras;
        let rc = ras + rp + rc;
        DramTiming {
            cycle_ps: 1000,
            cl,
            cwl,
            burst,
            rcd,
            rp,
            ras,
            rc,
            rrd_s,
            rrd_l: rrd_s + rrd_l,
            faw: 4 * rrd_s + faw,
            ccd_s: burst + ccd_s,
            ccd_l: burst + ccd_s + ccd_l,
            ccd_l_write: burst + ccd_s + writes,
            rtp,
            wr,
            wtr_s,
            wtr_l: wtr_s + wtr_l,
            turn,
            refi: 2 * (rp + rfc + rc) + refi,
            rfc: rp + rfc,
        }
    })
}

fn configs(queue: impl Strategy<Value = u32>) -> impl Strategy<Value = DramConfig> {
    let organisation = (0u32..2, 0u32..2, 0u32..2, 0u32..2).prop_map(|(channels, ranks, groups, banks)| {
        let (channels, ranks, bank_groups, banks) = (1 << channels, 1 << ranks, 1 << groups, 1 << banks);
        DramOrganisation { channels, ranks, bank_groups, banks, rows: 4, lines: 4 }
    });
    let mapping = prop::sample::select(vec![
        AddressMapping::ROW_FIRST,
        "row-column-rank-bank-group-channel",
        "channel-rank-bank-group-row-column+hash",
    ]);
    (organisation, timings(), mapping, queue, 0u32..64, 0u32..64, any::<bool>()).prop_map(
        |(organisation, timing, mapping, queue, high, low, closed)| {
            let drain_high = 1 + high % queue;
            DramConfig {
                organisation,
                timing,
                mapping: AddressMapping::parse(mapping, "").unwrap(),
                queue,
                drain_high,
                drain_low: low % drain_high,
                pages: if closed { PagePolicy::Closed } else { PagePolicy::Open },
            }
        },
    )
}

/// Returns lines of the whole memory, and a few lines that several requests share.
fn lines() -> impl Strategy<Value = u64> {
    prop_oneof![0u64..256, 0u64..8]
}

fn compare_drawn(config: DramConfig, drawn: &[(u64, u64, bool, u8)]) {
    let mut now = 0;
    let requests: Vec<_> = drawn
        .iter()
        .map(|&(wait, line, write, class)| {
            now += if wait > 6 { wait * wait } else { wait / 3 };
            DramRequest { arrival: now, line, write, class }
        })
        .collect();
    compare(config, &requests);
}

fn compare(config: DramConfig, requests: &[DramRequest]) {
    let (dram, mut fast) = run(config, requests);
    let (mut slow, counts) = run_slowly(&config, requests);
    for (older, read) in requests.iter().enumerate().filter(|(_, request)| !request.write) {
        for (younger, write) in
            requests.iter().enumerate().skip(older + 1).filter(|(_, request)| request.write)
        {
            let (older, younger) = (older as u64, younger as u64);
            let in_order = read.line != write.line || slow.done[&older] < slow.done[&younger];
            assert!(in_order, "write {younger} passed read {older} of line {}", read.line);
        }
    }
    assert_eq!(fast.done, slow.done);
    assert_eq!(fast.outcomes, slow.outcomes);
    for class in 0..4 {
        assert_eq!(*dram.class(class), counts[class as usize]);
    }
    assert_eq!(dram.counters(), counters(&config, &slow.commands));
    for heard in [&mut fast, &mut slow] {
        heard.commands.sort_by_key(|command| (command.channel, command.cycle));
    }
    assert_eq!(fast.commands, slow.commands);
}

/// Counts commands, in the order of their cycles.
fn counters(config: &DramConfig, commands: &[DramCommand]) -> DramCounters {
    let of = |kinds: &[DramCommandKind]| {
        commands.iter().filter(|command| kinds.contains(&command.kind)).count() as u64
    };
    let changes = |channel| {
        let transfers = commands.iter().filter(|command| command.channel == channel);
        let kinds: Vec<_> =
            transfers.map(|command| command.kind).filter(|kind| matches!(kind, Read | Write)).collect();
        kinds.windows(2).filter(|pair| pair[0] != pair[1]).count() as u64
    };
    DramCounters {
        activates: of(&[Activate]),
        precharges: of(&[Precharge, PrechargeAll]),
        refreshes: of(&[Refresh]),
        bus: of(&[Read, Write]) * config.timing.burst,
        turns: (0..config.organisation.channels).map(changes).sum(),
    }
}

#[test]
fn a_channel_without_requests_is_refreshed_and_closes_its_rows() {
    let mut config = config("ddr2-666");
    config.organisation.channels = 2;
    config.mapping = AddressMapping::parse("row-rank-bank-group-column-channel", "dram.mapping").unwrap();
    let DramTiming { refi, rcd, cl, burst, .. } = config.timing;
    let (dram, heard) = run(config, &[read(0, 0), read(20_000, 0)]);
    assert_eq!(heard.done[&1], 20_000 + rcd + cl + burst, "a refresh closed the row");
    // Two ranks take turns: 20,014 cycles hold 7 whole intervals, and another half.
    assert_eq!((refi, 20_014 / refi), (2_600, 7));
    assert_eq!(dram.counters().refreshes, 2 * (7 + 8));
    config.pages = PagePolicy::Closed;
    let write = DramRequest { write: true, ..read(100, 1) };
    let (dram, _) = run(config, &[write, read(500, 0)]);
    assert_eq!(
        dram.counters().precharges,
        1,
        "the row of the write is closed, but not yet the row of the read"
    );
}

#[test]
fn a_bus_turns_between_two_transfers() {
    let write = |arrival| DramRequest { write: true, ..read(arrival, 0) };
    for (requests, turns) in [
        (vec![read(0, 0)], 0),
        (vec![write(0)], 0),
        (vec![write(0), read(100, 1)], 1),
        (vec![read(0, 1), write(100), write(200), read(300, 1)], 2),
    ] {
        assert_eq!(run(config("ddr4-2400"), &requests).0.counters().turns, turns);
    }
}

/// A read waits for a row of its own, while more and more younger reads of the open row pass it. The next younger read
/// is known already when the gaps are closed that the others leave.
#[test]
fn the_known_command_is_found_anew_when_the_gaps_are_closed() {
    let config = config("ddr4-2400");
    let (ccd, line) = (config.timing.ccd_l, |column: u64| column % 128);
    let other_row = 128 * u64::from(config.organisation.banks_of_rank());
    let read = |arrival, line| DramRequest { arrival, line, write: false, class: 0 };
    let mut requests = vec![read(0, line(0)), read(0, other_row)];
    requests.extend((1..8).map(|column| read(0, line(column))));
    requests.extend((8..200).map(|column| read((column - 7) * ccd, line(column))));
    let (dram, _) = run(config, &requests);
    assert_eq!(dram.class(0).row_conflicts, 1, "only the read that waits finds another row open");
    compare(config, &requests);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn every_command_comes_at_the_first_cycle_that_the_rules_allow(
        config in configs(1u32..9),
        drawn in prop::collection::vec((0u64..12, lines(), any::<bool>(), 0u8..4), 1..60),
    ) {
        compare_drawn(config, &drawn);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// A queue keeps its requests in a ring of 64 places. A request waits while younger requests come and go, until no
    /// place is left and the gaps are closed.
    #[test]
    fn requests_overtake_each_other_in_long_queues(
        config in configs(prop::sample::select(vec![32, 64])),
        drawn in prop::collection::vec((0u64..7, lines(), prop::bool::weighted(0.3), 0u8..4), 100..250),
    ) {
        compare_drawn(config, &drawn);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10_000))]

    #[test]
    #[ignore = "long: 10,000 cases; the test above draws 300"]
    fn every_command_comes_at_the_first_cycle_in_many_cases(
        config in configs(1u32..9),
        drawn in prop::collection::vec((0u64..12, lines(), any::<bool>(), 0u8..4), 1..80),
    ) {
        compare_drawn(config, &drawn);
    }
}
