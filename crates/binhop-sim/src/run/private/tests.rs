//! The private caches of each life are compared, after every step, with a slow tree of caches of its own.

use binhop_base::{FrameNo, PageNo, Rng};
use binhop_hw::{Back, Front};
use binhop_oracle::cache::{Config, Name, WriteBuffer};
use binhop_oracle::cache_tree::CacheTree;
use proptest::prelude::*;

use super::*;
use crate::Machine;
use crate::events::Switch;
use crate::frame_map::{FrameMap, Tables};
use crate::prepare::Mapped;

const PAGE: u64 = 4096;
const SPACES: u32 = 3;
/// The pages that a space sees; the first two are the same in every space.
const SEEN: u32 = 6;
const FRAMES: u64 = 64;

const MACHINE: &str = r#"
memory = { page = "4KiB", size = "256KiB" }
placement = { policy = "random", pool = "64KiB" }
[cache.l1i]
serves = "fetch"
size = "8KiB"
line = "64B"
TAG
next = "l2"
[cache.l1d]
serves = "data"
size = "8KiB"
line = "64B"
ways = 2
TAG
WRITE
next = "l2"
[cache.l2]
size = "SIZE"
line = "128B"
ways = 2
replacement = "REPLACEMENT"
next = "memory"
BUFFER
[cost]
l2 = 9
memory = 50
"#;

#[derive(Clone, Debug)]
enum Step {
    Access { kind: u8, page: u32, offset: u64, gap: u64 },
    Turn { asid: u32 },
    End { asid: u32 },
    Move { page: u32, frame: u64 },
    Flush { caches: u8 },
}

fn step() -> impl Strategy<Value = Step> {
    let line = (0u64..8).prop_map(|line| line * 64 * 7 % PAGE);
    prop_oneof![
        30 => (0u8..3, 0..SEEN, line, 0u64..9).prop_map(|(kind, page, offset, gap)| Step::Access { kind, page, offset, gap }),
        3 => (0..SPACES).prop_map(|asid| Step::Turn { asid }),
        1 => (0..SPACES).prop_map(|asid| Step::End { asid }),
        1 => (0..1u8 << 3).prop_map(|caches| Step::Flush { caches }),
        1 => (0..2 + SPACES * (SEEN - 2), 0..FRAMES).prop_map(|(page, frame)| Step::Move { page, frame }),
    ]
}

/// Returns the oracle's tree of a machine's caches.
fn slow_tree(machine: &Machine, seed: u64) -> CacheTree {
    let config = machine.tree().config();
    let caches = config.caches.iter().enumerate().map(|(number, cache)| Config {
        line: cache.line.bytes(),
        sets: cache.sets(),
        ways: cache.ways as usize,
        tag: if cache.keyed_by_mapping() { "asid" } else { "physical" },
        index: if cache.keyed_by_mapping() { "virtual" } else { "physical" },
        write: if cache.write == binhop_hw::WritePolicy::Through { "through" } else { "back" },
        allocate: cache.allocate,
        replacement: cache.replacement.name(),
        next: (number < 2).then_some(2),
        cost: cache.cost,
        write_buffer: (cache.write_buffer.is_some()).then_some(WriteBuffer {
            entries: 2,
            drain: 7,
            merge: false,
            stalls: true,
        }),
        streams: None,
        hashed: false,
        writeback_order: "after-fill",
        inclusive: false,
    });
    CacheTree::new(caches.collect(), PAGE, config.memory_cost, false, Rng::new(seed))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn private_caches_hold_what_a_computer_of_their_own_holds(
        tagged: bool,
        through: bool,
        random: bool,
        chunks: bool,
        steps in prop::collection::vec(step(), 1..400),
    ) {
        let tag = if tagged { "index = \"virtual\"\ntag = \"asid\"" } else { "" };
        let write = if through { "write = \"through\"\nallocate = false" } else { "" };
        let buffer = if through { "[write-buffer.l1d]\nentries = 2\ndrain = 7" } else { "" };
        let toml = MACHINE.replace("TAG", tag).replace("WRITE", write).replace("BUFFER", buffer)
            .replace("REPLACEMENT", if random { "random" } else { "lru" })
            // The private caches of the larger level 2 are sparse: four chunks of a page's sets.
            .replace("SIZE", if chunks { "32KiB" } else { "16KiB" });
        let machine = Machine::parse(&toml, "small", &[]).unwrap();
        let tree = machine.tree();
        let (mut tables, mut frames) = (Tables::default(), FrameMap::default());
        let page_of = |asid: u32, seen: u32| if seen < 2 { seen } else { 2 + asid * (SEEN - 2) + seen - 2 };
        for asid in 0..SPACES {
            let mapped = |seen| Mapped { page: PageId(page_of(asid, seen)), virtual_page: PageNo(seen.into()) };
            tables.extend(&(0..SEEN).map(mapped).collect::<Vec<_>>());
        }
        let pages = 2 + SPACES * (SEEN - 2);
        (0..pages).for_each(|page| frames.put(PageId(page), FrameNo(page.into())));
        let mut held_by: BTreeMap<u64, u32> = (0..pages).map(|page| (page.into(), page)).collect();
        let (mut front, mut back) = (Front::new(tree, Rng::new(5)), Back::new(tree, Rng::new(5)));
        let mut private =
            PrivateCaches::new(tree, 5, SwitchTally::new(3, false, &std::sync::Arc::default()));
        let mut slow: BTreeMap<(u32, u32), CacheTree> = BTreeMap::from([((0, 0), slow_tree(&machine, 5))]);
        let (mut asid, mut lives, mut now, mut executed) = (0, [0u32; SPACES as usize], 0, 0);
        for step in steps {
            let translation = LaneTranslation { tables: &tables, frames: Some(&frames) };
            let mut shared = Computer::over(&mut front, &mut back, now);
            match step {
                Step::Access { kind, page, offset, gap } => {
                    let kind = [Kind::Fetch, Kind::Load, Kind::Store][usize::from(kind)];
                    let mapping = asid * SEEN + page;
                    let (cache, line) = (usize::from(kind != Kind::Fetch), (offset / 64) as u32);
                    private.pass(gap);
                    executed += gap;
                    shared.now += gap;
                    private.access(&mut shared, Agent::User, kind, LineAddr { id: mapping, line }, &translation);
                    now = shared.now;
                    let own = slow.get_mut(&(asid, lives[asid as usize])).unwrap();
                    own.now += gap;
                    own.access(cache, kind, mapping, offset, &translation);
                }
                Step::Turn { asid: next } => {
                    asid = next;
                    let life = lives[asid as usize];
                    let turn = Turn { process: asid, asid: Asid(asid), life, switch: Switch::default() };
                    private.turn(&turn, executed).unwrap();
                    slow.entry((asid, life)).or_insert_with(|| slow_tree(&machine, 5));
                }
                Step::End { asid: ends } if ends != asid => {
                    let life = lives[ends as usize];
                    private.life_ended(Asid(ends), life).unwrap();
                    if slow.remove(&(ends, life)).is_some() {
                        lives[ends as usize] += 1;
                    }
                }
                Step::End { .. } => {}
                Step::Flush { caches } => {
                    let named: Vec<usize> = (0..3).filter(|cache| caches >> cache & 1 == 1).collect();
                    private.flush(&mut shared, Agent::User, &named, &translation);
                    slow.values_mut().for_each(|tree| tree.flush_caches(&named));
                }
                Step::Move { page, frame } => {
                    if held_by.contains_key(&frame) {
                        continue;
                    }
                    let mappings: Vec<MappingId> = tables.mappings_of(PageId(page)).collect();
                    private.flush_page(&mut shared, PageId(page), &mappings, &translation);
                    slow.values_mut().for_each(|tree| tree.flush_page(page, &translation));
                    held_by.retain(|_, holder| *holder != page);
                    held_by.insert(frame, page);
                    frames.put(PageId(page), FrameNo(frame));
                }
            }
            for (&(asid, life), expected) in &slow {
                let computer = private.computer_of(Asid(asid), life).expect("the life is alive");
                prop_assert_eq!(computer.now, expected.now);
                for cache in 0..3 {
                    let line = tree.config().caches[cache].line.bytes();
                    let mut held: Vec<(u32, u64, bool)> = computer.contents(cache).into_iter().flatten().flatten()
                        .map(|line_held| (line_held.at.id, u64::from(line_held.at.line) * line, line_held.dirty)).collect();
                    let mut wanted: Vec<(u32, u64, bool)> = expected.caches[cache].sets.iter().flatten().flatten()
                        .map(|line| match line.name { Name::Page(id) | Name::Mapping(id) => (id, line.offset, line.dirty) }).collect();
                    held.sort_unstable();
                    wanted.sort_unstable();
                    prop_assert_eq!(held, wanted, "cache {} of life {} of {}", cache, life, asid);
                }
            }
        }
    }
}

/// Runs a few instructions and an access in a life whose clock is wrong by so many cycles, up to the end of the run.
fn finish_with(wrong: u64) -> Result<SwitchReadings> {
    let toml = MACHINE.replace("TAG", "").replace("WRITE", "").replace("BUFFER", "");
    let toml = toml.replace("REPLACEMENT", "lru").replace("SIZE", "16KiB");
    let machine = Machine::parse(&toml, "small", &[]).unwrap();
    let tree = machine.tree();
    let (mut tables, mut frames) = (Tables::default(), FrameMap::default());
    tables.extend(&[Mapped { page: PageId(0), virtual_page: PageNo(0) }]);
    frames.put(PageId(0), FrameNo(0));
    let translation = LaneTranslation { tables: &tables, frames: Some(&frames) };
    let (mut front, mut back) = (Front::new(tree, Rng::new(5)), Back::new(tree, Rng::new(5)));
    let mut private = PrivateCaches::new(tree, 5, SwitchTally::new(3, false, &std::sync::Arc::default()));
    let mut shared = Computer::over(&mut front, &mut back, 0);
    let mut waited = 0;
    // Life 0 of address space 1 ends while it is away, and its clock counts all the same.
    for (executed, asid) in [(0, 1), (10, 2)] {
        private
            .turn(&Turn { process: asid, asid: Asid(asid), life: 0, switch: Switch::default() }, executed)?;
        private.reach(executed + 10);
        let at = LineAddr { id: 0, line: asid };
        waited += private.access(&mut shared, Agent::User, Kind::Load, at, &translation).cycles;
    }
    private.lives[private.running].computer.as_mut().unwrap().now += wrong;
    private.life_ended(Asid(1), 0)?;
    let stream = StreamCounts { instructions: 20, ..StreamCounts::default() };
    private.end(&stream)?;
    private.finish(20, waited, 5)
}

#[test]
fn a_clock_that_is_wrong_is_reported() {
    finish_with(0).unwrap();
    let problem = finish_with(1).unwrap_err().to_string();
    assert!(problem.contains("cycles in private caches"), "{problem}");
}
