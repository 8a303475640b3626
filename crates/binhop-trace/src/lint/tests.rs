//! The tests of `lint`: one sound trace, and for each rule a trace that breaks this rule and no other rule.

use super::*;
use crate::event::{EventBatch, EventBuilder, Op};
use crate::source::Meta;
use crate::trace_file::Checks;

type Row = (Op, u64, u32, u32, Option<u64>);

struct Given {
    batches: Vec<EventBatch>,
    meta: Meta,
}

impl Source for Given {
    fn name(&self) -> &str {
        "given"
    }
    fn meta(&self) -> &Meta {
        &self.meta
    }
    fn next_batch(&mut self) -> Result<Option<EventBatch>> {
        Ok(if self.batches.is_empty() { None } else { Some(self.batches.remove(0)) })
    }
}

const SOUND_LINE: u32 = line!() + 3;

/// A program starts and forks. Both processes work and end, time passes, and a device reads and writes.
fn sound() -> Vec<Row> {
    vec![
        (Op::Map, 0x40_0000, 5, 4, Some(1)),
        (Op::Map, 0x7fff_0000, 3 | 16, 1, Some(2)),
        (Op::Map, u64::MAX - 4095, 5, 1, Some(3)),
        (Op::Fetch, 0x40_0000, 15, 1, None),
        (Op::Load, 0x7fff_0ff8, 8, 1, None),
        (Op::Store, 0x7ffe_fff0, 8, 1, None),
        (Op::Modify, u64::MAX, 1, 1, None),
        (Op::Time, 10, 0, 0, None),
        (Op::Syscall, 0x7fff_0000, 64, 0, Some(3)),
        (Op::Range, 0x7fff_0100, 8, 0, None),
        (Op::KernelEnter, 0, 0, 14, None),
        (Op::Load, 0xffff_8000_0000_0000, 8, 1, None),
        (Op::KernelLeave, 0, 0, 0, None),
        (Op::Fork, 1, 0, 0, Some(0)),
        (Op::Switch, 1, 7, 0, Some(0)),
        (Op::Fetch, 0x40_1000, 30, 2, None),
        (Op::Protect, 0x40_0000, 1, 2, None),
        (Op::Unmap, 0x40_0000, 0, 4, None),
        (Op::Exec, 1, 0, 0, None),
        (Op::Map, 0x1000, 5, 1, Some(4)),
        (Op::Fetch, 0x1000, 4, 1, None),
        (Op::Exit, 1, 0, 0, None),
        (Op::Switch, 0, 7, 0, Some(3)),
        (Op::Time, 10, 0, 0, None),
        (Op::DmaRead, 0x9000, 1500, 0, Some(1)),
        (Op::DmaWrite, 0x9000, 1500, 0, Some(2)),
        (Op::Fork, 1, 0, 0, Some(0)),
        (Op::Switch, 1, 8, 0, Some(2)),
    ]
}

/// Returns rows that break a rule once if they follow the sound trace. `Promise` and `UnknownOp` have tests
/// of their own.
fn breaking(rule: RuleId) -> Vec<Row> {
    match rule {
        RuleId::FetchEmpty => vec![(Op::Fetch, 0x40_0000, 0, 1, None)],
        RuleId::FetchLong => vec![(Op::Fetch, 0x40_0000, 16, 1, None)],
        RuleId::ReferenceLarge => vec![(Op::Fetch, 0x40_0000, 16, 65_537, None)],
        RuleId::DataCount => vec![(Op::Load, 0x40_0000, 8, 2, None)],
        RuleId::DataEmpty => vec![(Op::Store, 0x40_0000, 0, 1, None)],
        RuleId::AddressOverflow => vec![(Op::Load, u64::MAX, 2, 1, None)],
        RuleId::SwitchCause => vec![(Op::Switch, 0, 0, 0, Some(4))],
        RuleId::SwitchToExited => vec![(Op::Exit, 1, 0, 0, None), (Op::Switch, 1, 0, 0, Some(3))],
        RuleId::SwitchNeverRuns => vec![(Op::Switch, 5, 0, 0, Some(2))],
        RuleId::ForkOfLive => vec![(Op::Fork, 0, 0, 0, Some(1))],
        RuleId::ForkParent => vec![(Op::Fork, 2, 0, 0, None)],
        RuleId::EndOfDead => vec![(Op::Exit, 9, 0, 0, None)],
        RuleId::MapEmpty => vec![(Op::Map, 0x5000, 1, 0, None)],
        RuleId::MapAligned => vec![(Op::Map, 0x5001, 1, 1, None)],
        RuleId::MapFlags => vec![(Op::Map, 0x5000, 32, 1, None)],
        RuleId::UnmapUnmapped => vec![(Op::Unmap, 0x3f_f000, 0, 2, None)],
        RuleId::OutsideMaps => vec![(Op::Load, 0x40_3ffd, 8, 1, None)],
        RuleId::RangeAlone => vec![(Op::Range, 0x7fff_0100, 8, 0, None)],
        RuleId::KernelLeave => vec![(Op::KernelLeave, 0, 0, 0, None)],
        RuleId::TimeBackward => vec![(Op::Time, 9, 0, 0, None)],
        RuleId::UnknownOp | RuleId::Promise => Vec::new(),
    }
}

const IDS: [RuleId; 20] = [
    RuleId::FetchEmpty,
    RuleId::FetchLong,
    RuleId::ReferenceLarge,
    RuleId::DataCount,
    RuleId::DataEmpty,
    RuleId::AddressOverflow,
    RuleId::SwitchCause,
    RuleId::SwitchToExited,
    RuleId::SwitchNeverRuns,
    RuleId::ForkOfLive,
    RuleId::ForkParent,
    RuleId::EndOfDead,
    RuleId::MapEmpty,
    RuleId::MapAligned,
    RuleId::MapFlags,
    RuleId::UnmapUnmapped,
    RuleId::OutsideMaps,
    RuleId::RangeAlone,
    RuleId::KernelLeave,
    RuleId::TimeBackward,
];

fn batch(rows: &[Row]) -> EventBatch {
    let mut builder = EventBuilder::default();
    for &(op, addr, size, count, arg0) in rows {
        builder.push_args(op, addr, size, count, [arg0, None]);
    }
    builder.finish()
}

fn findings(batches: Vec<EventBatch>, facts: Option<&FileFacts>) -> Vec<(&'static str, u64, Option<u64>)> {
    let mut source = Given { batches, meta: Meta::default() };
    let found = lint(&mut source, facts, &mut |_| Ok(())).unwrap();
    found.iter().map(|finding| (finding.rule.name, finding.count, finding.examples[0].row)).collect()
}

#[test]
fn a_sound_trace_breaks_nothing() {
    assert_eq!(findings(vec![batch(&sound())], None), []);
}

/// Whoever adds an event decides here which of its rows keep the rules.
#[test]
fn the_sound_trace_holds_every_event() {
    for op in Op::ALL {
        let name = op.name();
        assert!(
            sound().iter().any(|row| row.0 == *op),
            "{}:{}: `sound` has no row of `{name}`: add one, and rules in lint/walk.rs for what a {name} must obey",
            file!(),
            SOUND_LINE,
        );
    }
}

#[test]
fn the_trace_of_each_rule_breaks_this_rule_and_no_other() {
    assert_eq!(IDS.len() + 2, RULES.len(), "every rule has a trace here or a test below");
    for rule in IDS {
        let (sound, more) = (sound(), breaking(rule));
        let row = (sound.len() + more.len()) as u64 - 1;
        let batches = vec![batch(&sound), batch(&more)];
        assert_eq!(findings(batches, None), [(RULES[rule as usize].name, 1, Some(row))]);
    }
}

#[test]
fn an_unknown_operation_is_found() {
    use arrow_array::{ArrayRef, RecordBatch, UInt8Array, UInt32Array, UInt64Array};
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("op", std::sync::Arc::new(UInt8Array::from(vec![0, Op::ALL.len() as u8]))),
        ("addr", std::sync::Arc::new(UInt64Array::from(vec![1, 1]))),
        ("size", std::sync::Arc::new(UInt32Array::from(vec![1, 1]))),
        ("count", std::sync::Arc::new(UInt32Array::from(vec![1, 1]))),
    ];
    let batch = EventBatch::from_record_batch(&RecordBatch::try_from_iter(columns).unwrap(), "here").unwrap();
    assert_eq!(findings(vec![batch], None), [("unknown-op", 1, Some(1))]);
}

#[test]
fn a_broken_promise_is_found() {
    let (mut totals, mut content) = (Totals::default(), ContentHash::new());
    totals.add(&batch(&sound()));
    content.add(&batch(&sound()));
    let facts = |totals: &Totals, content: u64| FileFacts {
        path: "given".into(),
        bytes: 0,
        rows: 0,
        row_groups: 0,
        created_by: None,
        checks: Some(Checks { totals: totals.clone(), content_hash: format!("{content:016x}") }),
    };
    let broken = [("promise", 1, None)];
    assert_eq!(findings(vec![batch(&sound())], Some(&facts(&totals, content.finish()))), []);
    assert_eq!(findings(vec![batch(&sound())], Some(&facts(&totals, content.finish() ^ 1))), broken);
    totals.references += 1;
    assert_eq!(findings(vec![batch(&sound())], Some(&facts(&totals, content.finish()))), broken);
}

#[test]
fn all_findings_of_a_rule_are_counted_and_few_are_shown() {
    let rows: Vec<Row> = (0..1000).map(|row| (Op::Load, row, 0, 1, None)).collect();
    let mut source = Given { batches: vec![batch(&rows)], meta: Meta::default() };
    let found = lint(&mut source, None, &mut |_| Ok(())).unwrap();
    assert_eq!((found.len(), found[0].count, found[0].examples.len()), (1, 1000, EXAMPLES));
    assert_eq!(found[0].examples[4], Example { row: Some(4), detail: "load at 0x4, size 0, count 1".into() });
}

/// A finding is shown as meaning and remedy, joined by a semicolon.
#[test]
fn no_meaning_or_remedy_ends_in_a_period() {
    for rule in RULES {
        assert!(!rule.meaning.ends_with('.') && !rule.remedy.ends_with('.'), "{rule:?}");
    }
}
