//! `tlb` declares the keys of a section `[tlb.NAME]`, and checks the rules between TLBs.

use binhop_base::{PowerOfTwo, Problem, Result, counted};
use binhop_hw::{TlbConfig, TlbReplacement};

use super::cache::{Associativity, Serves};
use super::forms::{Named, UpTo, choice};
use super::keys::{At, keys};

keys! {
    /// The keys of one `[tlb.NAME]`.
    TlbKeys of "tlb" {
        serves: Option<At<Serves>> = "serves", absent "misses of other TLBs only",
            "the references of the processor that the TLB translates";
        entries: At<UpTo<{ 1 << 20 }>> = "entries", form "a whole number", "the translations that the TLB holds";
        ways: Associativity = "ways", absent "full", "entries in a set; entries / ways is the number of sets";
        replacement: TlbReplacement = "replacement", absent "lru", "the policy that chooses the victim of a set";
        wired: UpTo<{ 1 << 20 }> = "wired", absent "0",
            "entries that hold translations of the page table alone; only where ways = \"full\"";
        next: String = "next", absent "walk", "the TLB that serves the misses, or \"walk\"";
    }
}

choice!(TlbReplacement);

/// The largest number of TLBs that a machine has.
pub(crate) const MOST_TLBS: usize = 6;

/// `TlbConfigs` are the TLBs of a machine, in the order of the description.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TlbConfigs {
    pub(crate) all: Vec<TlbConfig>,
    /// The TLB that translates instruction fetches, and the TLB that translates loads and stores.
    pub(crate) serving: [usize; 2],
}

/// Checks the sections, for machines whose pages have `page` bytes.
pub(super) fn check_tlbs(
    sections: Option<&At<Named<TlbKeys>>>,
    taken: &[&str],
    page: PowerOfTwo,
) -> Result<Option<TlbConfigs>> {
    let Some(At { value: Named(sections), place }) = sections else { return Ok(None) };
    if sections.is_empty() || sections.len() > MOST_TLBS {
        return Err(Problem::request(
            &sections.len().to_string(),
            place,
            &format!("a machine has 1 to {MOST_TLBS} TLBs, or no section tlb"),
            "remove TLBs, or the section",
        ));
    }
    let mut all = Vec::new();
    for (name, keys) in sections {
        all.push(check_tlb(name, keys, taken, page)?);
    }
    for (number, (_, At { value: keys, place })) in sections.iter().enumerate() {
        if keys.next == "walk" {
            continue;
        }
        let names: Vec<&str> = sections.iter().map(|(name, _)| name.as_str()).collect();
        let Some(next) = names.iter().position(|&name| name == keys.next) else {
            let remedy = match crate::nearest(&keys.next, names.iter().copied()) {
                Some(near) => format!("did you mean {near}?"),
                None => "name one of them".to_string(),
            };
            let rule = format!("no TLB has this name; there are {}, and walk", names.join(", "));
            return Err(Problem::request(&keys.next, &format!("{place}.next"), &rule, &remedy));
        };
        if sections[next].1.value.next != "walk" || keys.serves.is_none() {
            return Err(Problem::request(
                &keys.next,
                &format!("{place}.next"),
                "TLBs have two levels: the first serves references, the second serves the first and is followed by the walk",
                "let the second level have next = \"walk\"",
            ));
        }
        all[number].next = Some(next);
    }
    let serving = [serving(sections, Serves::Fetch, place)?, serving(sections, Serves::Data, place)?];
    for (number, (name, At { value: keys, place })) in sections.iter().enumerate() {
        if keys.serves.is_none() && !all.iter().any(|tlb| tlb.next == Some(number)) {
            return Err(Problem::request(
                name,
                place,
                "this TLB serves nobody: it translates no reference, and no TLB names it as next",
                "give it serves = …, name it as another TLB's next, or leave it out",
            ));
        }
    }
    Ok(Some(TlbConfigs { all, serving }))
}

fn check_tlb(name: &str, keys: &At<TlbKeys>, taken: &[&str], page: PowerOfTwo) -> Result<TlbConfig> {
    let At { value: TlbKeys { entries, ways, replacement, wired, .. }, place } = keys;
    let wrong = |value: String, key: &str, rule: &str, remedy: &str| {
        Err(Problem::request(&value, &format!("{place}.{key}"), rule, remedy))
    };
    if name.is_empty() || name.contains(['.', '<', '>']) || taken.contains(&name) || name == "memory" {
        return Err(Problem::request(
            name,
            place,
            "a TLB's name is part of every metric's name, and no cache has it",
            "use letters, digits and dashes, like dtlb",
        ));
    }
    let entries = entries.value.0;
    if entries == 0 {
        return wrong("0".to_string(), "entries", "a TLB has an entry", "give it an entry, or leave it out");
    }
    let full = u64::from(entries);
    let number = match *ways {
        Associativity::Full => full,
        Associativity::Ways(ways) => ways,
    };
    if number > full || !full.is_multiple_of(number) {
        let rule = format!(
            "entries / ways is the number of sets, a whole number; the TLB has {}",
            counted(entries.into(), ["entry", "entries"])
        );
        return wrong(number.to_string(), "ways", &rule, "take a divisor of the entries, or \"full\"");
    }
    if *replacement == TlbReplacement::Plru && !number.is_power_of_two() {
        let rule = "plru needs a number of ways that is a power of two";
        return wrong(
            number.to_string(),
            "ways",
            rule,
            "take another number of ways, or another replacement",
        );
    }
    if wired.0 > 0 && number != full {
        let rule = "only a fully associative TLB has wired entries";
        return wrong(wired.0.to_string(), "wired", rule, "take ways = \"full\", or wired = 0");
    }
    if wired.0 >= entries {
        let rule = format!(
            "an entry is left for the program: the TLB has {}",
            counted(entries.into(), ["entry", "entries"])
        );
        return wrong(wired.0.to_string(), "wired", &rule, "wire fewer entries, or add entries");
    }
    if wired.0 > 0 && *replacement == TlbReplacement::Plru {
        let rule = "the tree of plru spans all ways, so no entry is wired";
        return wrong(wired.0.to_string(), "wired", rule, "take another replacement, or wired = 0");
    }
    Ok(TlbConfig {
        name: name.to_string(),
        entries,
        ways: number as u32,
        replacement: *replacement,
        wired: wired.0,
        pages: vec![page.log2()],
        next: None,
    })
}

/// Finds the TLB that serves fetches, or data. Exactly one TLB must serve them.
fn serving(sections: &[(String, At<TlbKeys>)], what: Serves, place: &str) -> Result<usize> {
    let does = |keys: &TlbKeys| {
        keys.serves.as_ref().is_some_and(|serves| [what, Serves::All].contains(&serves.value))
    };
    let mut found = sections.iter().enumerate().filter(|(_, (_, at))| does(&at.value));
    let Some((first, (name, _))) = found.next() else {
        return Err(Problem::request(
            what.name(),
            place,
            "no TLB translates these references",
            &format!("give one TLB serves = \"{}\" or \"all\"", what.name()),
        ));
    };
    match found.next() {
        None => Ok(first),
        Some((_, (second, at))) => Err(Problem::request(
            second,
            &at.place,
            &format!("{name} already translates {} references", what.name()),
            "let each kind of reference be translated by one TLB",
        )),
    }
}
