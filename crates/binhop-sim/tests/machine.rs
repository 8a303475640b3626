//! These tests check which machine descriptions are accepted, how others are refused, and what every key
//! changes.
#![allow(missing_docs, clippy::unwrap_used)]

use std::num::NonZeroU32;

use crate::common::SMALL;
use binhop_base::{Class, Picoseconds, Problem};
use binhop_hw::{CostRule, SchemeKind, WritePolicy};
use binhop_os::placement::POLICIES;
use binhop_sim::Machine;
use binhop_sim::machine::{BUNDLED, DramSetup, keys};

const BASE: &str = r#"
name = "base"
memory = { size = "1MiB", page = "4KiB" }
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
[cache.l2]
size = "64KiB"
line = "64B"
ways = 2
next = "memory"
"#;

fn refused(settings: &[&str]) -> Box<Problem> {
    let settings: Vec<String> = settings.iter().map(ToString::to_string).collect();
    let problem = Machine::parse(BASE, "base.toml", &settings).expect_err(&settings.join(" "));
    assert_eq!(problem.class, Class::Request);
    assert!(!problem.rule.is_empty() && !problem.remedy.is_empty(), "{problem}");
    problem
}

/// Wrong settings, each with a part of the rule or the remedy, and a part of the place that the refusal names.
const WRONG: &[(&[&str], &str, &str)] = &[
    (&["memory.page=5KiB"], "4KiB and 8KiB", "--set memory.page"),
    (&["memory.size=3KiB"], "whole number of pages", "--set memory.size"),
    (&["memory.size=0B"], "at least one", "--set memory.size"),
    (&["memory.size=12KiB", "placement.pool=4KiB"], "take 16KiB or more", "--set memory.size"),
    (&["memory.size=1"], "with a unit", "--set memory.size"),
    (&["cache.l2.line=4B"], "at least 8 bytes", "--set cache.l2.line"),
    (&["placement.pool=2MiB"], "no larger than memory (1MiB)", "--set placement.pool"),
    (&["placement.pool=0B"], "at least one", "--set placement.pool"),
    (&["placement.policy=randon"], "did you mean random?", "--set placement.policy"),
    (&["placement.tuned-for=l4"], "l1i, l1d, l2", "--set placement.tuned-for"),
    (&["cache.l2.line=48B"], "32B and 64B", "--set cache.l2.line"),
    (&["cache.l2.line=8KiB"], "no larger than a page (4KiB)", "--set cache.l2.line"),
    (&["cache.l2.size=96KiB"], "64KiB or 128KiB", "--set cache.l2.size"),
    (&["cache.l2.size=64B"], "ways × line = 128B", "--set cache.l2.size"),
    (&["cache.l2.size=64KB"], "KiB", "--set cache.l2.size"),
    (&["cache.l2.ways=0"], "from 1", "--set cache.l2.ways"),
    (&["cache.l2.wasy=4"], "did you mean ways?", "--set cache.l2.wasy"),
    (&["cache.l2.replacement=lfu"], "did you mean lru?", "--set cache.l2.replacement"),
    (
        &["cache.l2.ways=3", "cache.l2.size=96KiB", "cache.l2.line=128B", "cache.l2.replacement=plru"],
        "power of two of ways",
        "cache.l2.ways",
    ),
    (&["cache.l2.next=l1d"], "smaller than this cache's", "--set cache.l2.next"),
    (&["cache.l2.next=l1d", "cache.l2.line=32B"], "form a cycle", "cache.l1i.next"),
    (&["cache.l2.next=l2"], "form a cycle", "cache.l1i.next"),
    (&["cache.l2.next=memroy"], "l1i, l1d, l2 and memory", "--set cache.l2.next"),
    (&["cache.l1i.serves=data"], "no cache serves these references", "cache"),
    (&["cache.l2.serves=all"], "already serves fetch", "--set cache.l2.serves"),
    (&["cache.l1d.serves=dats"], "did you mean data?", "--set cache.l1d.serves"),
    (&["cache.l1d.next=memory", "cache.l1i.next=memory"], "serves nobody", "cache.l2"),
    (&["cache.l2.index=virtual"], "above it keeps physical tags", "cache.l2"),
    (&["cache.l1d.tag=global"], "virtual index", "cache.l1d.tag"),
    (&["write-buffer.l1d.entries=4", "write-buffer.l1d.drain=6"], "write-through", "write-buffer.l1d"),
    (&["write-buffer.l9.entries=4"], "l1i, l1d, l2", "write-buffer.l9"),
    (&["io.ring=0"], "between 1 and 65536", "--set io.ring"),
    (&["io.packet=0B"], "a packet has 1 byte at least", "io.packet"),
    (&["io.buffer=3KiB"], "a power of two", "io.buffer"),
    (
        &["io.ring=1", "io.request=4KiB", "io.packet=9000B"],
        "all packets between two interrupts, which are 5",
        "io.ring",
    ),
    (&["io.page-cache=4KiB"], "half of the page cache", "io.read-ahead"),
    (&["io.read-ahead=256KiB"], "half of the page cache", "io.read-ahead"),
    (&["io.request=1MiB"], "half of the page cache", "io.request"),
    (&["dram.preset=ddr3"], "preset is one of", "--set dram.preset"),
    (&["dram.queue=4"], "preset must be given", "dram"),
    (&["dram.preset=ddr4-2400", "dram.queue=0"], "between 1 and 64", "--set dram.queue"),
    (&["dram.preset=ddr4-2400", "dram.queue=65"], "between 1 and 64", "--set dram.queue"),
    (&["dram.preset=ddr4-2400", "dram.ratio=0"], "between 1 and 1000", "--set dram.ratio"),
    (&["io.posted=0"], "between 1 and 64", "--set io.posted"),
    (&["io.dma-cache-ways=0"], "between 1 and 64", "--set io.dma-cache-ways"),
    (&["dram.preset=ddr4-2400", "dram.channels=3"], "powers of two", "base.toml: dram.channels"),
    (&["dram.preset=ddr4-2400", "dram.mapping=row-bank"], "covers all bits", "--set dram.mapping"),
    (&["dram.preset=ddr4-2400", "dram.drain-low=30"], "lower mark", "dram.drain-high"),
    (&["io.rings=4"], "did you mean ring?", "--set io.rings"),
    (&["stream-buffers.l9.depth=4"], "l1i, l1d, l2", "stream-buffers.l9"),
    (&["stream-buffers.l1d.depth=0"], "between 1 and 1024", "--set stream-buffers.l1d.depth"),
    (&["stream-buffers.l1d.depth=4", "cache.l2.inclusive=true"], "inclusive cache", "stream-buffers.l1d"),
    (&["cost.memory=200"], "every level behind the first has a cost", "cost.memory=200: l2"),
    (&["cost.l2=20"], "must be given", "cost.l2=20: memory"),
    (&["cost.l1d=1", "cost.l2=20", "cost.memory=90"], "instruction's own cycle", "--set cost.l1d"),
    (
        &["cost.level-1=20", "cost.l2=20", "cost.memory=90"],
        "include those of a hit in level 1 (level-1 = 20)",
        "--set cost.l2",
    ),
    (&["cycle-time=40"], "a number with a unit: ps, ns or us", "--set cycle-time"),
    (&["cycle-time=0ns"], "between 1ps and 1000000ns", "--set cycle-time"),
    (&["cost.l3=20"], "no cache has this name", "--set cost.l3"),
    (&["cahce.l2.size=1MiB"], "did you mean cache?", "--set cahce"),
    (&["cache.l2.size"], "KEY=VALUE", "--set"),
];

#[test]
fn every_mistake_is_answered_with_value_place_rule_and_remedy() {
    let mut amiss = Vec::new();
    for (settings, part, place) in WRONG {
        let problem = refused(settings);
        if !problem.to_string().contains(part) || !problem.place.contains(place) {
            amiss.push(format!("{settings:?}: {problem}"));
        }
    }
    assert!(amiss.is_empty(), "{}", amiss.join("\n"));
}

#[test]
fn a_mistake_in_a_file_names_its_line_and_key() {
    let toml = BASE.replace("line = \"64B\"", "line = \"65B\"");
    let problem = Machine::parse(&toml, "mine.toml", &[]).unwrap_err();
    assert_eq!(problem.place, "mine.toml: line 17: cache.l2.line");
    assert_eq!(problem.value, "65B");
    let problem = Machine::parse("name = ", "mine.toml", &[]).unwrap_err();
    assert!(problem.place.contains("line 1"), "{problem}");
}

#[test]
fn a_missing_key_is_asked_for() {
    for (line, key) in
        [("size = \"1MiB\", ", "memory.size"), (", page = \"4KiB\"", "memory"), ("next = \"memory\"", "next")]
    {
        let problem = Machine::parse(&BASE.replace(line, ""), "mine.toml", &[]).unwrap_err();
        assert!(problem.place.contains(key) && problem.value == "missing", "{problem}");
    }
    assert!(Machine::parse("", "mine.toml", &[]).unwrap_err().place.contains("memory"));
}

#[test]
fn an_unknown_machine_gets_the_nearest_name() {
    assert_eq!(Machine::load("kh09", &[]).unwrap_err().remedy, "did you mean kh90?");
    let problem = Machine::load("./no/such.toml", &[]).unwrap_err();
    assert!(problem.rule.contains("cannot be read"), "{problem}");
}

#[test]
fn the_resolved_description_reads_back_as_the_same_machine() {
    let bundled = BUNDLED.iter().map(|machine| (machine.name, machine.toml));
    for (name, toml) in bundled.chain(SMALL.iter().copied()) {
        let machine = Machine::parse(toml, name, &[]).unwrap();
        let again = Machine::parse(&machine.resolved(), "resolved", &[]).unwrap();
        assert_eq!(machine.resolved(), again.resolved());
        assert_eq!(machine.tree().config(), again.tree().config(), "{name}");
        assert_eq!(machine.memory(), again.memory());
        assert_eq!(machine.placement(), again.placement());
    }
}

#[test]
fn every_file_under_machines_is_bundled_under_its_name_and_tells_its_source() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../machines");
    let list = include_str!("../src/machine/bundled.rs");
    let line = list.lines().position(|line| line == "bundled! {").unwrap() + 2;
    let mut files = 0;
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        let bundled = BUNDLED.iter().find(|machine| machine.name == name);
        let bundled = bundled.unwrap_or_else(|| {
            panic!("crates/binhop-sim/src/machine/bundled.rs:{line}: add a line for machines/{name}.toml")
        });
        let machine = Machine::load(name, &[]).unwrap();
        assert_eq!(machine.name(), name, "machines/{name}.toml: write name = \"{name}\"");
        assert!(
            bundled.toml.starts_with("# "),
            "machines/{name}.toml:1: begin with a comment that says where the figures come from"
        );
        files += 1;
    }
    assert_eq!(files, BUNDLED.len(), "machine/bundled.rs lists a machine twice");
}

#[test]
fn later_settings_win_and_a_setting_may_add_a_section() {
    let settings = ["cache.l2.size=1MiB", "cache.l2.size=2MiB", "cost.l2=20", "cost.memory=90"];
    let machine = Machine::parse(BASE, "base", &settings.map(String::from)).unwrap();
    assert_eq!(machine.tree().config().caches[2].size.to_string(), "2MiB");
    assert!(machine.has_cost());
}

/// An access waits these cycles besides its instruction, at level 2 and at memory.
#[test]
fn costs_are_totals_or_added_and_may_include_a_hit_in_level_1() {
    let costs = ["cost.level-1=1", "cost.l2=13", "cost.memory=200"];
    for (setting, rule, expected) in [
        ("cost.mode=total", CostRule::Total, (12, 199)),
        ("cost.level-1=0", CostRule::Total, (13, 200)),
        ("cost.mode=add", CostRule::Add, (13, 200)),
    ] {
        let settings: Vec<String> = costs.iter().chain([&setting]).map(ToString::to_string).collect();
        let machine = Machine::parse(BASE, "base", &settings).unwrap();
        let config = machine.tree().config();
        assert_eq!(
            (config.cost_rule, (config.caches[2].cost, config.memory_cost)),
            (rule, expected),
            "{setting}"
        );
    }
}

#[test]
fn a_machine_may_state_the_time_of_its_cycle() {
    let time = |settings: &[&str]| {
        let settings: Vec<String> = settings.iter().map(ToString::to_string).collect();
        Machine::parse(BASE, "base", &settings).unwrap().cycle_time()
    };
    assert_eq!(time(&[]), None);
    assert_eq!(time(&["cycle-time=40ns"]), Some(Picoseconds(40_000)));
    assert_eq!(time(&["cycle-time=2.5ns"]), Some(Picoseconds(2500)));
}

#[test]
fn a_key_the_policy_does_not_use_is_legal_and_reported() {
    let set = |setting: &str| Machine::parse(BASE, "base", &[setting.to_string()]).unwrap();
    assert!(set("placement.tuned-for=l2").notes()[0].contains("does not use tuned-for"));
    assert_eq!(set("placement.policy=identity").notes().len(), 2);
    assert!(set("placement.pool=8KiB").notes().is_empty());
}

#[test]
fn huge_pages_that_cannot_be_are_refused() {
    let with = |settings: &[&str]| {
        let all = [
            &["tlb.tlb.entries=8", "tlb.tlb.serves=all", "translation=on", "placement.policy=buddy"],
            settings,
        ];
        refused(&all.concat())
    };
    let radix = "translation.table=radix";
    for (settings, words) in [
        (&[radix, "translation.huge-pages=3MiB"][..], "power of two"),
        (&[radix, "translation.huge-pages=2KiB"], "at least as large as a page, 4KiB"),
        (&[radix, "translation.huge-pages=64KiB"], "radix table expresses pages of 4KiB, 2MiB"),
        (&["translation.table=mips", "translation.huge-pages=4MiB"], "mips table expresses pages of 4KiB"),
        (
            &["translation.table=hashed", "translation.huge-pages=2MiB"],
            "hashed table expresses pages of 4KiB",
        ),
        (&[radix, "translation.huge-pages=2MiB", "placement.policy=random"], "take placement.policy=buddy"),
        (&[radix, "translation.huge-pages=1GiB", "memory.size=2GiB"], "is 4MiB"),
        (&[radix, "translation.huge-pages=2MiB", "memory.size=1MiB"], "lies in memory, which has 1MiB"),
    ] {
        let problem = with(settings);
        assert!(problem.to_string().contains(words), "{words}: {problem}");
        assert!(problem.place.contains("huge-pages"), "{problem}");
    }
    // Pages of the usual size need no run of frames.
    let settings =
        ["tlb.tlb.entries=8", "tlb.tlb.serves=all", "translation=on", radix, "translation.huge-pages=4KiB"];
    Machine::parse(BASE, "base", &settings.map(String::from)).unwrap();
}

const SOFTVM: &str = include_str!("../../../machines/softvm.toml");

/// Settings that the machine softvm refuses, each with a part of the rule and of the place.
const WRONG_AT_MISSES: &[(&[&str], &str, &str)] = &[
    (&["translation.table=mips"], "reads no other", "translation"),
    (&["translation.refill=software"], "reads no other", "translation"),
    (&["tlb.tlb.entries=64", "tlb.tlb.serves=all"], "neither a TLB nor a page walker", "softvm"),
    (&["translation.segments=0"], "at least one segment", "translation.segments"),
    (&["translation.regions=12"], "a power of two", "translation.regions"),
    (&["translation.segments=16384", "memory.page=1KiB"], "at most 1048576 pages", "translation.segments"),
    (&["memory.page=64KiB"], "pages have at most 32KiB", "translation.table"),
    (&["translation.huge-pages=2MiB"], "run of neighbouring frames", "translation.huge-pages"),
    (&["translation.huge-pages=8MiB", "placement.policy=buddy"], "maps 4MiB", "translation.huge-pages"),
    (&["translation.entry=8B"], "has 4 bytes", "translation.entry"),
    (&["placement.policy=identity"], "no frames for page tables", "placement.policy"),
    (&["cache.l2d.index=physical", "cache.l2d.tag=physical"], "every cache is virtual", "cache.l2d.index"),
    (&["cache.l1d.index=physical", "cache.l1d.tag=physical"], "above it keeps physical tags", "cache.l2d"),
    (&["cache.l1d.tag=asid"], "of one kind", "cache.l1i.tag"),
    (&["cache.l1d.write=through"], "stores stay in the caches", "cache.l1d.write"),
    (&["cache.l1d.allocate=false"], "stores stay in the caches", "cache.l1d.write"),
    (&["cache.l2d.inclusive=true"], "no cache is inclusive", "cache.l2d.inclusive"),
    (&["cache.l2i.next=l2d"], "caches of their own at every level", "cache.l2d"),
    (&["memory.page=512B", "cache.l2d.line=1KiB"], "no larger than a page", "cache.l2d.line"),
];

#[test]
fn software_that_translates_at_cache_misses_needs_virtual_caches_and_no_tlb() {
    for (settings, rule, place) in WRONG_AT_MISSES {
        let on = settings.iter().chain(&["translation=on"]).map(ToString::to_string).collect::<Vec<_>>();
        let problem = Machine::parse(SOFTVM, "softvm", &on).expect_err(&settings.join(" "));
        assert_eq!(problem.class, Class::Request, "{problem}");
        assert!(problem.rule.contains(rule) && problem.place.contains(place), "{settings:?}: {problem}");
    }
}

/// The settings under which keys have their effect. The test tries one after another.
const WITH: &[&[&str]] = &[
    &[],
    &["placement.policy=identity"],
    &["placement.policy=hierarchical"],
    &["placement.policy=colored-lists"],
    &["placement.policy=buddy"],
    &["placement.policy=recorded"],
    &["cache.l1d.write=through", "write-buffer.l1d.entries=4", "write-buffer.l1d.drain=6"],
    &["cost.l2=20", "cost.memory=90"],
    &["dram.preset=ddr2-666"],
    &["dram.preset=ddr4-2400"],
    &["translation=on"],
    &["translation.line-protection=true"],
    &["translation=on", "translation.segment-ids=1:0x30000000=7"],
    &["tlb.tlb.entries=8", "tlb.tlb.serves=all", "translation.table=radix"],
    &["tlb.tlb.entries=8", "tlb.tlb.serves=all", "translation.table=radix", "translation=on"],
    &["tlb.tlb.entries=8", "tlb.tlb.serves=all", "translation=on"],
    &["tlb.tlb.serves=all", "translation.table=radix", "translation=on"],
    // A TLB whose first level serves data beside another for fetches, and a second level that must be named.
    &[
        "tlb.itlb.entries=4",
        "tlb.itlb.serves=fetch",
        "tlb.tlb.entries=8",
        "translation.table=mips",
        "translation=on",
    ],
    &[
        "tlb.tlb.entries=8",
        "tlb.tlb.serves=all",
        "tlb.first.entries=16",
        "translation.table=mips",
        "translation=on",
    ],
    &[
        "tlb.tlb.entries=8",
        "tlb.tlb.serves=all",
        "walk-cache.0.entries=8",
        "translation.table=radix",
        "translation=on",
    ],
    // A table page has 32 entries, so a huge page has 128 KiB.
    &[
        "tlb.tlb.entries=8",
        "tlb.tlb.serves=all",
        "translation.table=radix",
        "translation.levels=5",
        "translation.entry=128B",
        "placement.policy=buddy",
        "translation=on",
    ],
];

/// Returns values for a key of this form, as users write them: every choice that the form names, and some others.
fn values(form: &str) -> Vec<String> {
    let choices = form.split('"').skip(1).step_by(2);
    let others = [
        "true",
        "false",
        "2",
        "4",
        "5",
        "7",
        "14",
        "30",
        "3000",
        "40ns",
        "32B",
        "16KiB",
        "128KiB",
        "l1i",
        "memory",
        "1:0x30000000=7",
        "first",
        "random",
        "row-column-rank-bank-group-channel+hash",
        FRAMES,
    ];
    choices.chain(others).map(String::from).collect()
}

/// The file of a recorded placement.
const FRAMES: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/every-key.txt");

/// Some value of each key must be accepted, must change the machine and its resolved description, and must
/// survive reading that description back. A new key that lacks one of these fails here.
#[test]
fn every_key_changes_the_machine_and_its_resolved_description() {
    std::fs::write(FRAMES, "0x0 0x1000\n").unwrap();
    // In the second machine no cache serves fetches, so that another cache can.
    // The third machine has what software needs that translates at cache misses.
    let bases = [BASE.to_string(), BASE.replace("serves = \"fetch\"\n", ""), SOFTVM.to_string()];
    let built = |machine: &Machine| {
        let config = machine.tree().config().clone();
        (
            machine.name().to_string(),
            config,
            machine.memory(),
            machine.placement().clone(),
            machine.has_cost(),
            machine.cycle_time(),
            machine.kernel().clone(),
            machine.translation().cloned(),
            machine.softvm().cloned(),
            (machine.segments().clone(), machine.protection().cloned()),
            (*machine.io(), machine.memory_of_schemes(), machine.posted_requests(), machine.dram().copied()),
            SchemeKind::ALL.iter().map(|&kind| machine.scheme(kind).ok()).collect::<Vec<_>>(),
        )
    };
    for key in keys().filter(|key| key.keys.is_empty()) {
        let paths = match (key.section, key.name) {
            ("", name) => vec![name.to_string()],
            ("cache", name) => vec![format!("cache.l2.{name}"), format!("cache.l1i.{name}")],
            ("write-buffer", name) => vec![format!("write-buffer.l1d.{name}")],
            ("stream-buffers", name) => vec![format!("stream-buffers.l1d.{name}")],
            ("tlb", name) => vec![format!("tlb.tlb.{name}")],
            ("walk-cache", name) => vec![format!("walk-cache.0.{name}")],
            ("kernel", name) => vec![format!("kernel.fault.{name}")],
            ("cost", "LEVEL") => vec!["cost.memory".to_string()],
            (section, name) => vec![format!("{section}.{name}")],
        };
        let acts = |base: &str, with: &[&str], path: &str, value: &str| {
            let with: Vec<String> = with.iter().map(ToString::to_string).collect();
            let settings = [&with[..], &[format!("{path}={value}")]].concat();
            let Ok(machine) = Machine::parse(base, "base", &settings) else { return false };
            let again = Machine::parse(&machine.resolved(), "again", &[]).unwrap();
            assert_eq!(built(&again), built(&machine), "the resolved description loses {path}");
            assert_eq!(again.resolved(), machine.resolved());
            Machine::parse(base, "base", &with).ok().is_none_or(|without| {
                without.resolved() != machine.resolved() && built(&without) != built(&machine)
            })
        };
        let values = values(&(key.form)());
        let found = bases.iter().any(|base| {
            let with = |path: &String| {
                WITH.iter().any(|with| values.iter().any(|value| acts(base, with, path, value)))
            };
            paths.iter().any(with)
        });
        let (section, name) = (key.section, key.name);
        let at = |start: &str| {
            let line = include_str!("machine.rs").lines().position(|line| line.starts_with(start)).unwrap();
            format!("{}:{}", file!(), line + 1)
        };
        assert!(
            found,
            "{section}.{name}: no value of `values` ({}) beside any settings of `WITH` ({}) is accepted and changes \
             the machine. Add a value of the key, or the settings that it needs, or use the key.",
            at("fn values"),
            at("const WITH")
        );
        assert!(!key.meaning.is_empty() && !(key.form)().is_empty(), "{section}.{name} is not documented");
    }
}

#[test]
fn a_key_under_placement_is_a_parameter_of_some_policy() {
    let parameters = || POLICIES.iter().flat_map(|policy| policy.parameters).copied();
    let keys = || keys().filter(|key| key.section == "placement").map(|key| key.name);
    for key in keys().filter(|key| *key != "policy") {
        assert!(parameters().any(|parameter| parameter == key), "no policy uses placement.{key}");
    }
    for parameter in parameters() {
        assert!(
            keys().any(|key| key == parameter),
            "crates/binhop-sim/src/machine/placement.rs: declare the key {parameter} in `keys!`"
        );
    }
}

#[test]
fn a_front_is_what_stands_before_the_only_last_level() {
    let machine = |settings: &[&str]| {
        let settings: Vec<String> = settings.iter().map(ToString::to_string).collect();
        Machine::parse(BASE, "base.toml", &settings).unwrap()
    };
    let front = machine(&[]).front().unwrap();
    let names: Vec<_> = front.tree().config().caches.iter().map(|cache| cache.name.as_str()).collect();
    assert_eq!(names, ["l1i", "l1d"]);
    assert!(front.tree().config().caches.iter().all(|cache| cache.next == binhop_hw::Next::Memory));
    assert_eq!(front.resolved(), machine(&[]).resolved());
    let bytes: Vec<_> = front.tree().config().caches.iter().map(|cache| cache.line.bytes()).collect();
    assert_eq!(
        (bytes, front.longest_line().bytes()),
        (vec![32, 32], 64),
        "devices act by lines of the last level"
    );
    let refused = |machine: Machine, place: &str| {
        let problem = machine.front().unwrap_err();
        assert!(problem.place.ends_with(place), "{problem}");
    };
    refused(machine(&["cache.l1i.next=memory"]), "cache.l1i.next");
    let single = machine(&[]).resolved().replace("next = \"l2\"", "next = \"memory\"");
    let single = single[..single.find("[cache.l2]").unwrap()].to_owned();
    refused(Machine::parse(&single, "single.toml", &[]).unwrap(), "next");
}

#[test]
fn a_scheme_takes_its_last_level_from_the_machine() {
    let machine = |settings: &[&str]| {
        let settings: Vec<String> = settings.iter().map(ToString::to_string).collect();
        Machine::parse(BASE, "base.toml", &settings).unwrap()
    };
    let config = machine(&["io.pbdc-ways=1", "io.write=back"]).scheme(SchemeKind::Pbdc).unwrap();
    assert_eq!((config.last_level.ways, config.last_level.cycles, config.io_ways), (2, 20, 1));
    assert_eq!((config.write, config.line.bytes()), (WritePolicy::Back, 64));
    assert_eq!(machine(&[]).memory_of_schemes().cycles, 200);
    assert_eq!(machine(&["io.posted=8"]).posted_requests(), NonZeroU32::new(8));
    assert!(machine(&["io.posted=8", "dram.preset=off"]).notes().is_empty());
    let notes = machine(&["io.posted=8", "dram.preset=ddr4-2400"]).notes().to_vec();
    let (at, rest) = notes[0].split_once(": 8 has no effect: ").unwrap();
    assert!(at.contains("io.posted") && rest.contains("set dram.queue") && notes.len() == 1, "{notes:?}");
    let costs = ["cost.l2=10", "cost.memory=90"];
    assert_eq!(machine(&costs).memory_of_schemes().cycles, 80);
    assert_eq!(machine(&costs).scheme(SchemeKind::Off).unwrap().last_level.cycles, 10);
    let refused = |settings: &[&str], kind, place: &str| {
        let problem = machine(settings).scheme(kind).unwrap_err();
        assert_eq!(problem.place, format!("machine base: {place}"), "{problem}");
    };
    refused(&["io.pbdc-ways=2"], SchemeKind::Pbdc, "io.pbdc-ways");
    refused(&["io.ddio-ways=2"], SchemeKind::Ddio, "io.ddio-ways");
    refused(&["io.ddio-ways=3"], SchemeKind::Ddio, "io.ddio-ways");
    refused(&["io.dma-cache=3KiB"], SchemeKind::Ddc, "io.dma-cache");
    refused(&["cost.memory=1", "cost.l2=1000001"], SchemeKind::Off, "cost.l2");
    refused(&["cache.l2.replacement=fifo"], SchemeKind::Off, "cache.l2.replacement");
}

#[test]
fn the_keys_of_a_memory_mean_the_same_outside_a_machine() {
    let settings =
        ["preset=ddr5-4800", "channels=2", "queue=8", "drain-high=5", "drain-low=2", "pages=closed"];
    let mapping = "mapping=row-rank-column-bank-group-channel+hash";
    let all: Vec<&str> = settings.into_iter().chain([mapping, "ratio=3"]).collect();
    let keys: Vec<(String, String)> = all
        .iter()
        .filter_map(|setting| setting.split_once('='))
        .map(|(key, value)| (key.to_string(), value.to_string()))
        .collect();
    let inside: Vec<String> = all.iter().map(|setting| format!("dram.{setting}")).collect();
    let machine = Machine::load("tb10", &inside).unwrap();
    assert_eq!(machine.dram(), Some(&DramSetup::of_keys(&keys, "memory").unwrap()));
    let refused = |keys: &[(&str, &str)]| {
        let keys: Vec<_> = keys.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
        DramSetup::of_keys(&keys, "memory").unwrap_err().to_string()
    };
    assert!(refused(&[]).starts_with("memory: preset: missing: "));
    assert!(refused(&[("preset", "off")]).starts_with("memory: preset: off: memory of fixed latency"));
    assert!(refused(&[("preset", "ddr4-2400"), ("que", "8")]).contains("did you mean queue?"));
    assert!(refused(&[("preset", "ddr4-2400"), ("queue", "65")]).starts_with("memory: queue: 65: "));
}
