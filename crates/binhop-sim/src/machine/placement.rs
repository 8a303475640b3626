//! The section `[placement]`: which policy, what it is told, and the memory it places in.

use std::sync::Arc;

use binhop_base::{Asid, Bytes, FrameNo, PageNo, PowerOfTwo, Problem, Result};
use binhop_hw::{CacheConfig, IndexBy, TreeConfig};
use binhop_os::Sharing;
use binhop_os::placement::{Manner, POLICIES, Policy, Recording, Settings, policy};
use binhop_trace::placements::Run;
use binhop_trace::read_placements;

use super::document::{Located, Section, Value, unknown};
use super::{Memory, PlacementConfig};

/// Pages that one instruction can need at once: it straddles pages, and so does its operand.
const LEAST_FRAMES: u64 = 4;

/// The section as it was typed, with its places, before it is resolved.
struct Typed {
    pool: Option<(Bytes, String)>,
    bins: Option<(u32, String)>,
    tuned_for: Option<(String, String)>,
    colors: Option<(u32, String)>,
    pid_hash: bool,
    sharing: Sharing,
    fragmentation: u32,
    file: Option<(String, String)>,
}

/// The policy and what it is told, the memory, and what the user should know.
pub(super) fn read_placement(
    placement: Option<Located>,
    page: PowerOfTwo,
    size: Option<(Bytes, String)>,
    tree: &TreeConfig,
    place: &str,
) -> Result<(PlacementConfig, Memory, Vec<String>)> {
    let empty = Located { place: format!("{place}: placement"), value: Value::Table(Vec::new()) };
    let mut section = Section::open("placement", placement.unwrap_or(empty))?;
    let (name, at) = section.text("policy")?.unwrap_or(("random".to_string(), section.place().to_string()));
    let Some(found) = policy(&name) else {
        return Err(unknown(&name, &at, "the placement policies are", POLICIES.iter().map(|p| p.name)));
    };
    let mut notes: Vec<String> = section
        .given()
        .filter(|(key, _)| *key != "policy" && !found.uses(key))
        .filter(|(key, _)| section.knows(key))
        .map(|(key, at)| format!("{at}: placement {name} does not use {key}"))
        .collect();
    let typed = Typed {
        pool: section.size("pool")?,
        bins: section.number("bins", u32::MAX)?,
        tuned_for: section.text("tuned-for")?,
        colors: section.number("colors", u32::MAX)?,
        pid_hash: section.boolean("pid-hash")?.unwrap_or(false),
        sharing: section.choice_or("sharing", Sharing::ALL, Sharing::name, Sharing::Segment)?,
        fragmentation: section.number("fragmentation", 100)?.map_or(0, |(percent, _)| percent),
        file: section.text("file")?,
    };
    section.finish()?;
    let tuned = tuned_cache(typed.tuned_for.as_ref(), tree)?;
    if let Some((_, at)) = &typed.tuned_for {
        let given = [("bins", typed.bins.is_some()), ("colors", typed.colors.is_some())];
        for (key, _) in given.iter().filter(|(key, given)| *given && found.uses(key)) {
            notes.push(format!("{at}: placement.{key} is given, and holds"));
        }
    }
    let is_identity = found.name == "identity";
    if let (Some((_, at)), true) = (&size, is_identity) {
        notes.push(format!("{at}: with placement {name}, physical = virtual: memory has no size"));
    }
    let frames = if is_identity { None } else { Some(count_frames(size, page, place)?) };
    let file = typed.file.as_ref().filter(|_| found.uses("file")).map(|(path, _)| path.clone());
    if found.uses("file") && file.is_none() {
        return Err(Problem::request(
            "missing",
            &format!("{place}: placement.file"),
            &format!("placement {name} repeats placements from a file"),
            "add file = \"PLACEMENT.parquet\": one that `binhop run --dump-placement` wrote",
        ));
    }
    let settings = typed.resolve(found, frames, page, tuned, tree)?;
    Ok((PlacementConfig { policy: found.name, settings, file }, Memory { page, frames }, notes))
}

/// The cache that a policy is tuned for, if one is named.
fn tuned_cache<'a>(name: Option<&(String, String)>, tree: &'a TreeConfig) -> Result<Option<&'a CacheConfig>> {
    let Some((name, at)) = name else { return Ok(None) };
    match tree.caches.iter().find(|config| config.name == *name) {
        Some(cache) => Ok(Some(cache)),
        None => {
            let names: Vec<&str> = tree.caches.iter().map(|config| config.name.as_str()).collect();
            let rule = format!("a policy is tuned for a cache of its machine: {}", names.join(", "));
            Err(Problem::request(name, at, &rule, "name one of them, or give bins = … instead"))
        }
    }
}

/// The bins of a cache: its size over ways times page, and at least one.
fn bins_of(cache: &CacheConfig, page: PowerOfTwo) -> u64 {
    // Sets are a power of two, and so are line and page.
    (cache.size.0 / (u64::from(cache.ways) * page.bytes())).max(1)
}

impl Typed {
    /// Returns the policy's settings. A setting that the policy does not use is left at one value, so that equal
    /// settings mean equal placements.
    fn resolve(
        self,
        policy: &Policy,
        frames: Option<u64>,
        page: PowerOfTwo,
        tuned: Option<&CacheConfig>,
        tree: &TreeConfig,
    ) -> Result<Settings> {
        let count = frames.unwrap_or(1);
        let physical = tree.caches.iter().filter(|cache| cache.index == IndexBy::Physical);
        let most = || physical.map(|cache| bins_of(cache, page)).max().unwrap_or(1);
        let natural = tuned.map_or_else(most, |cache| bins_of(cache, page));
        let bins = match &self.bins {
            None => PowerOfTwo::new(Bytes(natural)).expect("the bins of a cache are a power of two"),
            Some((bins, at)) => check_bins(*bins, at, frames)?,
        };
        // A key that the policy does not use need not fit this memory.
        let colors = match &self.colors {
            None => natural.min(count),
            Some((colors, at)) => check_colors(*colors, at, frames.filter(|_| policy.uses("colors")))?,
        };
        // A pool is there for a policy of one's own too, in place of one to which it makes no difference.
        let picks = matches!(policy.manner, Manner::Pool(_));
        let pool = match (frames.filter(|_| picks), &self.pool) {
            (None, _) => 1,
            (Some(frames), None) => usual_pool(page, frames),
            (Some(frames), Some((pool, at))) => check_pool(*pool, at, page, frames)?,
        };
        let mut settings = Settings::new(count, pool);
        for parameter in policy.parameters {
            match parameter.name {
                "bins" => settings.bins = bins,
                "colors" => settings.colors = colors,
                "pid-hash" => settings.pid_hash = self.pid_hash,
                "sharing" => settings.sharing = self.sharing,
                "fragmentation" => settings.fragmentation = self.fragmentation,
                "file" => settings.recording = read_recording(self.file.as_ref(), page, count)?,
                "pool" | "tuned-for" => {} // given above; part of bins or colors
                other => unreachable!("{}: no such parameter: {other}", policy.name),
            }
        }
        if frames.is_some() {
            settings.check()?;
        }
        Ok(settings)
    }
}

/// The recording in a file, if one is named, in pages of the machine; its frames lie in memory.
fn read_recording(file: Option<&(String, String)>, page: PowerOfTwo, frames: u64) -> Result<Arc<Recording>> {
    let Some((path, at)) = file else { return Ok(Arc::default()) };
    let place = format!("{at}: {path}");
    let placements = read_placements(path, at)?;
    let (pages, runs) = placements.in_pages(page.bytes(), &place)?;
    let pages = pages.into_iter().map(|it| (Asid(it.asid), PageNo(it.page_no), FrameNo(it.frame)));
    let runs = runs
        .into_iter()
        .map(|Run { first, pages }| (Asid(first.asid), PageNo(first.page_no), FrameNo(first.frame), pages));
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
            wrong(&rule, &format!("take {frames} colors or fewer, or make memory.size larger"))
        }
        _ => Ok(colors.into()),
    }
}

fn count_frames(size: Option<(Bytes, String)>, page: PowerOfTwo, place: &str) -> Result<u64> {
    let Some((size, at)) = size else {
        return Err(Problem::request(
            "missing",
            &format!("{place}: memory.size"),
            "a placement other than identity chooses among the frames of a memory of known size",
            "add size = \"128MiB\" to [memory]",
        ));
    };
    if !size.0.is_multiple_of(page.bytes()) || size.0 == 0 {
        return Err(Problem::request(
            &size.to_string(),
            &at,
            &format!("memory is a whole number of pages ({}), at least one", Bytes(page.bytes())),
            "make it a multiple of memory.page",
        ));
    }
    let frames = size.0 / page.bytes();
    if frames < LEAST_FRAMES {
        return Err(Problem::request(
            &size.to_string(),
            &at,
            &format!(
                "memory is too small: one instruction can touch {LEAST_FRAMES} pages (two of its own, two of its data)"
            ),
            &format!("take {} or more", Bytes(LEAST_FRAMES * page.bytes())),
        ));
    }
    if frames > u64::from(u32::MAX) {
        return Err(Problem::request(
            &size.to_string(),
            &at,
            "memory has fewer than 2^32 frames",
            "make it smaller, or its pages larger",
        ));
    }
    Ok(frames)
}

/// The pool of a machine that names none, in frames: 4 MiB, or all of a smaller memory.
pub(super) fn usual_pool(page: PowerOfTwo, frames: u64) -> u64 {
    frames.min(((4 << 20) / page.bytes()).max(1))
}

fn check_pool(pool: Bytes, at: &str, page: PowerOfTwo, frames: u64) -> Result<u64> {
    let memory = Bytes(frames * page.bytes());
    let wrong = |rule: &str, remedy: &str| Err(Problem::request(&pool.to_string(), at, rule, remedy));
    if !pool.0.is_multiple_of(page.bytes()) || pool.0 == 0 {
        return wrong(
            &format!("a pool is a whole number of frames ({}), at least one", Bytes(page.bytes())),
            "make it a multiple of memory.page",
        );
    }
    if pool > memory {
        return wrong(
            &format!("the pool is no larger than memory ({memory})"),
            "make the pool smaller or memory larger",
        );
    }
    Ok(pool.0 / page.bytes())
}
