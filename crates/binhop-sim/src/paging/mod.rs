//! `paging` counts page faults with colored free lists (LF91), for many memory sizes and color counts in
//! one pass.
//!
//! Counting rules
//! - Memory has F frames, in c colors of k = F / c frames each. A page's color is the number of the virtual page of its
//!   first touch, mod c. With the pid hash the number is first exclusive-ored with
//!   [`binhop_os::placement::fibonacci`] of the address space that made the touch. A page keeps its color (LF91 §4).
//! - A page gets a free frame of its color. If no frame of the color is free, the page takes the frame of the least
//!   recently referenced page *of that color*. With c = 1 this is global LRU, as without colors (LF91 §1).
//! - A fault is a touch of a page that is not in memory; a first touch is always a fault. Instruction fetches
//!   and data references count alike. A reference that straddles two pages touches both, the first page
//!   first. A fetch run touches its pages in order, each page once. A modify touches as a load, then as a store.
//! - A page that several address spaces share is one page. The end of a process frees nothing: the pages of the process
//!   age until they are replaced. This rule is binhop's own, because LF91 states none.
//! - References and the length are counted as everywhere: instructions fetched and data references, and the rows up to
//!   the length (`binhop_trace::transform::head`).
//!
//! A page may get any free frame of its color: the choice changes neither faults nor utilization, because
//! frames of one color are interchangeable here. The order of the free lists is therefore not modelled;
//! `tests/paging.rs` compares with a model that keeps this order.
//!
//! LRU within one color is a stack algorithm: memory holds the k most recent pages of a color, for every k. One stack
//! per color therefore answers for every memory size, and all color counts share one reading of the trace.

mod color;
mod pass;
mod recent;
mod stacks;

use binhop_base::{Bytes, PowerOfTwo, Problem, Result, counted};
use binhop_trace::transform::head;
use binhop_trace::{Ahead, Source};

pub use color::{FirstTouch, Utilization, utilization};

use crate::Progress;
use pass::Pass;

/// `PagingOptions` states what a paging pass counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PagingOptions {
    /// The size of a page.
    pub page: Bytes,
    /// The memory sizes.
    pub sizes: Vec<Bytes>,
    /// The color counts.
    pub colors: Vec<u64>,
    /// The number of references to read; `None` reads the whole trace.
    pub length: Option<u64>,
    /// True if a page's color also depends on its address space.
    pub pid_hash: bool,
    /// True if the trace is decoded (or generated) on a thread of its own. The thread changes no result.
    pub ahead: bool,
}

/// `Paging` is the result of one pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paging {
    /// The references read: instructions fetched plus data references.
    pub references: u64,
    /// The instructions fetched.
    pub instructions: u64,
    /// The faults: for each color count of the options, a count for each memory size of the options.
    pub faults: Vec<Vec<u64>>,
    /// The pages touched, in order of their first touch.
    pub first_touches: Vec<FirstTouch>,
    /// The number of pages first touched outside every map, if the trace has maps at all.
    pub outside: u64,
    /// The number of pages that lie only partly in a segment of the trace. They are simulated as private.
    pub unaligned: u64,
}

/// The maximum number of color counts in one pass.
pub const MOST_COLOR_COUNTS: usize = 64;
/// The maximum number of memory sizes in one pass.
pub const MOST_SIZES: usize = 128;
/// The bytes of the smallest page. Page numbers then stay below the number that stands for no page.
const LEAST_PAGE: u64 = 16;

/// Reads a trace once, and counts the page faults of every memory size with every color count.
///
/// The pass calls `progress` often, on the calling thread. An error that `progress` returns ends the pass.
///
/// # Errors
/// The options contradict each other (no size, more colors than frames, frames that do not divide into the
/// colors), the trace is damaged, or the trace holds an event that is not simulated.
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

/// Checks the options, and returns the page size.
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
                let room = counted(frames, ["frame", "frames"]);
                let rule =
                    format!("{size} has room for {room} of {}: a color needs one at least", options.page);
                return refuse(
                    &colors.to_string(),
                    "colors",
                    &rule,
                    "ask for fewer colors, or a larger memory",
                );
            }
            if !frames.is_multiple_of(colors) {
                let rule =
                    format!("{size} has room for {frames} frames, which must divide evenly into the colors");
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
        return refuse(
            "none",
            place,
            &format!("a pass needs at least one {what}"),
            &format!("ask for, say, {example}"),
        );
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
