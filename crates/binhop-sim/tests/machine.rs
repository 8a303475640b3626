//! Machines: what is accepted, what is refused and how, and that every key of the list is read.
#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use binhop_base::{Class, Problem};
use binhop_sim::Machine;
use binhop_sim::machine::{BUNDLED, KEYS};
use common::SMALL;

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

/// A setting, a part of the rule or the remedy, and what the message calls the place.
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
    (&["cost.memory=200"], "every level behind the first has a cost", "cost.memory=200: l2"),
    (&["cost.l2=20"], "must be given", "cost.l2=20: memory"),
    (&["cost.l1d=1", "cost.l2=20", "cost.memory=90"], "instruction's own cycle", "--set cost.l1d"),
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
fn what_must_be_given_is_asked_for() {
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
fn later_settings_win_and_a_setting_may_add_a_section() {
    let settings = ["cache.l2.size=1MiB", "cache.l2.size=2MiB", "cost.l2=20", "cost.memory=90"];
    let machine = Machine::parse(BASE, "base", &settings.map(String::from)).unwrap();
    assert_eq!(machine.tree().config().caches[2].size.to_string(), "2MiB");
    assert!(machine.has_cost());
}

#[test]
fn a_key_the_policy_does_not_use_is_legal_and_reported() {
    let set = |setting: &str| Machine::parse(BASE, "base", &[setting.to_string()]).unwrap();
    assert!(set("placement.tuned-for=l2").notes()[0].contains("does not use tuned-for"));
    assert_eq!(set("placement.policy=identity").notes().len(), 2);
    assert!(set("placement.pool=8KiB").notes().is_empty());
}

/// Writes one description that uses every key, from the list alone; a key nobody reads would be refused.
#[test]
fn every_key_of_the_list_is_read() {
    let values = [
        ("name", "\"all\""),
        ("rules", "\"lines\""),
        ("size", "\"64KiB\""),
        ("page", "\"4KiB\""),
        ("policy", "\"random\""),
        ("pool", "\"64KiB\""),
        ("tuned-for", "\"l1\""),
        ("bins", "4"),
        ("colors", "4"),
        ("pid-hash", "true"),
        ("sharing", "\"space\""),
        ("fragmentation", "50"),
        // Read only where a placement is repeated.
        ("file", "\"none\""),
        ("serves", "\"all\""),
        ("line", "\"32B\""),
        ("ways", "2"),
        ("index", "\"physical\""),
        ("hash", "true"),
        ("tag", "\"physical\""),
        ("write", "\"through\""),
        ("allocate", "false"),
        ("replacement", "\"fifo\""),
        ("writeback-order", "\"before-fill\""),
        ("inclusive", "false"),
        ("next", "\"memory\""),
        ("entries", "4"),
        ("drain", "6"),
        ("mode", "\"add\""),
        ("LEVEL", "90"),
    ];
    let mut toml = String::new();
    for (section, header) in [
        ("", ""),
        ("memory", "[memory]"),
        ("placement", "[placement]"),
        ("cache", "[cache.l1]"),
        ("write-buffer", "[write-buffer.l1]"),
        ("cost", "[cost]"),
    ] {
        toml += &format!("{header}\n");
        for key in KEYS.iter().filter(|key| {
            key.section == section && !key.form.starts_with("a section") && key.form != "sections"
        }) {
            let (_, value) = values
                .iter()
                .find(|(name, _)| *name == key.name)
                .unwrap_or_else(|| panic!("no value for {}", key.name));
            let name = if key.name == "LEVEL" { "memory" } else { key.name };
            toml += &format!("{name} = {value}\n");
        }
    }
    let machine = Machine::parse(&toml, "all", &[]).unwrap_or_else(|problem| panic!("{problem}\n{toml}"));
    assert_eq!(machine.name(), "all");
    for key in KEYS {
        assert!(!key.meaning.is_empty() && !key.form.is_empty(), "{}", key.name);
    }
}
