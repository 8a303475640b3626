//! `placement` declares the keys of the section `[placement]`, and resolves them into a policy and its settings.

use std::sync::Arc;

use binhop_base::{Asid, Bytes, FrameNo, PageNo, PowerOfTwo, Problem, Result, counted};
use binhop_hw::{CacheConfig, IndexBy, TreeConfig};
use binhop_os::StateScope;
use binhop_os::placement::{Mechanism, POLICIES, Policy, Recording, Settings, policy};
use binhop_trace::placements::FrameRun;
use binhop_trace::read_placements;

use super::document::unknown;
use super::forms::{Given, UpTo};
use super::keys::{At, keys};
use super::memory::{Memory, MemoryKeys, count_frames};

keys! {
    /// The keys of `[placement]`.
    PlacementKeys of "placement" {
        policy: Option<At<String>> = "policy", form "a policy's name", absent "random",
            "the rule that chooses the frame (binhop policies)";
        pool: Option<At<Bytes>> = "pool", form "a size, whole frames", absent "4MiB, or all of memory if that is less",
            "the memory from which a placement chooses: the least recently used frames";
        bins: Option<At<UpTo<{ u32::MAX }>>> = "bins", form "a whole number, a power of two",
            absent "the bins of tuned-for; without it, the most bins of any physically indexed cache of this machine",
            "the number of bins over which a policy spreads pages; the low bits of a frame's number are its bin";
        tuned_for: Option<At<String>> = "tuned-for", form "a cache's name", absent "none",
            "the cache whose number of bins, size / (ways × page), is the default of bins and colors";
        colors: Option<At<UpTo<{ u32::MAX }>>> = "colors",
            absent "the default of bins, but no more than memory has frames",
            "the number of lists of frames (colored-lists)";
        pid_hash: bool = "pid-hash", absent "false",
            "whether a page's color depends on a hash of the address space's number (colored-lists)";
        sharing: StateScope = "sharing", absent "segment",
            "whether a policy keeps its state per segment or per address space, where address spaces share pages";
        fragmentation: Option<At<UpTo<100>>> = "fragmentation", absent "0: as after boot",
            "percent of memory that older pages occupy at the start, scattered (buddy)";
        file: Option<At<String>> = "file", form "a path", absent "must be given if placement.policy is recorded",
            "the placements that a recorded placement repeats: Parquet, or a map of addresses as text (placement.md)";
    }
}

/// `PlacementConfig` decides which frame a page gets. Machines with equal values of `PlacementConfig` and of [`Memory`]
/// place pages alike under equal seeds. Settings that the policy does not use have one value in all machines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacementConfig {
    /// The policy's name.
    pub policy: &'static str,
    /// The policy's settings. They have no effect where physical = virtual.
    pub settings: Settings,
    /// The file of the recording that the policy repeats, if it repeats one.
    pub file: Option<String>,
}

impl PlacementConfig {
    /// Returns the policy.
    ///
    /// # Panics
    /// The name is not in the list of policies. The placement of a machine always has a name of the list.
    #[must_use]
    pub fn policy(&self) -> &'static Policy {
        policy(self.policy).expect("a checked machine names a policy of the list")
    }

    /// Returns whether the placement policy needs the segments of the space that faults.
    pub(crate) fn reads_segments(&self) -> bool {
        self.policy().reads_segments(&self.settings)
    }

    /// Returns whether a resolved description states this key of `[placement]`. A resolved description states the
    /// policy and the keys that the policy uses.
    pub(super) fn states(&self, key: &str, memory: &Memory) -> bool {
        match key {
            "policy" => true,
            "pool" => self.states_pool(memory),
            // The description states the bins or colors that follow from it.
            "tuned-for" => false,
            used => self.policy().uses(used),
        }
    }

    /// Returns whether a resolved description states the pool. The description states the pool if the policy uses a
    /// pool. The description also states the pool if the user gave an unusual pool to a policy that a custom policy may
    /// replace, because the custom policy picks from this pool. In other cases, reading the description would note that
    /// the pool is not used.
    fn states_pool(&self, memory: &Memory) -> bool {
        let is_usual = |frames| usual_pool(memory.page, frames) == self.settings.pool;
        matches!(self.policy().mechanism, Mechanism::Pool(_))
            && (self.policy().uses("pool") || !memory.frames.is_some_and(is_usual))
    }
}

/// Checks the placement and the size of the memory in which it places, and fills in the keys that the section leaves
/// out. Also returns notes for the user.
pub(super) fn check_placement(
    section: &mut Given<PlacementKeys>,
    memory: &MemoryKeys,
    page: PowerOfTwo,
    tree: &TreeConfig,
    place: &str,
) -> Result<(PlacementConfig, Memory, Vec<String>)> {
    let Given { keys, given } = section;
    let At { value: name, place: at } =
        keys.policy.clone().unwrap_or_else(|| At::derived("random".to_string()));
    let Some(found) = policy(&name) else {
        return Err(unknown(&name, &at, "the placement policies are", POLICIES.iter().map(|p| p.name)));
    };
    let mut notes: Vec<String> = given
        .iter()
        .filter(|(key, _)| key != "policy" && !found.uses(key))
        .map(|(key, at)| format!("{at}: placement {name} does not use {key}"))
        .collect();
    let tuned = tuned_cache(keys.tuned_for.as_ref(), tree)?;
    if let Some(At { place: at, .. }) = &keys.tuned_for {
        let given = [("bins", keys.bins.is_some()), ("colors", keys.colors.is_some())];
        for (key, _) in given.iter().filter(|(key, given)| *given && found.uses(key)) {
            notes.push(format!("{at}: placement.{key} is given, and is used instead"));
        }
    }
    let is_identity = found.name == "identity";
    if let (Some(At { place: at, .. }), true) = (&memory.size, is_identity) {
        notes.push(format!("{at}: with placement {name}, physical = virtual: memory has no size"));
    }
    let frames = if is_identity { None } else { Some(count_frames(memory.size.as_ref(), page, place)?) };
    let file = keys.file.as_ref().filter(|_| found.uses("file")).map(|path| path.value.clone());
    if found.uses("file") && file.is_none() {
        return Err(Problem::request(
            "missing",
            &format!("{place}: placement.file"),
            &format!("placement {name} repeats placements from a file"),
            "add file = \"PLACEMENT.parquet\", a file that `binhop run --dump-placement` wrote",
        ));
    }
    let settings = resolve(keys, found, frames, page, tuned, tree)?;
    keys.policy = Some(At::derived(name));
    keys.pool = Some(At::derived(Bytes(settings.pool * page.bytes())));
    keys.bins = Some(At::derived(UpTo(settings.bins.bytes() as u32)));
    keys.colors = Some(At::derived(UpTo(settings.colors as u32)));
    keys.fragmentation = Some(At::derived(UpTo(settings.fragmentation)));
    let config = PlacementConfig { policy: found.name, settings, file };
    Ok((config, Memory { page, frames }, notes))
}

/// Finds the cache for which the policy is tuned, if the section names one.
fn tuned_cache<'a>(name: Option<&At<String>>, tree: &'a TreeConfig) -> Result<Option<&'a CacheConfig>> {
    let Some(At { value: name, place: at }) = name else { return Ok(None) };
    match tree.caches.iter().find(|config| config.name == *name) {
        Some(cache) => Ok(Some(cache)),
        None => {
            let names: Vec<&str> = tree.caches.iter().map(|config| config.name.as_str()).collect();
            let rule = format!("a policy is tuned for a cache of its machine: {}", names.join(", "));
            Err(Problem::request(name, at, &rule, "name one of them, or give bins = … instead"))
        }
    }
}

/// Returns the bins of a cache: its size over ways × page, and at least 1.
fn bins_of(cache: &CacheConfig, page: PowerOfTwo) -> u64 {
    // The quotient is a power of two, because the sets, the line and the page are powers of two.
    (cache.size.0 / (u64::from(cache.ways) * page.bytes())).max(1)
}

/// Returns the policy's settings. A setting that the policy does not use gets one value, so that equal
/// placements have equal settings.
fn resolve(
    keys: &PlacementKeys,
    policy: &Policy,
    frames: Option<u64>,
    page: PowerOfTwo,
    tuned: Option<&CacheConfig>,
    tree: &TreeConfig,
) -> Result<Settings> {
    // There is no `..`, so a new key does not compile until it is used here.
    let PlacementKeys { policy: _, pool, bins, tuned_for: _, colors, pid_hash, sharing, fragmentation, file } =
        keys;
    let count = frames.unwrap_or(1);
    let physical = tree.caches.iter().filter(|cache| cache.index == IndexBy::Physical);
    let most = || physical.map(|cache| bins_of(cache, page)).max().unwrap_or(1);
    let natural = tuned.map_or_else(most, |cache| bins_of(cache, page));
    let bins = match bins {
        None => PowerOfTwo::new(Bytes(natural)).expect("the bins of a cache are a power of two"),
        Some(At { value: UpTo(bins), place }) => check_bins(*bins, place, frames)?,
    };
    // A key that the policy does not use need not fit this memory.
    let colors = match colors {
        None => natural.min(count),
        Some(At { value: UpTo(colors), place }) => {
            check_colors(*colors, place, frames.filter(|_| policy.uses("colors")))?
        }
    };
    // Every policy that picks from a pool has a pool, even `first`: a custom policy that replaces `first` picks
    // from this pool.
    let picks = matches!(policy.mechanism, Mechanism::Pool(_));
    let pool = match (frames.filter(|_| picks), pool) {
        (None, _) => 1,
        (Some(frames), None) => usual_pool(page, frames),
        (Some(frames), Some(pool)) => check_pool(pool, page, frames)?,
    };
    let unused = Settings::new(count, pool);
    let uses = |key| policy.uses(key);
    let settings = Settings {
        frames: count,
        pool,
        bins: if uses("bins") { bins } else { unused.bins },
        colors: if uses("colors") { colors } else { unused.colors },
        pid_hash: uses("pid-hash") && *pid_hash,
        sharing: if uses("sharing") { *sharing } else { unused.sharing },
        fragmentation: match fragmentation {
            Some(At { value: UpTo(percent), .. }) if uses("fragmentation") => *percent,
            _ => unused.fragmentation,
        },
        recording: match file {
            Some(file) if uses("file") => read_recording(file, page, count)?,
            _ => unused.recording,
        },
    };
    if frames.is_some() {
        settings.check()?;
    }
    Ok(settings)
}

/// Reads the recording in a file, in pages of the machine, and checks that its frames lie in memory.
fn read_recording(file: &At<String>, page: PowerOfTwo, frames: u64) -> Result<Arc<Recording>> {
    let At { value: path, place: at } = file;
    let place = format!("{at}: {path}");
    let placements = read_placements(path, at)?;
    let (pages, runs) = placements.in_pages(page.bytes(), &place)?;
    let pages = pages.into_iter().map(|it| (Asid(it.asid), PageNo(it.page_no), FrameNo(it.frame)));
    let runs = runs.into_iter().map(|FrameRun { first, pages }| {
        (Asid(first.asid), PageNo(first.page_no), FrameNo(first.frame), pages)
    });
    let recording = Recording::new(pages, placements.evicts).with_runs(runs);
    match recording.last_frame() {
        Some(last) if last.0 >= frames => Err(Problem::request(
            &format!("frame {last}"),
            &place,
            &format!("the frames of a recording lie in memory, which has {frames} of them"),
            &format!(
                "make memory.size what it was, or larger: {} is the least",
                Bytes((last.0 + 1).saturating_mul(page.bytes()))
            ),
        )),
        _ => Ok(Arc::new(recording)),
    }
}

fn check_bins(bins: u32, at: &str, frames: Option<u64>) -> Result<PowerOfTwo> {
    let most = Settings::MOST_BINS.bytes();
    let wrong = |rule: &str, remedy: &str| Err(Problem::request(&bins.to_string(), at, rule, remedy));
    match PowerOfTwo::new(Bytes(bins.into())) {
        Some(power) if power.bytes() <= frames.unwrap_or(most).min(most) => Ok(power),
        Some(power) if power.bytes() <= most => wrong(
            &format!("every bin has a frame, and memory has {}", frames.unwrap_or_default()),
            "take fewer bins, or make memory.size larger",
        ),
        _ if bins == 0 => {
            wrong("there is at least one bin, and their number is a power of two", "take 1 or more")
        }
        _ if u64::from(bins) > most => {
            wrong(&format!("a policy tells at most {most} bins apart"), "take fewer")
        }
        _ => {
            let below = 1u64 << bins.ilog2();
            let remedy = format!("take {below} or {}", below * 2);
            wrong("the number of bins is a power of two: the low bits of the frame number", &remedy)
        }
    }
}

fn check_colors(colors: u32, at: &str, frames: Option<u64>) -> Result<u64> {
    let wrong = |rule: &str, remedy: &str| Err(Problem::request(&colors.to_string(), at, rule, remedy));
    match frames {
        _ if colors == 0 => {
            wrong("there is at least one color", "take 1 or more; 1 is memory without colors")
        }
        Some(frames) if u64::from(colors) > frames => {
            let rule = format!("every color has a frame, and memory has {frames}");
            wrong(
                &rule,
                &format!(
                    "take {}, or make memory.size larger",
                    counted(frames, ["color", "colors or fewer"])
                ),
            )
        }
        _ => Ok(colors.into()),
    }
}

/// Returns the frames of the pool of a machine that states no pool: 4 MiB, or all of a smaller memory.
fn usual_pool(page: PowerOfTwo, frames: u64) -> u64 {
    frames.min(((4 << 20) / page.bytes()).max(1))
}

fn check_pool(pool: &At<Bytes>, page: PowerOfTwo, frames: u64) -> Result<u64> {
    let At { value: pool, place: at } = pool;
    let memory = Bytes(frames * page.bytes());
    let wrong = |rule: &str, remedy: &str| Err(Problem::request(&pool.to_string(), at, rule, remedy));
    if !pool.0.is_multiple_of(page.bytes()) || pool.0 == 0 {
        return wrong(
            &format!("a pool is a whole number of frames ({}), at least one", Bytes(page.bytes())),
            "make it a multiple of memory.page",
        );
    }
    if *pool > memory {
        return wrong(
            &format!("the pool is no larger than memory ({memory})"),
            "make the pool smaller or memory larger",
        );
    }
    Ok(pool.0 / page.bytes())
}
