//! `docs/coherence.md` is made of the tables, the counts, the list of safe mutants and a counter-example.

use std::{fmt::Write as _, fs, path::Path};

use binhop_hw::{ESI, LineAction, LineEvent, LineState, MOESI, TransitionTable, reached_states, transition};

use crate::{
    mutants::{CAUGHT, counts, example},
    properties::{ONE_LINE, PAIRS, TWO_LINES, TWO_LINES_ONE, TWO_LINES_TWO},
    safe::SAFE,
};

fn table(out: &mut String, table: &TransitionTable) {
    let states = reached_states(table);
    let heads: Vec<String> = states.iter().map(|state| format!("{state:?}")).collect();
    writeln!(out, "| event | {} |\n|---|{}", heads.join(" | "), "---|".repeat(heads.len())).unwrap();
    for &event in LineEvent::ALL {
        let cell = |&state: &LineState| {
            let to = transition(table, state, event);
            match to.action {
                LineAction::Never => "cannot come".to_owned(),
                LineAction::Nothing => format!("{:?}", to.next),
                action => format!("{:?}, {action:?}", to.next),
            }
        };
        let cells: Vec<String> = states.iter().map(cell).collect();
        writeln!(out, "| {event:?} | {} |", cells.join(" | ")).unwrap();
    }
}

/// Writes a number with commas between thousands.
fn commas(number: usize) -> String {
    let digits = number.to_string();
    let first = (digits.len() + 2) % 3 + 1;
    let (head, tail) = digits.split_at(first);
    let groups = tail.as_bytes().chunks(3).map(|group| std::str::from_utf8(group).unwrap());
    std::iter::once(head).chain(groups).collect::<Vec<_>>().join(",")
}

fn page() -> String {
    let mut tables = String::from("### MOESI and IO-MOESI\n\n");
    table(&mut tables, &MOESI);
    tables += "\n### ESI and IO-ESI\n\n";
    table(&mut tables, &ESI);

    let mut states =
        String::from("| tables | 1 line | 2 lines | 2 lines, 2 under way | 2 lines, 1 under way |\n");
    states += "|---|---|---|---|---|\n";
    for (at, (name, ..)) in PAIRS.into_iter().enumerate() {
        let of = [ONE_LINE, TWO_LINES, TWO_LINES_TWO, TWO_LINES_ONE].map(|counts| commas(counts[at].0));
        writeln!(states, "| {name} | {} |", of.join(" | ")).unwrap();
    }

    let (all, safe) = counts();
    let mut caught = format!("| {} mutants | property that they break first |\n|---|---|\n", commas(all));
    for (fault, count) in CAUGHT {
        writeln!(caught, "| {count} | {fault} |").unwrap();
    }
    writeln!(caught, "| {safe} | none: these mutants are safe |").unwrap();

    let mut list = String::from("| reason | tables | state, event -> next state, action |\n|---|---|---|\n");
    for of in SAFE {
        let changes = of.changes.join("`, `");
        writeln!(list, "| {} | {} | `{changes}` |", of.reasons.join("; "), of.tables.join(", ")).unwrap();
    }
    let (mutant, example) = example();
    let parts = [
        ("TABLES", tables),
        ("STATES", states),
        ("CAUGHT", caught),
        ("SAFE", list),
        ("MUTANT", mutant),
        ("EXAMPLE", example.to_string()),
    ];
    parts.iter().fold(include_str!("page.md").to_owned(), |text, (mark, part)| {
        text.replace(&format!("{{{mark}}}"), part.trim_end())
    })
}

#[test]
fn the_page_is_that_of_the_code() {
    let made = page();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/coherence.md");
    if fs::read_to_string(&path).unwrap_or_default() != made {
        let new = Path::new(env!("CARGO_TARGET_TMPDIR")).join("coherence.md");
        fs::write(&new, made).unwrap();
        panic!("docs/coherence.md is out of date: copy {} over it", new.display());
    }
}
