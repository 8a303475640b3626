//! Paging with colored free lists (LF91): page faults for many memory sizes and color counts in one pass.
//!
//! Counting rules
//! - Memory has F frames, in c colors of k = F / c frames each. A page's color is the virtual page number of
//!   its first touch mod c; with the pid hash, exclusive-ored before with [`binhop_os::placement::fibonacci`] of
//!   the address space that made the touch. A page keeps its color (LF91 §4).
//! - A page comes into a frame of its color; when none is free it takes the frame of the least recently
//!   referenced page *of that color*. c = 1 is global LRU, as without colors (LF91 §1).
//! - A fault is a touch of a page that is not in memory, the first touch included. Instruction fetches and data
//!   references count alike; a reference that straddles two pages touches both, the first page first; a fetch
//!   run touches its pages in order, each once; a modify touches as a load, then as a store.
//! - Pages shared by several address spaces are one page. The end of a process frees nothing: its pages age
//!   until they are replaced (*ours*; the document does not say).
//! - References are instructions fetched and data references, as everywhere; so is the length (`binhop_trace::tool::head`).
//!
//! Which free frame of its color a page gets changes neither faults nor utilization: frames of one color are
//! interchangeable here. So the order of the free lists is not modelled; `tests/paging.rs` shows that it is no loss.
//!
//! LRU within one color is a stack algorithm: the k most recent pages of a color are in memory, whatever k is.
//! One stack per color therefore answers for every memory size, and all color counts share one reading of the trace.

mod color;
mod pass;
mod recent;
mod stacks;

use binhop_base::{Bytes, PowerOfTwo, Problem, Result};
use binhop_trace::tool::head;
use binhop_trace::{Ahead, Source};

pub use color::{FirstTouch, Utilization, utilization};

use crate::Progress;
use pass::Pass;

/// The questions that a paging pass answers about a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PagingOptions {
    /// The page size.
    pub page: Bytes,
    /// Memory sizes.
    pub sizes: Vec<Bytes>,
    /// Color counts.
    pub colors: Vec<u64>,
    /// References to read; the whole trace if absent.
    pub length: Option<u64>,
    /// True if a page's color also depends on its address space.
    pub pid_hash: bool,
    /// True if the trace is decoded (or generated) on a thread of its own. It changes no result.
    pub ahead: bool,
}

/// The results of one pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paging {
    /// References read: instructions fetched plus data references.
    pub references: u64,
    /// Instructions fetched.
    pub instructions: u64,
    /// Faults: for each color count of the plan, for each memory size of the plan.
    pub faults: Vec<Vec<u64>>,
    /// The pages touched, in order of their first touch.
    pub first_touches: Vec<FirstTouch>,
    /// Pages first touched outside every map, if the trace has maps at all.
    pub outside: u64,
    /// Pages that lie only partly in a segment of the trace, taken as private.
    pub unaligned: u64,
}

/// Color counts that one pass follows.
pub const MOST_COLOR_COUNTS: usize = 64;
/// Memory sizes that one pass follows.
pub const MOST_SIZES: usize = 128;
/// Bytes of the smallest page: numbers of such pages leave room above for one that stands for none.
const LEAST_PAGE: u64 = 16;

/// Reads a trace once and counts the page faults of every memory size with every color count.
///
/// `progress` is called often, on the calling thread; its error ends the pass.
///
/// # Errors
/// The plan asks for what cannot be (no size, more colors than frames, frames that do not divide into the
/// colors), or the trace is damaged or holds what is not simulated.
pub fn paging(
    source: Box<dyn Source>,
    options: &PagingOptions,
    progress: &mut dyn FnMut(&Progress) -> Result<()>,
) -> Result<Paging> {
    let page = check(options)?;
    let source = head(source, options.length);
    let mut source = if options.ahead { Box::new(Ahead::new(source)) as Box<dyn Source> } else { source };
    let mut pass = Pass::new(options, page, source.as_ref());
    while let Some(batch) = source.next_batch()? {
        pass.feed(&batch)?;
        progress(&Progress { references: pass.references(), of: options.length })?;
    }
    Ok(pass.finish())
}

fn refuse<T>(value: &str, place: &str, rule: &str, remedy: &str) -> Result<T> {
    Err(Problem::request(value, place, rule, remedy))
}

/// Checks a plan; the page size.
fn check(options: &PagingOptions) -> Result<PowerOfTwo> {
    let page = PowerOfTwo::check(options.page, "a page", "page")?;
    if page.bytes() < LEAST_PAGE {
        let rule = format!("a page has at least {LEAST_PAGE} bytes");
        return refuse(&options.page.to_string(), "page", &rule, "ask for, say, 4KiB");
    }
    if options.length == Some(0) {
        return refuse("0", "length", "a pass reads at least one reference", "ask for, say, 50M");
    }
    let sizes: Vec<String> = options.sizes.iter().map(ToString::to_string).collect();
    each_once(&sizes, MOST_SIZES, "sizes", "memory size", "4MiB")?;
    let colors: Vec<String> = options.colors.iter().map(ToString::to_string).collect();
    each_once(&colors, MOST_COLOR_COUNTS, "colors", "color count", "64")?;
    for &size in &options.sizes {
        let frames = size.0 / page.bytes();
        if frames == 0 || !size.0.is_multiple_of(page.bytes()) {
            let rule = format!("memory holds whole pages of {}", options.page);
            return refuse(&size.to_string(), "sizes", &rule, "give a multiple of the page size");
        }
        if frames > u64::from(u32::MAX) {
            let rule = "memory holds at most 4294967295 frames";
            return refuse(&size.to_string(), "sizes", rule, "give a smaller memory or larger pages");
        }
        for &colors in &options.colors {
            if colors == 0 {
                return refuse("0", "colors", "memory has at least one color", "ask for 1 or more");
            }
            if colors > frames {
                let rule =
                    format!("{size} are {frames} frames of {}: a color needs one at least", options.page);
                return refuse(&colors.to_string(), "colors", &rule, "fewer colors, or a larger memory");
            }
            if !frames.is_multiple_of(colors) {
                let rule = format!("the {frames} frames of {size} must divide evenly into the colors");
                return refuse(
                    &colors.to_string(),
                    "colors",
                    &rule,
                    "give a divisor, such as a power of two",
                );
            }
        }
    }
    Ok(page)
}

fn each_once(given: &[String], most: usize, place: &str, what: &str, example: &str) -> Result<()> {
    if given.is_empty() {
        return refuse("none", place, &format!("at least one {what}"), &format!("ask for, say, {example}"));
    }
    if given.len() > most {
        let rule = format!("one pass follows at most {most} of them");
        return refuse(&given.len().to_string(), place, &rule, "ask for fewer, or make several passes");
    }
    match given.iter().enumerate().find(|(at, name)| given[..*at].contains(name)) {
        Some((_, twice)) => refuse(twice, place, &format!("each {what} is asked for once"), "leave one out"),
        None => Ok(()),
    }
}
