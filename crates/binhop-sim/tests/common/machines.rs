//! `SMALL` lists small machines, and `run` simulates events on a machine.

use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use binhop_hw::{Replacement, Rules};
use binhop_sim::{Machine, Outcome, RunOptions, simulate};
use binhop_trace::EventBatch;
use proptest::prelude::*;

use super::events::Fixed;

/// `SMALL` lists machines so small that a short trace fills and overflows every part of them.
pub const SMALL: &[(&str, &str)] = &[
    (
        "physical level 1, memory ample",
        r#"memory = { size = "1MiB", page = "4KiB" }
           placement = { policy = "random", pool = "64KiB" }
           [cache.l1i]
           serves = "fetch"
           size = "8KiB"
           line = "32B"
           next = "l2"
           [cache.l1d]
           serves = "data"
           size = "8KiB"
           line = "32B"
           next = "l2"
           writeback-order = "before-fill"
           [cache.l2]
           size = "32KiB"
           line = "128B"
           ways = 2
           replacement = "random"
           next = "memory""#,
    ),
    (
        "level 1 within the page, memory scarce",
        r#"memory = { size = "96KiB", page = "4KiB" }
           placement = { policy = "random", pool = "32KiB" }
           [cache.l1i]
           serves = "fetch"
           size = "4KiB"
           line = "32B"
           ways = 4
           next = "l2"
           [cache.l1d]
           serves = "data"
           size = "2KiB"
           line = "16B"
           ways = 2
           replacement = "srrip"
           next = "l2"
           [cache.l2]
           size = "16KiB"
           line = "64B"
           next = "memory""#,
    ),
    (
        "level 1 within the page, memory ample, lines of one size, costs that add up",
        r#"memory = { size = "2MiB", page = "4KiB" }
           placement = { policy = "random", pool = "512KiB" }
           [cache.l1i]
           serves = "fetch"
           size = "1KiB"
           line = "64B"
           next = "l2"
           [cache.l1d]
           serves = "data"
           size = "2KiB"
           line = "64B"
           ways = 2
           next = "l2"
           [cache.l2]
           size = "32KiB"
           line = "64B"
           next = "memory"
           [cost]
           mode = "add"
           l2 = 13
           memory = 200"#,
    ),
    (
        "unified level 1, tree-PLRU, write-through data below",
        r#"memory = { size = "128KiB", page = "4KiB" }
           placement = { policy = "first", pool = "16KiB" }
           [cache.l1]
           serves = "all"
           size = "2KiB"
           line = "32B"
           ways = 4
           replacement = "plru"
           next = "l2"
           [cache.l2]
           size = "16KiB"
           line = "64B"
           ways = 4
           replacement = "fifo"
           write = "through"
           allocate = false
           next = "memory""#,
    ),
    (
        "write-through level 1 without allocation, with a write buffer and costs",
        r#"memory = { size = "160KiB", page = "4KiB" }
           placement = { policy = "random", pool = "160KiB" }
           [cache.l1i]
           serves = "fetch"
           size = "2KiB"
           line = "16B"
           next = "l2"
           [cache.l1d]
           serves = "data"
           size = "2KiB"
           line = "16B"
           write = "through"
           allocate = false
           next = "l2"
           [cache.l2]
           size = "16KiB"
           line = "128B"
           next = "memory"
           [write-buffer.l1d]
           entries = 4
           drain = 6
           [cost]
           l2 = 13
           memory = 200"#,
    ),
    (
        "stream buffers for level 1, of which data are written through, and for a level 2 in little memory",
        r#"memory = { size = "120KiB", page = "4KiB" }
           placement = { policy = "random", pool = "40KiB" }
           [cache.l1i]
           serves = "fetch"
           size = "1KiB"
           line = "16B"
           next = "l2"
           [cache.l1d]
           serves = "data"
           size = "1KiB"
           line = "16B"
           write = "through"
           allocate = false
           next = "l2"
           [cache.l2]
           size = "8KiB"
           line = "128B"
           next = "memory"
           [stream-buffers.l1i]
           buffers = 1
           [stream-buffers.l1d]
           [stream-buffers.l2]
           buffers = 2
           depth = 3
           [cost]
           l2 = 13
           memory = 200"#,
    ),
    (
        "virtual level 1 with address-space tags, hashed level 2",
        r#"memory = { size = "120KiB", page = "4KiB" }
           placement = { policy = "random", pool = "40KiB" }
           [cache.l1i]
           serves = "fetch"
           size = "8KiB"
           line = "32B"
           index = "virtual"
           tag = "asid"
           next = "l2"
           [cache.l1d]
           serves = "data"
           size = "16KiB"
           line = "32B"
           ways = 2
           index = "virtual"
           tag = "asid"
           next = "l2"
           [cache.l2]
           size = "16KiB"
           line = "64B"
           ways = 2
           hash = true
           next = "memory""#,
    ),
    (
        "inclusive level 2, random level 1",
        r#"memory = { size = "112KiB", page = "4KiB" }
           placement = { policy = "random", pool = "8KiB" }
           [cache.l1i]
           serves = "fetch"
           size = "2KiB"
           line = "32B"
           ways = 2
           replacement = "random"
           next = "l2"
           [cache.l1d]
           serves = "data"
           size = "2KiB"
           line = "32B"
           ways = 2
           next = "l2"
           [cache.l2]
           size = "8KiB"
           line = "32B"
           ways = 2
           inclusive = true
           next = "memory""#,
    ),
    (
        "hashed virtual level 1, physical tags, no allocation",
        r#"memory = { size = "1MiB", page = "4KiB" }
           placement = { policy = "first", pool = "1020KiB" }
           [cache.l1i]
           serves = "fetch"
           size = "8KiB"
           line = "32B"
           ways = 2
           index = "virtual"
           hash = true
           next = "l2"
           [cache.l1d]
           serves = "data"
           size = "8KiB"
           line = "32B"
           ways = 2
           index = "virtual"
           allocate = false
           next = "l2"
           [cache.l2]
           size = "64KiB"
           line = "32B"
           ways = 8
           next = "memory""#,
    ),
    (
        "instructions through the data cache",
        r#"memory = { size = "256KiB", page = "4KiB" }
           placement = { policy = "random", pool = "32KiB" }
           [cache.l1i]
           serves = "fetch"
           size = "2KiB"
           line = "32B"
           ways = 2
           next = "l1d"
           [cache.l1d]
           serves = "data"
           size = "2KiB"
           line = "32B"
           allocate = true
           next = "l2"
           [cache.l2]
           size = "16KiB"
           line = "64B"
           next = "memory"
           "#,
    ),
    (
        "data through the instruction cache",
        r#"memory = { size = "256KiB", page = "4KiB" }
           placement = { policy = "random", pool = "32KiB" }
           [cache.l1i]
           serves = "fetch"
           size = "2KiB"
           line = "32B"
           ways = 2
           next = "l2"
           [cache.l1d]
           serves = "data"
           size = "2KiB"
           line = "32B"
           allocate = false
           next = "l1i"
           [cache.l2]
           size = "16KiB"
           line = "64B"
           next = "memory"
           "#,
    ),
    (
        "three levels behind level 1, the last two hashed, lines that grow, costs",
        r#"memory = { size = "256KiB", page = "4KiB" }
           placement = { policy = "random", pool = "64KiB" }
           [cache.l1i]
           serves = "fetch"
           size = "2KiB"
           line = "32B"
           next = "l2"
           [cache.l1d]
           serves = "data"
           size = "2KiB"
           line = "32B"
           ways = 2
           next = "l2"
           [cache.l2]
           size = "16KiB"
           line = "32B"
           ways = 2
           writeback-order = "before-fill"
           next = "l3"
           [cache.l3]
           size = "32KiB"
           line = "64B"
           ways = 4
           hash = true
           replacement = "random"
           next = "l4"
           [cache.l4]
           size = "64KiB"
           line = "128B"
           ways = 8
           hash = true
           next = "memory"
           [cost]
           l2 = 13
           l3 = 30
           l4 = 50
           memory = 200"#,
    ),
    (
        "cachegrind's rules, lines that grow, costs",
        r#"rules = "cachegrind"
           memory = { page = "4KiB" }
           placement = { policy = "identity" }
           [cache.l1i]
           serves = "fetch"
           size = "2KiB"
           line = "16B"
           ways = 2
           next = "l2"
           [cache.l1d]
           serves = "data"
           size = "1KiB"
           line = "32B"
           ways = 2
           next = "l2"
           [cache.l2]
           size = "16KiB"
           line = "64B"
           ways = 4
           next = "memory"
           [cost]
           mode = "add"
           l2 = 13
           memory = 200"#,
    ),
    (
        "physical = virtual",
        r#"memory = { page = "4KiB" }
           placement = { policy = "identity" }
           [cache.l1i]
           serves = "fetch"
           size = "2KiB"
           line = "32B"
           next = "l2"
           [cache.l1d]
           serves = "data"
           size = "2KiB"
           line = "32B"
           next = "l2"
           [cache.l2]
           size = "16KiB"
           line = "128B"
           next = "memory""#,
    ),
    (
        "physical level 1 and direct-mapped level 2, memory scarce",
        r#"memory = { size = "96KiB", page = "4KiB" }
           placement = { policy = "random", pool = "32KiB" }
           [cache.l1i]
           serves = "fetch"
           size = "8KiB"
           line = "32B"
           next = "l2"
           [cache.l1d]
           serves = "data"
           size = "16KiB"
           line = "16B"
           next = "l2"
           writeback-order = "before-fill"
           [cache.l2]
           size = "32KiB"
           line = "64B"
           next = "memory"
           [cost]
           l2 = 7
           memory = 30"#,
    ),
];

pub fn machine(number: usize) -> Machine {
    let (name, toml) = SMALL[number];
    Machine::parse(toml, name, &[]).unwrap_or_else(|problem| panic!("{name}: {problem}"))
}

/// Draws the caches that a kernel flushes at a switch, a fault and a system call: bit n stands for cache n. Most
/// kernels flush no cache.
pub fn flushes() -> impl Strategy<Value = [u8; 3]> {
    prop_oneof![2 => Just([0; 3]), 1 => prop::array::uniform3(any::<u8>())]
}

/// Returns a machine whose kernel flushes these caches. A machine that counts by cachegrind's rules has no kernel.
pub fn flushing(machine: &Machine, flushes: [u8; 3]) -> Machine {
    let config = machine.tree().config();
    if config.rules == Rules::Cachegrind {
        return machine.clone();
    }
    let flush = |(occasion, caches): (&str, u8)| {
        let named = config.caches.iter().zip(0..8).filter(|(_, bit)| caches >> bit & 1 == 1);
        let names: Vec<&str> = named.map(|(cache, _)| cache.name.as_str()).collect();
        (!names.is_empty()).then(|| format!("kernel.{occasion}.flush={}", names.join(",")))
    };
    let settings: Vec<String> =
        ["switch", "fault", "syscall"].into_iter().zip(flushes).filter_map(flush).collect();
    Machine::parse(&machine.resolved(), machine.name(), &settings)
        .unwrap_or_else(|problem| panic!("{problem}"))
}

/// Returns whether a machine's kernel flushes caches.
pub fn flushes_caches(machine: &Machine) -> bool {
    machine.kernel().footprints().any(|footprint| !footprint.flush.is_empty())
}

pub fn run(machine: &Machine, events: &EventBatch, step: usize, options: &RunOptions) -> Outcome {
    let source = Box::new(Fixed::new(events.clone(), step));
    simulate(machine, source, options, None, &mut |_| Ok(())).unwrap_or_else(|problem| panic!("{problem}"))
}

/// Returns a metric of the only placement; 0 if the run does not count it.
pub fn metric(outcome: &Outcome, name: &str) -> u64 {
    let column = |name: &str| outcome.results.column_by_name(name).unwrap().clone();
    let (names, values) = (column("metric"), column("value"));
    let (names, values) = (names.as_string::<i32>(), values.as_primitive::<Float64Type>());
    (0..names.len()).find(|&row| names.value(row) == name).map_or(0, |row| values.value(row) as u64)
}

/// Returns machines with an inclusive level 2 or 3 and costs. Their fronts depend on no frame and no seed, so
/// seeds share a front. Where memory is scarce, the seeds share it until a page is evicted.
pub fn inclusive() -> impl Strategy<Value = Machine> {
    let fixed = Replacement::ALL.iter().filter(|replacement| !replacement.draws());
    let names: Vec<&str> = fixed.map(|replacement| replacement.name()).collect();
    let level2 = (any::<bool>(), 0..2usize, prop::sample::select(names));
    let costs = (any::<bool>(), 1u64..40, 1u64..60, 1u64..300);
    let rest = (any::<bool>(), any::<bool>(), any::<bool>(), prop::option::of(any::<bool>()));
    (level2, costs, rest).prop_map(|((wide, ways, replacement), (add, l2, l3, memory), rest)| {
        let (unified, through, scarce, level3) = rest;
        let ways = [1, 4][ways];
        let (size, line) = (ways * 4096, if wide { 64 } else { 32 });
        let write = if through { "write = \"through\"\nallocate = false" } else { "ways = 2" };
        let level1 = if unified {
            format!("[cache.l1]\nserves = \"all\"\nsize = \"512B\"\nline = \"32B\"\nnext = \"l2\"\n{write}\n")
        } else {
            format!(
                "[cache.l1i]\nserves = \"fetch\"\nsize = \"256B\"\nline = \"32B\"\nnext = \"l2\"\n\
                 [cache.l1d]\nserves = \"data\"\nsize = \"512B\"\nline = \"16B\"\nnext = \"l2\"\n{write}\n"
            )
        };
        // An inclusive level 3 is part of the front, and is then also indexed within a page.
        let of3 = |inclusive: bool| {
            let size = if inclusive { 16 << 10 } else { 64 << 10 };
            format!(
                "[cache.l3]\nsize = \"{size}B\"\nline = \"64B\"\nways = 4\ninclusive = {inclusive}\nnext = \"memory\"\n"
            )
        };
        let toml = format!(
            "memory = {{ size = \"{}\", page = \"4KiB\" }}\nplacement = {{ policy = \"random\", pool = \"32KiB\" }}\n\
             {level1}[cache.l2]\nsize = \"{size}B\"\nline = \"{line}B\"\nways = {ways}\nreplacement = \"{replacement}\"\n\
             inclusive = true\nnext = \"{}\"\n{}\
             [cost]\nmode = \"{}\"\nl2 = {l2}\nmemory = {memory}\n{}",
            if scarce { "96KiB" } else { "2MiB" },
            if level3.is_some() { "l3" } else { "memory" },
            level3.map_or_else(String::new, of3),
            if add { "add" } else { "total" },
            if level3.is_some() { format!("l3 = {l3}\n") } else { String::new() },
        );
        Machine::parse(&toml, "inclusive", &[]).unwrap_or_else(|problem| panic!("{toml}\n{problem}"))
    })
}
