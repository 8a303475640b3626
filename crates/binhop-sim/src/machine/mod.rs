//! `Machine` is a machine description, checked once, with the configuration from which the engine is built.
//!
//! [`Machine::parse`] goes through these files. `document` reads TOML and settings. Each section of keys has a
//! file that declares its keys and checks its rules: `memory`, `placement`, `cache`, `write_buffer`,
//! `stream_buffers`, `cost`, `tlb`, `translation` with `softvm`, `segments` and `protection`,
//! `kernel`, `io`, `dram`, and `check` for the top level. `link` makes the tree of caches. `keys` holds the
//! macro of the declarations, `forms` the kinds of values.

mod bundled;
mod cache;
mod cachegrind;
mod check;
mod cost;
mod document;
mod dram;
mod forms;
mod frames;
mod io;
mod kernel;
mod keys;
mod link;
mod memory;
mod placement;
mod protection;
mod segments;
mod softvm;
mod stream_buffers;
mod tlb;
mod translation;
mod write_buffer;

use std::num::NonZeroU32;
use std::sync::Arc;

use binhop_base::{Agents, Bytes, Picoseconds, PowerOfTwo, Problem, Result};
use binhop_hw::{
    DramOrganisation, FixedLatency, Next, SchemeConfig, SchemeKind, Tree, TreeConfig, check_cycles,
};
use binhop_os::io::IoConfig;
use binhop_trace::input::read_text;

pub use bundled::{BUNDLED, Bundled};
pub(crate) use cache::MOST_LINES;
pub use check::keys;
pub use dram::DramSetup;
use io::SchemeKeys;
pub use io::SchemeSetup;
pub use kernel::{Footprint, KernelConfig};
pub use keys::Key;
pub use memory::Memory;
pub use placement::PlacementConfig;
pub use protection::ProtectionConfig;
pub(crate) use protection::{ProtectionChanges, ProtectionViolations};
pub use segments::StatedSegments;
pub use softvm::SoftvmConfig;
pub(crate) use softvm::{DirectMappedChain, HANDLER_ALIGNMENT, LastLevelShape, Sharing, WriteBacks};
pub(crate) use tlb::MOST_TLBS;
use translation::Translates;
pub use translation::TranslationConfig;
pub(crate) use translation::{Refill, TablePlacement, WalkEntry};

use crate::nearest;

/// `Machine` is a checked machine. It is immutable and cheap to clone.
#[derive(Clone, Debug)]
pub struct Machine(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    name: String,
    memory: Memory,
    placement: PlacementConfig,
    tree: Tree,
    longest_line: PowerOfTwo,
    has_cost: bool,
    cycle_time: Option<Picoseconds>,
    kernel: KernelConfig,
    translation: Option<Arc<TranslationConfig>>,
    softvm: Option<Arc<SoftvmConfig>>,
    sharing: Sharing,
    segments: Arc<StatedSegments>,
    protection: Option<Arc<ProtectionConfig>>,
    io: IoConfig,
    schemes: SchemeKeys,
    dram: Option<DramSetup>,
    notes: Vec<String>,
    resolved: String,
}

impl Machine {
    /// Loads a bundled machine by its name, or a description from a file. A path holds a `/` or ends in `.toml`. The
    /// `settings`, such as `cache.l2.size=4MiB`, replace values of the description; a later setting wins.
    ///
    /// # Errors
    /// There is no such machine or file, or the description or a setting breaks a rule.
    pub fn load(name_or_path: &str, settings: &[String]) -> Result<Self> {
        if let Some(bundled) = BUNDLED.iter().find(|bundled| bundled.name == name_or_path) {
            return Self::parse(bundled.toml, bundled.name, settings);
        }
        if !name_or_path.contains('/') && !name_or_path.ends_with(".toml") {
            let remedy = match nearest(name_or_path, BUNDLED.iter().map(|bundled| bundled.name)) {
                Some(name) => format!("did you mean {name}?"),
                None => "choose one, or give the path of a .toml file".to_string(),
            };
            let names: Vec<&str> = BUNDLED.iter().map(|bundled| bundled.name).collect();
            let rule = format!("no machine has this name; there are {}", names.join(", "));
            return Err(Problem::request(name_or_path, "machine", &rule, &remedy));
        }
        let remedy = "give the path of a machine's .toml file, or a name from `binhop machines`";
        let text = read_text(name_or_path, "machine", remedy)?;
        Self::parse(&text, name_or_path, settings)
    }

    /// Reads a description in TOML. Refusals name it by `place`.
    ///
    /// # Errors
    /// The description or a setting breaks a rule.
    pub fn parse(toml: &str, place: &str, settings: &[String]) -> Result<Self> {
        let stem = place.rsplit('/').next().unwrap_or(place).trim_end_matches(".toml");
        let checked = check::check(document::parse(toml, place, settings)?, stem)?;
        let (translation, softvm) = match checked.translation {
            Some(Translates::ByTlbs(config)) => (Some(Arc::new(config)), None),
            Some(Translates::AtMisses(config)) => (None, Some(Arc::new(config))),
            None => (None, None),
        };
        Ok(Self(Arc::new(Inner {
            name: checked.name,
            memory: checked.memory,
            placement: checked.placement,
            longest_line: longest_line(&checked.tree),
            tree: Tree::new(checked.tree),
            has_cost: checked.has_cost,
            cycle_time: checked.cycle_time,
            kernel: checked.kernel,
            translation,
            softvm,
            sharing: checked.sharing,
            segments: Arc::new(checked.segments),
            protection: checked.protection.map(Arc::new),
            io: checked.io,
            schemes: checked.schemes,
            dram: checked.dram,
            notes: checked.notes,
            resolved: checked.resolved,
        })))
    }

    /// Returns this machine with these agents added. Units act as these agents.
    pub(crate) fn with_agents(&self, agents: Agents) -> Self {
        let tree = self.tree().config();
        let agents = agents.others().fold(tree.agents, Agents::with);
        self.with_tree(TreeConfig { agents, ..tree.clone() }, self.kernel().clone())
    }

    /// Returns this machine with another tree of caches, and the kernel that belongs to the tree.
    fn with_tree(&self, tree: TreeConfig, kernel: KernelConfig) -> Self {
        let Inner {
            name,
            memory,
            placement,
            tree: _,
            longest_line,
            has_cost,
            cycle_time,
            kernel: _,
            translation,
            softvm,
            sharing,
            segments,
            protection,
            io,
            schemes,
            dram,
            notes,
            resolved,
        } = &*self.0;
        Self(Arc::new(Inner {
            name: name.clone(),
            memory: *memory,
            placement: placement.clone(),
            tree: Tree::new(tree),
            longest_line: *longest_line,
            has_cost: *has_cost,
            cycle_time: *cycle_time,
            kernel,
            translation: translation.clone(),
            softvm: softvm.clone(),
            sharing: *sharing,
            segments: Arc::clone(segments),
            protection: protection.clone(),
            io: *io,
            schemes: schemes.clone(),
            dram: *dram,
            notes: notes.clone(),
            resolved: resolved.clone(),
        }))
    }

    /// Returns whether a cache of this machine has virtual tags, so that a device's physical address does not find its
    /// lines.
    #[must_use]
    pub fn has_virtual_tags(&self) -> bool {
        self.tree().config().has_virtual_tags()
    }

    /// Returns whether synonyms are looked for: a cache has virtual tags, and pages have frames. Where physical =
    /// virtual (placement `identity`), equal addresses of two spaces would be taken for two names of one page.
    #[must_use]
    pub fn looks_for_synonyms(&self) -> bool {
        self.has_virtual_tags() && self.memory().frames.is_some()
    }

    /// Returns the longest line of this machine's caches. A device reads and writes memory by lines of this length. For
    /// a front ([`front`](Self::front)) this returns the longest line of the whole machine, which is the line of the
    /// last level.
    #[must_use]
    pub fn longest_line(&self) -> PowerOfTwo {
        self.0.longest_line
    }

    /// Returns the front of this machine: the caches before the last level. A scheme for device data stands in place of
    /// the last level. The front of a machine with virtual tags is all its caches ([`SchemeKind::Flush`]). The front
    /// has no footprints of the kernel, because the path of device data says what the kernel references.
    ///
    /// # Errors
    /// The machine counts by cachegrind's rules. A machine without virtual tags is also refused if it has several last
    /// levels or a single level.
    pub fn front(&self) -> Result<Self> {
        let (config, place) = (self.tree().config(), format!("machine {}", self.name()));
        let tree = if self.has_virtual_tags() {
            io::whole_front(config, &place)?
        } else {
            io::front_of(config, self.last_level(), &place)?
        };
        Ok(self.with_tree(tree, KernelConfig::default()))
    }

    /// Returns a scheme for device data in place of the last level. Its seed is 0.
    ///
    /// # Errors
    /// The last level or the section `[io]` breaks a rule of the scheme, or the scheme is not for the tags of the
    /// caches.
    pub fn scheme(&self, kind: SchemeKind) -> Result<SchemeConfig> {
        let tree = self.tree().config();
        io::check_tags(kind, tree, self.name())?;
        let last = &tree.caches[self.last_level()];
        let config = self.0.schemes.scheme(kind, last, tree, self.has_cost());
        config.check().map_err(|problem| io::named(problem, &config, self.name(), &last.name))?;
        Ok(config)
    }

    /// Returns a scheme for device data with the memory behind it. Results call it `name`.
    ///
    /// # Errors
    /// See [`scheme`](Machine::scheme); or the memory has a controller, and the lines of the last level have another
    /// length than the lines of the memory.
    pub fn scheme_setup(&self, kind: SchemeKind, name: &str) -> Result<SchemeSetup> {
        let last = &self.tree().config().caches[self.last_level()];
        if self.dram().is_some() && last.line.bytes() != DramOrganisation::LINE {
            return Err(Problem::request(
                &Bytes(last.line.bytes()).to_string(),
                &format!("machine {}: cache.{}.line", self.name(), last.name),
                &format!(
                    "memory with a controller reads and writes lines of {} bytes",
                    DramOrganisation::LINE
                ),
                &format!(
                    "take --set cache.{}.line=64B, or memory of fixed latency: --set dram=off",
                    last.name
                ),
            ));
        }
        let fixed = self.memory_of_schemes();
        check_cycles(fixed.cycles, &format!("machine {}: cost.memory", self.name()))?;
        Ok(SchemeSetup {
            name: name.to_owned(),
            config: self.scheme(kind)?,
            fixed,
            posted: self.posted_requests(),
            dram: self.dram().copied(),
        })
    }

    /// Checks that another machine has the same front, memory, placement and path, so that its scheme can stand behind
    /// the front of this machine.
    ///
    /// # Errors
    /// A part differs.
    pub fn check_same_front(&self, other: &Self) -> Result<()> {
        let fronts = [self.front()?, other.front()?];
        let parts = [
            ("the caches before the last level", fronts[0].tree().config() == fronts[1].tree().config()),
            ("memory", self.memory() == other.memory()),
            ("placement", self.placement() == other.placement()),
            ("the path of device data", self.io() == other.io()),
        ];
        match parts.iter().find(|(_, same)| !same) {
            None => Ok(()),
            Some((part, _)) => Err(Problem::request(
                part,
                &format!("machine {}", other.name()),
                "schemes that are compared stand behind one front, under the same placements and requests",
                "change the last level, [dram], or the keys of schemes in [io]; compare other machines in runs of their own",
            )),
        }
    }

    /// Returns the memory of fixed latency behind every scheme for device data, if there is no [`dram`](Machine::dram).
    #[must_use]
    pub fn memory_of_schemes(&self) -> FixedLatency {
        let tree = self.tree().config();
        self.0.schemes.memory(&tree.caches[self.last_level()], tree, self.has_cost())
    }

    /// Returns the places of the queue of posted requests to the memory of fixed latency; `None` if the queue has room
    /// for all requests.
    #[must_use]
    pub fn posted_requests(&self) -> Option<NonZeroU32> {
        self.0.schemes.posted
    }

    /// Returns the memory with a controller behind every scheme for device data; `None` if memory has a fixed latency.
    #[must_use]
    pub fn dram(&self) -> Option<&DramSetup> {
        self.0.dram.as_ref()
    }

    /// Returns the sizes of the path of device data.
    #[must_use]
    pub fn io(&self) -> &IoConfig {
        &self.0.io
    }

    /// Returns the problem of a trace whose calls or faults use the page cache; `None` if there is none. The placement
    /// may evict a page of the page cache, and the order of last references does not tell which page.
    #[must_use]
    pub fn page_cache_problem(&self) -> Option<Box<Problem>> {
        io::check_room(self.io(), &self.memory(), self.placement(), self.name()).err()
    }

    /// Returns the name under which results show the machine.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Returns the physical memory.
    #[must_use]
    pub fn memory(&self) -> Memory {
        self.0.memory
    }

    /// Returns the placement: the rule by which a page gets a frame.
    #[must_use]
    pub fn placement(&self) -> &PlacementConfig {
        &self.0.placement
    }

    /// Returns what the kernel references, where a run asks for it.
    #[must_use]
    pub fn kernel(&self) -> &KernelConfig {
        &self.0.kernel
    }

    /// Returns the tree of caches.
    #[must_use]
    pub fn tree(&self) -> &Tree {
        &self.0.tree
    }

    /// Returns the number of the cache of this name.
    ///
    /// # Errors
    /// No cache has this name.
    pub fn cache(&self, name: &str) -> Result<usize> {
        let caches = &self.tree().config().caches;
        caches.iter().position(|cache| cache.name == name).ok_or_else(|| {
            let names: Vec<&str> = caches.iter().map(|cache| cache.name.as_str()).collect();
            let rule = format!("machine {} has the caches {}", self.name(), names.join(", "));
            Problem::request(name, "cache", &rule, "name one of them")
        })
    }

    /// Returns the last cache before memory. If several caches stand before memory, it is the largest of
    /// them; if several are equally large, the last in order.
    #[must_use]
    pub fn last_level(&self) -> usize {
        let caches = self.tree().config().caches.iter().enumerate();
        let last = caches.filter(|(_, cache)| cache.next == Next::Memory);
        last.max_by_key(|(_, cache)| cache.size).map_or(0, |(number, _)| number)
    }

    /// Returns whether costs are given, so that cycles mean something.
    #[must_use]
    pub fn has_cost(&self) -> bool {
        self.0.has_cost
    }

    /// Returns the time of one cycle of the processor, if the machine states it.
    #[must_use]
    pub fn cycle_time(&self) -> Option<Picoseconds> {
        self.0.cycle_time
    }

    /// Returns how software translates when the last level misses; `None` if a run does not simulate translation by
    /// software.
    #[must_use]
    pub fn softvm(&self) -> Option<&Arc<SoftvmConfig>> {
        self.0.softvm.as_ref()
    }

    /// Returns how address spaces share memory, where caches have global tags or software translates at cache misses.
    pub(crate) fn sharing(&self) -> Sharing {
        self.0.sharing
    }

    /// Returns the segment ids that the user gives to regions of address spaces.
    #[must_use]
    pub fn segments(&self) -> &Arc<StatedSegments> {
        &self.0.segments
    }

    /// Returns how the lines of virtual caches keep the protection of their pages; `None` if they keep no protection.
    #[must_use]
    pub fn protection(&self) -> Option<&Arc<ProtectionConfig>> {
        self.0.protection.as_ref()
    }

    /// Returns how the machine's TLBs translate addresses; `None` if a run does not simulate TLBs.
    #[must_use]
    pub fn translation(&self) -> Option<&Arc<TranslationConfig>> {
        self.0.translation.as_ref()
    }

    /// Returns notes for the user, such as keys that the chosen policy does not use.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.0.notes
    }

    /// Returns the number n of frames that are safe from eviction. A page is evicted only after at least n
    /// other pages have been referenced since its own last reference, and no page is evicted before more than
    /// n pages have been placed. For a policy that picks from a pool, n is the frames of memory less the
    /// frames of the pool. `None`: physical = virtual.
    #[must_use]
    pub fn safe_frames(&self) -> Option<u64> {
        self.0.placement.policy().safe_frames(&self.0.placement.settings)
    }

    /// Returns whether a page may get the frame of a dead page before memory has been used up.
    #[must_use]
    pub fn reuses_frames(&self) -> bool {
        self.0.placement.policy().reuses_frames()
    }

    /// Returns whether the results depend on the seed.
    #[must_use]
    pub fn is_random(&self) -> bool {
        let draws = |translation: &Arc<TranslationConfig>| translation.placement == TablePlacement::Random;
        self.0.placement.policy().is_random(&self.0.placement.settings)
            || self.0.translation.as_ref().is_some_and(draws)
            || self.0.tree.config().caches.iter().any(binhop_hw::CacheConfig::draws)
    }

    /// Returns the complete description, in which every key that was left out has its value. Reading it gives
    /// the same machine.
    #[must_use]
    pub fn resolved(&self) -> String {
        self.0.resolved.clone()
    }
}

/// Returns the longest line of a tree's caches.
fn longest_line(tree: &TreeConfig) -> PowerOfTwo {
    let lines = tree.caches.iter().map(|cache| cache.line);
    lines.max_by_key(|line| line.log2()).expect("a machine has a cache")
}
