//! `TableFrames` gives the pages of page tables, and the page of the handlers, their frames in one lane.
//!
//! Rules
//! - These frames lie above the memory of programs. So a page of a program has the frame that it has without
//!   translation.
//! - A page of the tables has its frame from the start to the end. The tables use the lowest free page first. So the
//!   result is the same as if a page took its frame at its first use.
//! - Under `placement = "policy"` the machine's own policy places these pages, with the machine's settings, in a memory
//!   of their own that begins at a multiple of its bins and colors. This memory is so large that no page leaves it: it
//!   has a frame for every page and, in addition, as many frames as the pool. Its seed is drawn from the lane's seed.

use std::ops::Range;

use binhop_base::{Asid, Domain, FrameNo, PageId, Result, Rng, Stream};
use binhop_os::page_table::PageTables;
use binhop_os::placement::Settings;
use binhop_os::{PageRequest, Recency, SegmentId};

use crate::frame_map::FrameMap;
use crate::machine::{Machine, TablePlacement, TranslationConfig};
use crate::prepare::own_page;
use crate::results::account::broken;

/// `TableFrames` knows which pages are pages of page tables or of handlers, and where their frames lie.
pub(super) struct TableFrames {
    /// The number of the first page of the tables, and of the page behind the page of the handlers.
    pages: Range<u32>,
    /// The frames of the reserve.
    reserve: Range<u64>,
}

impl TableFrames {
    /// Gives the pages their frames. `first` is the number of the first page of the tables.
    pub(super) fn place(
        machine: &Machine,
        config: &TranslationConfig,
        seed: u64,
        first: u32,
        map: &mut FrameMap,
    ) -> Result<Self> {
        let above = machine.memory().frames.expect("tables need frames: the machine is checked");
        let pages = first..first + config.pages();
        let of_page = |number| own_page(number, machine.memory().page);
        let mut reserve = above..above + u64::from(config.pages());
        let mut frames: Vec<u64> = reserve.clone().collect();
        match config.placement {
            TablePlacement::Fixed => {}
            TablePlacement::Random => Rng::new(seed).shuffle(Stream::new(Domain::Table, 0), &mut frames),
            TablePlacement::Policy => {
                let settings = own_memory(machine, config.pages().into());
                let unit = settings.bins.bytes() * settings.colors;
                let start = above.next_multiple_of(unit);
                reserve = start..start + settings.frames;
                let seed = Rng::new(seed).draw(Stream::new(Domain::Table, 1), 0);
                let mut memory = machine.placement().policy().frames(&settings, seed)?;
                let mut recency = Recency::new();
                for (number, frame) in (0..).zip(&mut frames) {
                    let (page, segment) = (PageId(number), SegmentId(0));
                    recency.note(page, u64::from(number) + 1);
                    let page_no = of_page(first + number).1;
                    let segments = [segment].into();
                    let request = PageRequest {
                        page,
                        asid: Asid(0),
                        page_no,
                        segment,
                        segments,
                        run: None,
                        in_kernel: false,
                    };
                    *frame = start + memory.place(&request, &recency)?.frame.0;
                }
            }
        }
        // The last page comes first, so that the map grows once.
        for (number, frame) in pages.clone().zip(frames).rev() {
            map.put(of_page(number).0, FrameNo(frame));
        }
        Ok(Self { pages, reserve })
    }

    /// Checks that each page of the tables has one frame of the reserve, that no other page has a frame there, and that
    /// these pages are the pages that the tables use, the free pages, and the page of the handlers.
    ///
    /// # Errors
    /// An invariant is broken; the error names it.
    pub(super) fn check(&self, map: &FrameMap, tables: &PageTables, seed: u64) -> Result<()> {
        let counted = u64::from(tables.used()) + u64::from(tables.free()) + 1;
        if counted != self.pages.len() as u64 {
            let value = format!("{} table pages in use, {} free", tables.used(), tables.free());
            let rule =
                format!("table pages in use + free ones + the page of handlers = {}", self.pages.len());
            return Err(broken(&value, &rule, seed));
        }
        let mut taken = vec![false; (self.reserve.end - self.reserve.start) as usize];
        let mut frames = 0;
        for (page, frame) in map.all() {
            let of_tables = self.pages.contains(&page.0);
            if of_tables != self.reserve.contains(&frame.0) {
                let what = if of_tables { "table page" } else { "page" };
                return Err(broken(
                    &format!("{what} {page} in frame {frame}"),
                    &format!("pages of tables, and no others, have frames {:?}", self.reserve),
                    seed,
                ));
            }
            if !of_tables {
                continue;
            }
            if std::mem::replace(&mut taken[(frame.0 - self.reserve.start) as usize], true) {
                let value = format!("table page {page} in frame {frame}");
                return Err(broken(&value, "a frame holds one page of the tables", seed));
            }
            frames += 1;
        }
        if frames != self.pages.len() {
            let value = format!("{frames} frames for {} pages", self.pages.len());
            return Err(broken(&value, "each page of the tables has a frame", seed));
        }
        Ok(())
    }
}

/// Returns the settings of the memory in which the machine's policy places `pages` pages of tables.
fn own_memory(machine: &Machine, pages: u64) -> Settings {
    let placement = machine.placement();
    // No older page lies in the reserve.
    let mut settings = Settings { fragmentation: 0, ..placement.settings.clone() };
    let unit = settings.bins.bytes() * settings.colors;
    settings.frames = (pages + settings.pool).next_multiple_of(unit);
    // The policy evicts no page before it has placed its number of safe frames.
    while placement.policy().safe_frames(&settings).is_some_and(|safe| safe < pages) {
        settings.frames += unit.max(pages.next_multiple_of(unit));
    }
    settings
}

#[cfg(test)]
mod tests {
    use binhop_base::PowerOfTwo;
    use binhop_os::page_table::{TableConfig, TableKind};

    use super::*;

    /// Returns a machine whose tables take frames by this rule, under this policy.
    fn machine(policy: &str, placement: &str) -> Machine {
        let text = format!(
            r#"
memory = {{ page = "4KiB", size = "1004KiB" }}
placement = {{ policy = "{policy}", pool = "64KiB" }}
[cache.l1]
serves = "all"
size = "32KiB"
line = "32B"
next = "memory"
[tlb.tlb]
serves = "all"
entries = 4
[translation]
active = true
table = "radix"
reserve = "64KiB"
placement = "{placement}"
"#
        );
        Machine::parse(&text, "small", &[]).unwrap()
    }

    /// Returns the frames of a machine's tables.
    fn placed(machine: &Machine, seed: u64) -> (TableFrames, FrameMap, Vec<u64>) {
        let config = machine.translation().unwrap();
        let mut map = FrameMap::default();
        let frames = TableFrames::place(machine, config, seed, 3, &mut map).unwrap();
        let of = frames.pages.clone().map(|page| map.last(PageId(page)).unwrap().0).collect();
        (frames, map, of)
    }

    fn tables(machine: &Machine) -> PageTables {
        PageTables::new(&machine.translation().unwrap().table).unwrap()
    }

    #[test]
    fn every_policy_places_tables_in_frames_of_their_own() {
        for policy in binhop_os::placement::POLICIES {
            if ["identity", "recorded"].contains(&policy.name) {
                continue;
            }
            for rule in ["random", "fixed", "policy"] {
                let machine = machine(policy.name, rule);
                for seed in 0..3 {
                    let (frames, map, _) = placed(&machine, seed);
                    frames.check(&map, &tables(&machine), seed).unwrap();
                }
            }
        }
    }

    #[test]
    fn the_policy_of_the_machine_chooses_the_bins_of_tables() {
        // Level 1 has 8 bins. 251 frames of memory are no multiple of 8.
        let bins = |policy: &str| {
            let (_, _, frames) = placed(&machine(policy, "policy"), 1);
            assert_eq!(frames.len(), 17);
            frames.into_iter().map(|frame| frame % 8).collect::<Vec<_>>()
        };
        // The pages of tables go down from the end of the kernel's space.
        let last = (u64::MAX >> 12) - 3;
        let equal: Vec<u64> = (0..17).map(|number| (last - number) % 8).collect();
        assert_eq!(bins("page-coloring-equal"), equal);
        // Where the pool lacks a frame of the next bin, the policy takes a later bin.
        let hops = |bins: &[u64]| bins.windows(2).filter(|two| (two[0] + 1) % 8 == two[1]).count();
        let (hopping, drawn) = (bins("bin-hopping"), bins("random"));
        assert!(hops(&hopping) >= 12, "{hopping:?}");
        assert!(hops(&drawn) < 8, "{drawn:?}");
    }

    #[test]
    fn seeds_place_tables_apart() {
        let of = |rule: &str, seed| placed(&machine("random", rule), seed).2;
        assert_ne!(of("policy", 0), of("policy", 1));
        assert_ne!(of("random", 0), of("random", 1));
        assert_eq!(of("fixed", 0), (251..268).collect::<Vec<u64>>());
    }

    /// Checks that damage to the frames of a lane is found.
    fn damaged(damage: impl Fn(&mut FrameMap), value: &str) {
        let machine = machine("random", "fixed");
        let (frames, mut map, _) = placed(&machine, 0);
        map.put(PageId(20), FrameNo(250));
        frames.check(&map, &tables(&machine), 0).unwrap();
        damage(&mut map);
        let problem = frames.check(&map, &tables(&machine), 0).unwrap_err();
        assert_eq!(problem.value, value);
    }

    #[test]
    fn broken_frames_of_tables_are_found() {
        damaged(|map| map.put(PageId(4), FrameNo(251)), "table page 4 in frame 251");
        damaged(|map| map.put(PageId(4), FrameNo(268)), "table page 4 in frame 268");
        damaged(|map| map.put(PageId(4), FrameNo(17)), "table page 4 in frame 17");
        damaged(|map| map.put(PageId(20), FrameNo(252)), "page 20 in frame 252");
        damaged(|map| *map = FrameMap::default(), "0 frames for 17 pages");
        let machine = machine("random", "fixed");
        let (frames, map, _) = placed(&machine, 0);
        let other = TableConfig {
            kind: TableKind::Mips,
            page: PowerOfTwo::from_log2(12),
            entry: 4,
            reserve: 15,
            frames: 251,
        };
        let problem = frames.check(&map, &PageTables::new(&other).unwrap(), 0).unwrap_err();
        assert_eq!(problem.value, "0 table pages in use, 15 free");
    }
}
