//! `RunOptions` is what the caller of a run states besides machines and trace.

use std::borrow::Cow;

use binhop_base::{Problem, Result};
use binhop_hw::{CacheConfig, FastPath, FastPathSet, IndexBy, Rules, TagBy};

use crate::machine::Machine;
use crate::memory_limit::MemoryLimit;
use crate::occasion::Subscription;
use crate::prepare::Cuts;
use crate::sharing::FrontSharing;
use crate::unit::{Units, device_units, kernel_units};

/// `RunOptions` holds the settings of a run that belong neither to its machines nor to its trace.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// The name under which results show the trace.
    pub workload: String,
    /// The seeds. Each seed gives one placement.
    pub seeds: Vec<u64>,
    /// The number of threads. With 1, the calling thread does everything.
    pub threads: usize,
    /// The references to simulate, counted as [`binhop_trace::transform::head`] counts them. `None`: the whole
    /// trace.
    pub length: Option<u64>,
    /// The instructions to simulate. `None`: the whole trace. If `length` is given, too, the run ends
    /// at the limit that it reaches first.
    pub instructions: Option<u64>,
    /// The references simulated before the measured part.
    pub warmup: u64,
    /// The instructions in an interval of the series. `None`: no series.
    pub interval: Option<u64>,
    /// True if every placement is kept in order ([`Outcome::placements`](crate::Outcome)).
    pub log: bool,
    /// The cache whose repeated misses are counted by page ([`Outcome::pages`](crate::Outcome)).
    pub watch: Option<String>,
    /// True if the accesses that reach memory are kept. Only [`memory_stream`](crate::memory_stream) sets
    /// this option, and takes the accesses.
    pub tap: bool,
    /// True if what passes below the caches is kept, for schemes of device data. Only
    /// [`front_stream`](crate::front_stream) sets this option, and takes the events.
    pub front_tap: bool,
    /// The tables of switches that the run makes ([`Outcome::switches`](crate::Outcome)). `None`: no such table,
    /// and no private caches.
    pub switches: Option<SwitchOptions>,
    /// True if the kernel references what the machines' sections `[kernel.OCCASION]` say. All machines of the run
    /// then have the same kernel.
    pub kernel: bool,
    /// True if devices read and write memory where the trace says so. All address spaces then share the kernel's half
    /// ([`io_path::HALF`](crate::io_path::HALF)).
    pub devices: bool,
    /// The units that act between the references of the stream, one in each lane. `None`: no unit acts.
    pub units: Option<Units>,
    /// The memory that the run may take. Seeds that do not fit at once are simulated in rounds, and each
    /// round reads the trace anew. `None`: all seeds are simulated at once.
    pub memory: Option<MemoryLimit>,
    /// True if the run shares stages among seeds and machines, skips sure hits and takes fast paths, wherever
    /// that is exact. Tests set the option to `false` to show that it changes no result.
    pub share: bool,
    /// Fast paths that the run does not take although it could. Tests use this to show that each fast path is
    /// exact.
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
            front_tap: false,
            switches: None,
            kernel: false,
            devices: false,
            units: None,
            memory: None,
            share: true,
            without: FastPathSet::NONE,
        }
    }
}

/// `SwitchOptions` says what a run keeps about switches. Such a run simulates, besides the shared caches of each lane,
/// private caches for each life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SwitchOptions {
    /// True if every interval after every switch is kept, besides the sums over intervals.
    pub raw: bool,
}

/// The maximum number of placements in one run. The tables of all placements are kept until the end, even
/// where memory forces rounds. More than some hundreds of placements add no information.
pub const MOST_SEEDS: usize = 1 << 12;

/// Checks that no cache may hold a line in two places. What a process loses in such a cache could not be counted.
fn check_places(machine: &Machine) -> Result<()> {
    let tree = machine.tree();
    let twice = |cache: &&CacheConfig| {
        (cache.index, cache.tag) == (IndexBy::Virtual, TagBy::Physical) && !tree.index_is_inside_page(cache)
    };
    match tree.config().caches.iter().find(twice) {
        None => Ok(()),
        Some(cache) => Err(Problem::request(
            &cache.name,
            &format!("machine {}", machine.name()),
            "a cache with a virtual index and physical tags may hold a line twice: what a switch costs there is not counted",
            &format!(
                "give cache.{0} a virtual tag (cache.{0}.tag), or set cache.{0}.index=physical",
                cache.name
            ),
        )),
    }
}

impl RunOptions {
    /// Returns whether stages behind the preparation are shared. They are not shared while a cache is
    /// watched, because each lane then counts the misses of that cache one by one. They are not shared while
    /// memory accesses are kept, because each lane keeps its accesses in its own order. They are not shared
    /// while switches are observed, because each lane compares its caches with private caches row by row.
    pub(crate) fn shares_stages(&self) -> bool {
        self.share && self.watch.is_none() && !self.tap && !self.front_tap && self.switches.is_none()
    }

    /// Returns the occasions for which the units ask. `None`: there are no units.
    pub(crate) fn subscription(&self) -> Option<&Subscription> {
        self.units.as_ref().map(Units::subscription)
    }

    /// Returns the options with devices, or the kernel of the machines, as a unit, if the options ask for them.
    ///
    /// # Errors
    /// The machines have different kernels. Their pages and their occasions are prepared once for all machines.
    pub(crate) fn with_kernel(&self, machines: &[Machine]) -> Result<Cow<'_, Self>> {
        if self.devices && self.kernel {
            return Err(Problem::request(
                "kernel",
                "options",
                "where devices act, the kernel's references at system calls come from the path of device data",
                "leave out the kernel's footprints, or the devices",
            ));
        }
        if self.devices {
            assert!(self.units.is_none(), "a run has devices or other units");
            return Ok(Cow::Owned(Self { units: Some(device_units()), ..self.clone() }));
        }
        let (Some(first), true) = (machines.first(), self.kernel) else { return Ok(Cow::Borrowed(self)) };
        assert!(self.units.is_none(), "a run has a kernel or other units");
        let differs = |machine: &&Machine| {
            machine.kernel() != first.kernel() || machine.memory().page != first.memory().page
        };
        if let Some(other) = machines.iter().find(differs) {
            return Err(Problem::request(
                &format!("machines {} and {}", first.name(), other.name()),
                "kernel",
                "machines that are simulated together with a kernel have the same kernel and pages",
                "simulate them one by one, or without a kernel",
            ));
        }
        Ok(Cow::Owned(Self { units: kernel_units(first), ..self.clone() }))
    }

    /// Returns the machines with the agents of the units in their trees.
    ///
    /// # Errors
    /// There are units or private caches, and a machine counts by cachegrind's rules. Both follow accesses of
    /// lines, and cachegrind's rules count whole references.
    pub(crate) fn with_units<'a>(&self, machines: &'a [Machine]) -> Result<Cow<'a, [Machine]>> {
        if self.switches.is_some()
            && let Some(machine) = machines.iter().find(|machine| machine.translation().is_some())
        {
            return Err(Problem::request(
                "translation",
                &format!("machine {}", machine.name()),
                "the caches of each process are compared without TLBs: a process has no TLB of its own here",
                "take --set translation=off",
            ));
        }
        if (self.switches.is_some() || self.subscription().is_some())
            && let Some(machine) = machines.iter().find(|machine| machine.protection().is_some())
        {
            let (value, rule, remedy) = if machine.softvm().is_some() {
                (
                    "translation",
                    "where software translates at cache misses, only the program and its handlers access the caches",
                    "take --set translation=off, or leave the kernel and the comparison of switches out",
                )
            } else {
                (
                    "translation.line-protection",
                    "where lines keep the protection of their pages, only the program accesses the caches",
                    "leave translation.line-protection out, or the kernel and the comparison of switches",
                )
            };
            return Err(Problem::request(value, &format!("machine {}", machine.name()), rule, remedy));
        }
        let whole = |machine: &&Machine| machine.tree().config().rules == Rules::Cachegrind;
        let rule = match (self.subscription(), self.switches) {
            (None, None) => return Ok(Cow::Borrowed(machines)),
            (Some(_), _) => {
                "cachegrind's rules count what a program references, and nothing else acts on its caches"
            }
            (None, Some(_)) => {
                "cachegrind's rules count whole references, and the caches of each process follow single lines"
            }
        };
        if let Some(machine) = machines.iter().find(whole) {
            let place = format!("machine {}: rules", machine.name());
            return Err(Problem::request("cachegrind", &place, rule, "take a machine that counts lines"));
        }
        if self.switches.is_some() {
            machines.iter().try_for_each(check_places)?;
        }
        Ok(match self.subscription() {
            None => Cow::Borrowed(machines),
            Some(units) => machines.iter().map(|machine| machine.with_agents(units.agents())).collect(),
        })
    }

    /// Returns why no front is shared, if the options say that no front is shared.
    pub(crate) fn no_front_is_shared(&self) -> FrontSharing {
        if self.share && self.switches.is_some() { FrontSharing::Switches } else { FrontSharing::Off }
    }

    /// Returns the fast paths that are switched off: all of them where nothing is shared. While a cache is
    /// watched or memory accesses are kept, the paths that answer for several backs at once are off.
    pub(crate) fn switched_off(&self) -> FastPathSet {
        if !self.share {
            return FastPathSet::ALL;
        }
        let for_several = FastPathSet::NONE
            .with(FastPath::DirectMapped)
            .with(FastPath::KnownHits)
            .with(FastPath::LruStack)
            .with(FastPath::LaneBits)
            .with(FastPath::BackBits)
            .with(FastPath::FrontBits);
        self.without.or(if self.shares_stages() { FastPathSet::NONE } else { for_several })
    }

    pub(crate) fn cuts(&self) -> Cuts {
        Cuts {
            instructions: self.instructions,
            warmup: self.warmup,
            interval: self.interval,
            segments: self.switches.is_some(),
        }
    }

    /// Checks that the options are consistent, whatever the machine and the trace.
    ///
    /// # Errors
    /// A value is out of range, or two values contradict each other.
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
