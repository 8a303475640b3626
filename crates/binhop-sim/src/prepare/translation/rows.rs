//! This part of preparation makes rows of the accesses of walks and handlers.
//!
//! As long as lanes share their TLBs, each lane makes the same walks. If no access must be answered before the next, a
//! lane need not stop at a walk: the accesses of the walk are rows of another agent, and the row of the access that
//! follows says that it follows a walk. What lanes have in common is counted in the stream. An access of a walk that
//! surely hits is skipped, as a reference is.

use binhop_base::{Asid, Kind, MappingId, Result};
use binhop_os::page_table::TableKind;

use super::Translator;
use crate::machine::TranslationConfig;
use crate::prepare::filter::{Shape, WalkAccess};
use crate::prepare::{Control, FETCH, Needs, Prepare};
use crate::translation::{ServedLevel, TranslationCause, Walk, WalkStep, handler_instructions, handlers};

impl Needs {
    /// Returns whether the accesses of walks may be rows: they go through level 1 and are the same in every lane, and
    /// no level behind level 1 reaches back into it.
    pub(in crate::prepare) fn walks_may_be_rows(&self) -> bool {
        let is_same_in_lanes = self
            .translation
            .as_ref()
            .is_some_and(|config| config.reads_level_1() && !config.depends_on_frames());
        let in_order = self.trusted == [true; 2] && !self.timed && self.longest_reference.is_none();
        is_same_in_lanes && in_order && self.protection.is_none()
    }
}

/// Returns the accesses that fetch the handler, and the handler for pages of the table. `first` is the mapping of page
/// 0 of the tables, and `shape` is the shape of the cache that serves fetches.
pub(super) fn of_code(config: &TranslationConfig, first: MappingId, shape: &Shape) -> [Vec<WalkAccess>; 2] {
    let code = MappingId(first.0 + config.table.reserve);
    handlers(config).map(|bytes| {
        let line = 1 << shape.line_log2;
        let lines = if bytes.is_empty() { 0..0 } else { bytes.start / line..bytes.end.div_ceil(line) };
        let fetch = |number: u64| {
            let (by, at) = ((config.agent(), Kind::Fetch), (code, number * line));
            WalkAccess::new(by, at, (FETCH, shape), config.table.page.log2())
        };
        lines.map(fetch).collect()
    })
}

impl Translator {
    /// Returns the accesses that read entries.
    pub(super) fn accesses(&self, steps: &[WalkStep]) -> Box<[WalkAccess]> {
        let (config, port) = (&self.config, (self.data, &self.shapes[self.data]));
        let load = |step: &WalkStep| match *step {
            WalkStep::Entry { mapping, offset } => {
                let (by, at) = ((config.agent(), Kind::Load), (mapping, u64::from(offset)));
                WalkAccess::new(by, at, port, config.table.page.log2())
            }
            WalkStep::Frame { .. } => unreachable!("walks that depend on frames are no rows"),
        };
        let mut accesses: Box<[WalkAccess]> = steps.iter().map(load).collect();
        if self.keeps_two {
            WalkAccess::pair(&mut accesses);
        }
        accesses
    }
}

impl Prepare {
    /// Makes rows of the accesses of a walk, and counts the walk.
    pub(super) fn walk_in_rows(
        &mut self,
        walk: &Walk,
        (spared, root, second): (u32, bool, bool),
    ) -> Result<()> {
        let Self { translator, filters, rows, stream, .. } = self;
        let translator = translator.as_deref_mut().expect("called where addresses are translated");
        let config = &*translator.config;
        let counts = &mut stream.translation;
        counts.walked(walk.kind, spared, root);
        counts.waited(TranslationCause::Handler, handler_instructions(config, root));
        counts.waited(TranslationCause::SecondLevel, if second { config.second_level } else { 0 });
        let asid = Asid(walk.page.space);
        let is_mips = config.table.kind == TableKind::Mips;
        let from = if is_mips { usize::from(!root) } else { spared as usize };
        translator.walk(asid, walk.page.number, walk.mapped)?;
        let entries = &translator.routes.known(asid, walk.page.number).accesses;
        let from = from.min(entries.len());
        counts.read((entries.len() - from) as u64);
        let [refill, of_root] = &translator.code;
        let of_root = if root { &**of_root } else { &[] };
        let mut pass = |access: &WalkAccess| rows.push(access.row);
        let [fetches, loads] = &mut stream.dropped_of_walks;
        *fetches += filters.pass_walk(refill, 0, &mut pass);
        *fetches += filters.pass_walk(of_root, 0, &mut pass);
        *loads += filters.pass_walk(entries, from, &mut pass);
        stream.tables = translator.tables.most_used().into();
        Ok(())
    }

    /// Ends an access that followed a walk. `passed` says whether the access was passed, as the last row.
    pub(in crate::prepare) fn after_walk(&mut self, kind: Kind, passed: bool) {
        if !self.translator.as_ref().is_some_and(|translator| translator.in_rows) {
            self.control(Control::AfterWalk(kind, None));
        } else if let (true, Some(row)) = (passed, self.rows.last_mut()) {
            *row = row.after_walk();
            self.after_walks += 1;
        } else {
            self.stream.translation.served(kind, ServedLevel::First);
        }
    }
}
