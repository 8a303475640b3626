//! `ns_per_access` measures the time of one access: `cargo run --release -p binhop-hw --example ns_per_access`.
//!
//! Each figure is the best of 100 passes over one stream kept in memory, because other work on the machine can only add
//! time. "hits" asks a level 1 with a stream in which 98% of accesses lie in 16 KiB. "misses" asks a level 2 with lines
//! drawn uniformly from four times its size.

use std::{hint::black_box, time::Instant};

use binhop_base::{
    Agent, Agents, Bytes, Domain, FrameNo, Kind, LineAddr, MappingId, PageId, PageNo, PowerOfTwo, Rng,
    Stream, Translation,
};
use binhop_hw::{
    Back, Below, CacheConfig, CostRule, Front, IndexBy, Next, Origin, Replacement, Request, Rules, TagBy,
    Tree, TreeConfig, Witness, WritePolicy, WritebackOrder,
};

const PAGE: u64 = 16 << 10;
const ACCESSES: u64 = 1 << 18;

/// `World` has one mapping for each page, and pages in shuffled frames.
struct World(Vec<u64>);

impl Translation for World {
    #[inline]
    fn page(&self, mapping: MappingId) -> PageId {
        PageId(mapping.0)
    }
    #[inline]
    fn frame(&self, page: PageId) -> FrameNo {
        FrameNo(self.0[page.index()])
    }
    #[inline]
    fn virtual_page(&self, mapping: MappingId) -> PageNo {
        PageNo(u64::from(mapping.0))
    }
}

/// `Nothing` stands for the levels behind, which do not matter here.
struct Nothing;

impl Witness for Nothing {}

impl Below for Nothing {
    fn request(&mut self, _request: Request, _now: u64) -> u64 {
        0
    }
}

fn power(value: u64) -> PowerOfTwo {
    PowerOfTwo::new(Bytes(value)).expect("a power of two")
}

fn cache(size: u64, line: u64, ways: u32, replacement: Replacement, next: Next) -> CacheConfig {
    CacheConfig {
        name: format!("{} {ways}-way {}", Bytes(size), replacement.name()),
        size: Bytes(size),
        line: power(line),
        ways,
        index: IndexBy::Physical,
        hashed: false,
        tag: TagBy::Physical,
        write: WritePolicy::Back,
        allocate: true,
        replacement,
        writeback_order: WritebackOrder::AfterFill,
        inclusive: false,
        write_buffer: None,
        streams: None,
        cost: 0,
        next,
    }
}

fn best_ns(mut pass: impl FnMut()) -> f64 {
    let time = |_| {
        let start = Instant::now();
        pass();
        start.elapsed().as_nanos() as f64 / ACCESSES as f64
    };
    (0..100).map(time).fold(f64::INFINITY, f64::min)
}

/// Makes accesses to lines of 2^`line_log2` bytes: `local` percent of them in the first `near` bytes, the rest
/// anywhere in the first `far` bytes.
fn stream(local: u64, near: u64, far: u64, line_log2: u32) -> Vec<(Kind, LineAddr)> {
    let rng = Rng::new(1);
    let draw = |index: u64, which, below| rng.below(Stream::new(Domain::Test, which), index, below);
    (0..ACCESSES)
        .map(|index| {
            let within = if draw(index, 0, 100) < local { near } else { far };
            let address = draw(index, 1, within);
            let kind = [Kind::Load, Kind::Load, Kind::Store][draw(index, 2, 3) as usize];
            let line = ((address % PAGE) >> line_log2) as u32;
            (kind, LineAddr { id: (address / PAGE) as u32, line })
        })
        .collect()
}

fn main() {
    let mut frames: Vec<u64> = (0..8192).collect();
    Rng::new(2).shuffle(Stream::new(Domain::Test, 3), &mut frames);
    let world = World(frames);
    let tree = |caches: Vec<CacheConfig>| {
        Tree::new(TreeConfig {
            rules: Rules::Lines,
            caches,
            page: power(PAGE),
            fetch: 0,
            data: 0,
            memory_cost: 0,
            cost_rule: CostRule::Total,
            agents: Agents::USER,
        })
    };

    let near = stream(98, 16 << 10, 64 << 20, 5);
    let mut tags = vec![u64::MAX; 1024];
    let mut missed = 0u64;
    let ns = best_ns(|| {
        for &(_, at) in &near {
            let line = world.0[at.id as usize] << 9 | u64::from(at.line);
            let tag = &mut tags[line as usize & 1023];
            if *tag != line {
                *tag = line;
                missed += 1;
            }
        }
    });
    println!("the least one could do   hits    {ns:6.2} ns/access  ({missed} missed in all passes)");
    for (ways, replacement) in [(1, Replacement::Lru), (2, Replacement::Lru), (8, Replacement::Lru)] {
        let config = cache(32 << 10, 32, ways, replacement, Next::Memory);
        let name = config.name.clone();
        let tree = tree(vec![config]);
        let mut front = Front::new(&tree, Rng::new(0));
        let ns = best_ns(|| {
            for &(kind, at) in &near {
                black_box(front.access(0, kind, at, 0, &world, &mut Nothing));
            }
        });
        let mut other = Front::new(&tree, Rng::new(0));
        let block_ns = best_ns(|| {
            black_box(other.access_all(&near, &world, &mut Nothing));
        });
        let counters = front.counters(0);
        let missed = counters.misses.total() as f64 / counters.accesses.total() as f64;
        println!(
            "{name:<24} hits    {ns:6.2} ns/access, in blocks {block_ns:6.2}  ({:.1}% missed)",
            100.0 * missed
        );
    }

    let far = stream(0, 1, 16 << 20, 6);
    for (ways, replacement) in [
        (1, Replacement::Lru),
        (4, Replacement::Random),
        (4, Replacement::Lru),
        (16, Replacement::Lru),
        (16, Replacement::Random),
        (16, Replacement::Plru),
        (16, Replacement::Srrip),
    ] {
        let above = cache(32 << 10, 32, 1, Replacement::Lru, Next::Cache(1));
        let config = cache(4 << 20, 64, ways, replacement, Next::Memory);
        let name = config.name.clone();
        let mut back = Back::new(&tree(vec![above, config]), Rng::new(0));
        let requests: Vec<Request> = far
            .iter()
            .map(|&(kind, at)| {
                let kind = if kind == Kind::Store { Kind::Writeback } else { kind };
                Request { at, to: 1, kind, origin: Origin::new(Agent::User, 6), data: 6 }
            })
            .collect();
        let ns = best_ns(|| {
            black_box(back.replay(&requests, &world));
        });
        let counters = back.counters(1);
        let missed = counters.misses.total() as f64 / counters.accesses.total() as f64;
        println!("{name:<24} misses  {ns:6.2} ns/access  ({:.1}% missed)", 100.0 * missed);
    }
}
