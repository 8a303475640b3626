//! Machines: what a user writes, checked once, and what the engine builds from it.

mod cache;
mod cachegrind;
mod check;
mod document;
mod frames;
mod keys;
mod link;
mod placement;

use std::sync::Arc;

use binhop_base::escape::quoted;
use binhop_base::{Agents, Bytes, PowerOfTwo, Problem, Result};
use binhop_hw::{IndexBy, Next, Rules, TagBy, Tree, TreeConfig};
use binhop_os::placement::{Manner, Policy, Settings, policy};
use binhop_trace::wait::read_text;

pub(crate) use cache::MOST_LINES;
pub use keys::{KEYS, Key};

use crate::nearest;

/// Physical memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Bytes of a page and of a frame.
    pub page: PowerOfTwo,
    /// Number of frames; `None` where physical = virtual.
    pub frames: Option<u64>,
}

/// `PlacementConfig` decides which frame a page gets. Together with [`Memory`] it is everything but the seed:
/// equal values, equal placements. (Settings that the policy does not use are the same in all.)
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacementConfig {
    /// The policy's name.
    pub policy: &'static str,
    /// The policy's settings. Where physical = virtual, none of them matters.
    pub settings: Settings,
    /// The file of the recording that is repeated, if one is.
    pub file: Option<String>,
}

impl PlacementConfig {
    /// The policy.
    ///
    /// # Panics
    /// Never, for the placement of a machine: it names one of the list.
    #[must_use]
    pub fn policy(&self) -> &'static Policy {
        policy(self.policy).expect("a checked machine names a policy of the list")
    }

    /// Returns whether the placement policy needs the segments of the space that faults.
    pub(crate) fn reads_segments(&self) -> bool {
        self.policy().reads_segments(&self.settings)
    }
}

/// A machine: checked, immutable, cheap to clone.
#[derive(Clone, Debug)]
pub struct Machine(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    name: String,
    memory: Memory,
    placement: PlacementConfig,
    tree: Tree,
    has_cost: bool,
    notes: Vec<String>,
}

/// A machine that comes with binhop.
#[derive(Clone, Copy, Debug)]
pub struct Bundled {
    /// Its name.
    pub name: &'static str,
    /// A description of the machine, in a line.
    pub about: &'static str,
    /// Its description.
    pub toml: &'static str,
}

macro_rules! bundled {
    ($($name:literal, $about:literal;)*) => {
        /// Every machine that comes with binhop: the files under `machines/`.
        pub const BUNDLED: &[Bundled] = &[$(Bundled {
            name: $name,
            about: $about,
            toml: include_str!(concat!("../../../../machines/", $name, ".toml")),
        },)*];
    };
}

bundled! {
    "kh90", "Kessler and Hill 1990: 128 MiB in 16 KiB pages, split 32 KiB level 1, 4 MiB level 2, random placement";
    "two-level", "Split 32 KiB level 1 and 1 MiB level 2, direct-mapped, physical = virtual: what plain cache simulators model";
    "cachegrind-like", "What valgrind --tool=cachegrind simulates, counted as it counts: split 32 KiB 8-way level 1, 1 MiB 16-way last level, physical = virtual";
    "zen-4k", "A present-day core: 4 KiB pages, 32 + 48 KiB level 1, 1 MiB 16-way level 2, 16 MiB 16-way level 3, random placement";
    "apple-m1", "A present-day core with 16 KiB pages: 192 + 128 KiB level 1, 12 MiB 12-way level 2, random placement";
    "skylake", "A present-day core whose last level has a hashed index: 4 KiB pages, 256 KiB 4-way level 2, 8 MiB 16-way level 3, random placement";
}

impl Machine {
    /// A bundled machine by name, or a description from a file (a path: it holds a `/` or ends in `.toml`).
    /// `settings` are applied over it, later ones over earlier ones: `cache.l2.size=4MiB`.
    ///
    /// # Errors
    /// No such machine or file; the description or a setting breaks a rule.
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

    /// A description in TOML; errors call it `place`.
    ///
    /// # Errors
    /// The description or a setting breaks a rule.
    pub fn parse(toml: &str, place: &str, settings: &[String]) -> Result<Self> {
        let checked = check::check(document::parse(toml, place, settings)?)?;
        let stem = place.rsplit('/').next().unwrap_or(place).trim_end_matches(".toml");
        Ok(Self(Arc::new(Inner {
            name: checked.name.unwrap_or_else(|| stem.to_string()),
            memory: checked.memory,
            placement: checked.placement,
            tree: Tree::new(checked.tree),
            has_cost: checked.has_cost,
            notes: checked.notes,
        })))
    }

    /// The same machine, with units in it that act as these agents, too.
    pub(crate) fn with_agents(&self, agents: Agents) -> Self {
        let Inner { name, memory, placement, tree, has_cost, notes } = &*self.0;
        let agents = agents.others().fold(tree.config().agents, Agents::with);
        Self(Arc::new(Inner {
            name: name.clone(),
            memory: *memory,
            placement: placement.clone(),
            tree: Tree::new(TreeConfig { agents, ..tree.config().clone() }),
            has_cost: *has_cost,
            notes: notes.clone(),
        }))
    }

    /// Returns the name under which results show the machine.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Physical memory.
    #[must_use]
    pub fn memory(&self) -> Memory {
        self.0.memory
    }

    /// Returns the placement: the rule by which a page gets a frame.
    #[must_use]
    pub fn placement(&self) -> &PlacementConfig {
        &self.0.placement
    }

    /// Its caches.
    #[must_use]
    pub fn tree(&self) -> &Tree {
        &self.0.tree
    }

    /// The number of a cache, by its name.
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

    /// The last cache before memory; the largest, where several are. The later of equals.
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

    /// Returns notes for the user, such as keys that the chosen policy does not use.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.0.notes
    }

    /// A page is evicted only when at least so many other pages have been referenced since it was, and none
    /// before more than so many have been placed: memory less the pool, for a policy that picks from one.
    /// `None` where physical = virtual.
    #[must_use]
    pub fn safe_frames(&self) -> Option<u64> {
        self.0.placement.policy().safe_frames(&self.0.placement.settings)
    }

    /// Returns whether the frame of a page that died may be given away before memory has been used up.
    #[must_use]
    pub fn reuses_frames(&self) -> bool {
        self.0.placement.policy().reuses_frames()
    }

    /// Returns whether a seed changes anything.
    #[must_use]
    pub fn is_random(&self) -> bool {
        let draws = |cache: &binhop_hw::CacheConfig| {
            cache.replacement == binhop_hw::Replacement::Random && cache.ways > 1
        };
        self.0.placement.policy().is_random(&self.0.placement.settings)
            || self.0.tree.config().caches.iter().any(draws)
    }

    /// Returns whether a description states the pool: where the policy uses one, and where the user gave another
    /// than the usual to a policy that a policy of one's own may stand in for. (Elsewhere a reader would be told
    /// that it makes no difference.)
    fn has_pool_to_tell(&self) -> bool {
        let Inner { placement, memory, .. } = &*self.0;
        let usual = |frames| placement::usual_pool(memory.page, frames) == placement.settings.pool;
        matches!(placement.policy().manner, Manner::Pool(_))
            && (placement.policy().uses("pool") || !memory.frames.is_some_and(usual))
    }

    /// The complete description, with what was left out filled in. Reading it gives the same machine.
    #[must_use]
    pub fn resolved(&self) -> String {
        use std::fmt::Write;
        let config: &TreeConfig = self.0.tree.config();
        let page = self.0.memory.page.bytes();
        let mut text =
            format!("name = {}\nrules = {:?}\n\n[memory]\n", quoted(&self.0.name), config.rules.name());
        let mut line = |args: std::fmt::Arguments<'_>| writeln!(text, "{args}").expect("a String takes all");
        if let Some(frames) = self.0.memory.frames {
            line(format_args!("size = \"{}\"", Bytes(frames * page)));
        }
        line(format_args!("page = \"{}\"\n\n[placement]", Bytes(page)));
        line(format_args!("policy = {:?}", self.0.placement.policy));
        let settings = &self.0.placement.settings;
        if self.has_pool_to_tell() {
            line(format_args!("pool = \"{}\"", Bytes(settings.pool * page)));
        }
        for parameter in self.0.placement.policy().parameters {
            match parameter.name {
                "bins" => line(format_args!("bins = {}", settings.bins.bytes())),
                "colors" => line(format_args!("colors = {}", settings.colors)),
                "pid-hash" => line(format_args!("pid-hash = {}", settings.pid_hash)),
                "sharing" => line(format_args!("sharing = {:?}", settings.sharing.name())),
                "fragmentation" => line(format_args!("fragmentation = {}", settings.fragmentation)),
                "file" => {
                    let file = self.0.placement.file.as_deref().unwrap_or_default();
                    line(format_args!("file = {}", quoted(file)));
                }
                _ => {} // pool stands above; tuned-for has become bins or colors
            }
        }
        for (index, cache) in config.caches.iter().enumerate() {
            line(format_args!("\n[cache.{}]", toml_key(&cache.name)));
            let serves = match (config.fetch == index, config.data == index) {
                (true, true) => Some("all"),
                (true, false) => Some("fetch"),
                (false, true) => Some("data"),
                (false, false) => None,
            };
            if let Some(serves) = serves {
                line(format_args!("serves = {serves:?}"));
            }
            line(format_args!("size = \"{}\"\nline = \"{}\"", cache.size, Bytes(cache.line.bytes())));
            line(format_args!("ways = {}", cache.ways));
            if config.rules == Rules::Lines {
                // Cachegrind's leave no choice of these.
                line(format_args!("index = {:?}\nhash = {}", IndexBy::name(cache.index), cache.hashed));
                line(format_args!("tag = {:?}\nwrite = {:?}", TagBy::name(cache.tag), cache.write.name()));
                line(format_args!("allocate = {}", cache.allocate));
                line(format_args!("replacement = {:?}", cache.replacement.name()));
                line(format_args!("writeback-order = {:?}", cache.writeback_order.name()));
                line(format_args!("inclusive = {}", cache.inclusive));
            }
            let next = match cache.next {
                Next::Cache(next) => &config.caches[next].name,
                Next::Memory => "memory",
            };
            line(format_args!("next = {}", quoted(next)));
        }
        for cache in &config.caches {
            if let Some(buffer) = cache.write_buffer {
                line(format_args!("\n[write-buffer.{}]", toml_key(&cache.name)));
                line(format_args!("entries = {}\ndrain = {}", buffer.entries, buffer.drain_cycles));
            }
        }
        if self.0.has_cost {
            line(format_args!("\n[cost]\nmode = {:?}", config.cost_rule.name()));
            for (index, cache) in config.caches.iter().enumerate() {
                if index != config.fetch && index != config.data {
                    line(format_args!("{} = {}", toml_key(&cache.name), cache.cost));
                }
            }
            line(format_args!("memory = {}", config.memory_cost));
        }
        text
    }
}

/// A key as TOML wants it: bare where it can be.
fn toml_key(name: &str) -> String {
    let bare = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
    if bare { name.to_string() } else { quoted(name) }
}
