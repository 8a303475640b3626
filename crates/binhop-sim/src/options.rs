//! A plan: the caller's settings of a run, besides machines and trace.

use std::borrow::Cow;

use binhop_base::{Problem, Result};
use binhop_hw::{FastPath, FastPathSet, Rules};

use crate::machine::Machine;
use crate::memory_limit::MemoryLimit;
use crate::occasion::Subscription;
use crate::prepare::Cuts;
use crate::unit::Units;

/// `RunOptions` is everything that a run is told besides machines and trace.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// The name under which results show the trace.
    pub workload: String,
    /// One placement for each.
    pub seeds: Vec<u64>,
    /// 1: everything on the calling thread.
    pub threads: usize,
    /// References to simulate, as [`binhop_trace::tool::head`] keeps them; the whole trace if absent.
    pub length: Option<u64>,
    /// Instructions to simulate; the whole trace if absent. With `length` too, what ends first.
    pub instructions: Option<u64>,
    /// References simulated before the measured part.
    pub warmup: u64,
    /// Instructions in an interval of the series; no series if absent.
    pub interval: Option<u64>,
    /// Keep every placement in order ([`Outcome::placements`](crate::Outcome)).
    pub log: bool,
    /// The cache whose repeated misses are counted by page ([`Outcome::pages`](crate::Outcome)).
    pub watch: Option<String>,
    /// Keep what reaches memory: for [`memory_stream`](crate::memory_stream), which takes it.
    pub tap: bool,
    /// The units that act between the references of the stream, if there are any: one in each lane.
    pub units: Option<Units>,
    /// The memory that the run may take. Seeds that do not fit at once are simulated in rounds, each of which
    /// reads the trace anew; `None`: all at once.
    pub memory: Option<MemoryLimit>,
    /// Share stages among seeds and machines, drop sure hits and take fast paths, where that is exact. `false` only to
    /// show that it is.
    pub share: bool,
    /// Fast paths that are not taken, though they might be: only to show that each is exact.
    pub without: FastPathSet,
}

impl Default for RunOptions {
    fn default() -> Self {
        Self {
            workload: "trace".to_string(),
            seeds: vec![0],
            threads: 1,
            length: None,
            instructions: None,
            warmup: 0,
            interval: None,
            log: false,
            watch: None,
            tap: false,
            units: None,
            memory: None,
            share: true,
            without: FastPathSet::NONE,
        }
    }
}

/// Placements that one run makes. Those that do not fit into memory at once are made in rounds, but the tables of all are
/// kept until the end; and more than some hundreds say nothing new.
pub const MOST_SEEDS: usize = 1 << 12;

impl RunOptions {
    /// Returns whether stages behind the preparation are shared. They are not while a cache is watched, whose
    /// misses are then looked at one by one in each lane; nor while what reaches memory is kept, in the order in
    /// which it does.
    pub(crate) fn shares_stages(&self) -> bool {
        self.share && self.watch.is_none() && !self.tap
    }

    /// Returns the occasions that the units ask for, if there are units.
    pub(crate) fn subscription(&self) -> Option<&Subscription> {
        self.units.as_ref().map(Units::subscription)
    }

    /// Machines with the plan's units in them.
    ///
    /// # Errors
    /// The plan has units, and a machine counts by cachegrind's rules: units act between accesses of lines, not of whole
    /// references.
    pub(crate) fn with_units<'a>(&self, machines: &'a [Machine]) -> Result<Cow<'a, [Machine]>> {
        let Some(subscription) = self.subscription() else { return Ok(Cow::Borrowed(machines)) };
        let whole = |machine: &&Machine| machine.tree().config().rules == Rules::Cachegrind;
        match machines.iter().find(whole) {
            None => Ok(machines.iter().map(|machine| machine.with_agents(subscription.agents())).collect()),
            Some(machine) => Err(Problem::request(
                "cachegrind",
                &format!("machine {}: rules", machine.name()),
                "cachegrind's rules count what a program references, and nothing else acts on its caches",
                "take a machine that counts lines",
            )),
        }
    }

    /// The fast paths that are switched off: all where nothing is shared; while a cache is watched or memory is tapped, those
    /// that answer for several backs at once.
    pub(crate) fn switched_off(&self) -> FastPathSet {
        if !self.share {
            return FastPathSet::ALL;
        }
        let for_several =
            FastPathSet::NONE.with(FastPath::DirectMapped).with(FastPath::KnownHits).with(FastPath::LruStack);
        self.without.or(if self.shares_stages() { FastPathSet::NONE } else { for_several })
    }

    pub(crate) fn cuts(&self) -> Cuts {
        Cuts { instructions: self.instructions, warmup: self.warmup, interval: self.interval }
    }

    /// # Errors
    /// Checks that the plan makes sense, whatever the machine and the trace.
    pub(crate) fn check(&self) -> Result<()> {
        let refuse = |value: &str, place: &str, rule: &str, remedy: &str| {
            Err(Problem::request(value, place, rule, remedy))
        };
        let mut sorted = self.seeds.clone();
        sorted.sort_unstable();
        if sorted.is_empty() {
            return refuse("0", "seeds", "a run needs at least one seed", "ask for 1 seed or more");
        }
        if sorted.len() > MOST_SEEDS {
            let rule = format!("one run makes at most {MOST_SEEDS} placements");
            let remedy = "ask for fewer, or make several runs with seeds of their own";
            return refuse(&sorted.len().to_string(), "seeds", &rule, remedy);
        }
        if let Some(twice) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            let remedy = "name each seed once: the same seed gives the same placement";
            return refuse(&twice[0].to_string(), "seeds", "each seed is simulated once", remedy);
        }
        if self.threads == 0 {
            return refuse("0", "threads", "a run needs a thread", "ask for 1 thread or more");
        }
        if self.interval == Some(0) {
            return refuse("0", "interval", "an interval holds at least one instruction", "ask for, say, 1M");
        }
        if self.length == Some(0) {
            return refuse("0", "length", "a run simulates at least one reference", "ask for, say, 50M");
        }
        if self.instructions == Some(0) {
            let rule = "a run simulates at least one instruction";
            return refuse("0", "instructions", rule, "ask for, say, 50M");
        }
        match self.length {
            Some(length) if self.warmup >= length => refuse(
                &self.warmup.to_string(),
                "warmup",
                &format!("the warm-up is part of the length ({length} references), and shorter"),
                "make the warm-up shorter or the length longer",
            ),
            _ => Ok(()),
        }
    }
}
