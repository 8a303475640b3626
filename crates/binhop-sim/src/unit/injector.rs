//! The injector, through which a unit acts: accesses and invalidations in one lane, at one occasion.

use std::ops::Range;

use binhop_base::{Agent, Agents, Kind, LineAddr, MappingId, PageId, Problem, Result, Translation};
use binhop_hw::{Answer, Back, Computer, DirtyData, Front, Invalidation, Resident, Tree};

use crate::frame_map::LaneTranslation;
use crate::occasion::{OccasionKind, Port, TouchedLines};

/// The caches of one lane at one occasion. What is done through it is done at the lane's clock, through the general path
/// through the caches ([`Computer`]); the clock moves on by what the processor waits for.
///
/// Bytes are named by a mapping and their place in its page: of a page that the unit owns, or of one that is resident in
/// the lane ([`Injector::is_resident`]).
///
/// # Errors
/// Every function refuses what the unit did not say it might disturb at this kind of occasion, an agent that it did not
/// name, a page that is not resident, and bytes outside the page.
pub struct Injector<'a> {
    pub(crate) kind: OccasionKind,
    pub(crate) touched: &'a TouchedLines,
    pub(crate) tree: &'a Tree,
    /// `None` while the front is shared.
    pub(crate) front: Option<&'a mut Front>,
    pub(crate) back: &'a mut Back,
    pub(crate) translation: LaneTranslation<'a>,
    /// Tells whether a page is in the lane's memory.
    pub(crate) resident: &'a dyn Fn(PageId) -> bool,
    pub(crate) owned: u32,
    /// Those that it acts as.
    pub(crate) agents: Agents,
    /// The lane's clock.
    pub(crate) now: u64,
    /// Cycles that the processor has waited.
    pub(crate) waited: u64,
}

impl Injector<'_> {
    /// Returns the mapping that leads to a page that the unit owns, by the page's number among them.
    ///
    /// # Panics
    /// The unit owns fewer pages.
    #[must_use]
    pub fn own_page(&self, number: u32) -> MappingId {
        assert!(number < self.owned, "the unit owns {} pages: there is no page {number}", self.owned);
        MappingId(number)
    }

    /// Returns whether the page that a mapping leads to is in the lane's memory; the unit's own always are.
    #[must_use]
    pub fn is_resident(&self, mapping: MappingId) -> bool {
        (self.resident)(self.translation.page(mapping))
    }

    /// An agent fetches, loads or stores the line that holds byte `offset` of a page, through the processor's port for it.
    pub fn access(&mut self, agent: Agent, kind: Kind, mapping: MappingId, offset: u64) -> Result<Answer> {
        let port = Port::of(kind);
        self.check(agent, mapping, &byte(offset))?;
        self.check_port(port, &byte(offset))?;
        let cache = self.serving(port);
        let at = LineAddr { id: mapping.0, line: self.line(cache, offset) };
        let (translation, mut computer) = self.computer()?;
        let answer = computer.access(agent, kind, at, &translation, &mut ());
        self.wait_for(agent, answer.cycles);
        Ok(answer)
    }

    /// An agent asks any cache for the line that holds byte `offset` of a page, as if the cache were the first level: one
    /// fetch, load or store there. Returns its cycles. No cache above it is touched, unless it is inclusive.
    pub fn ask(
        &mut self,
        cache: usize,
        agent: Agent,
        kind: Kind,
        mapping: MappingId,
        offset: u64,
    ) -> Result<u64> {
        self.check(agent, mapping, &byte(offset))?;
        for port in [Port::Fetch, Port::Data] {
            if self.serving(port) == cache {
                self.check_port(port, &byte(offset))?;
            }
        }
        let id = if self.tree.takes_mapping(cache) { mapping.0 } else { self.translation.page(mapping).0 };
        let at = LineAddr { id, line: self.line(cache, offset) };
        let cycles = if self.tree.in_front(cache) {
            let (translation, mut computer) = self.computer()?;
            computer.ask(cache, agent, kind, at, &translation, &mut ()).cycles
        } else {
            self.back.ask(cache, agent, kind, at, self.now, &self.translation, &mut ())
        };
        self.wait_for(agent, cycles);
        Ok(cycles)
    }

    /// An agent takes the lines that hold any of these bytes of a page out of every cache; above an inclusive cache, all that
    /// its line covers.
    pub fn invalidate(
        &mut self,
        agent: Agent,
        mapping: MappingId,
        bytes: Range<u64>,
        data: DirtyData,
    ) -> Result<()> {
        self.check(agent, mapping, &bytes)?;
        self.check_port(Port::Fetch, &bytes)?;
        self.check_port(Port::Data, &bytes)?;
        let page = self.translation.page(mapping);
        let (translation, mut computer) = self.computer()?;
        let mappings: Vec<MappingId> = translation.tables.mappings_of(page).collect();
        let what = Invalidation { page, mappings: &mappings, bytes, data };
        computer.invalidate(agent, &what, &translation, &mut ());
        Ok(())
    }

    /// Returns whether the cache that serves a kind of access holds the line with byte `offset` of a page. Nothing
    /// changes.
    pub fn holds(&self, kind: Kind, mapping: MappingId, offset: u64) -> Result<bool> {
        self.check_page(mapping, &byte(offset))?;
        let cache = self.serving(Port::of(kind));
        self.check_level1()?;
        let front = self.front.as_deref().expect("the lane has a front of its own");
        Ok(front.holds(cache, LineAddr { id: mapping.0, line: self.line(cache, offset) }, &self.translation))
    }

    /// Returns the lines that a cache holds: for each set, its ways, as [`Front::contents`] has them.
    pub fn contents(&self, cache: usize) -> Result<Vec<Vec<Option<Resident>>>> {
        if !self.tree.in_front(cache) {
            return Ok(self.back.contents(cache));
        }
        self.check_level1()?;
        let front = self.front.as_deref().expect("the lane has a front of its own");
        Ok(front.contents(cache))
    }

    /// The processor waits for the unit.
    pub fn wait(&mut self, cycles: u64) {
        self.now += cycles;
        self.waited += cycles;
    }

    fn wait_for(&mut self, agent: Agent, cycles: u64) {
        if agent.is_waited_for() {
            self.wait(cycles);
        }
    }

    fn serving(&self, port: Port) -> usize {
        let config = self.tree.config();
        match port {
            Port::Fetch => config.fetch,
            Port::Data => config.data,
        }
    }

    fn line(&self, cache: usize, offset: u64) -> u32 {
        (offset >> self.tree.config().caches[cache].line.log2()) as u32
    }

    fn computer(&mut self) -> Result<(LaneTranslation<'_>, Computer<&mut Front, &mut Back>)> {
        self.check_level1()?;
        let front = self.front.as_deref_mut().expect("the lane has a front of its own");
        Ok((self.translation, Computer::over(front, &mut *self.back, self.now)))
    }

    /// Checks that a unit has said that it might touch level 1. Otherwise lanes may share their front, and what is refused
    /// must not depend on whether they do.
    fn check_level1(&self) -> Result<()> {
        if self.touched.is_nothing() { Err(self.refused("level 1")) } else { Ok(()) }
    }

    /// Checks that a unit may make an agent touch these bytes of a page.
    fn check(&self, agent: Agent, mapping: MappingId, bytes: &Range<u64>) -> Result<()> {
        if self.agents.place(agent).is_none() {
            return Err(self.broken(
                &format!("agent {agent:?}"),
                "a unit acts as the agents that it has named, and never as the program",
                "let the unit name it",
            ));
        }
        self.check_page(mapping, bytes)
    }

    /// Checks that these are bytes of a page that is in memory.
    fn check_page(&self, mapping: MappingId, bytes: &Range<u64>) -> Result<()> {
        let page = self.tree.config().page.bytes();
        if bytes.end > page {
            return Err(self.broken(
                &format!("bytes {} to {} of a page", bytes.start, bytes.end),
                &format!("a page has {page} bytes"),
                "act on each page for itself",
            ));
        }
        if !self.is_resident(mapping) {
            return Err(self.broken(
                &format!("page {}", self.translation.page(mapping)),
                "a unit acts on its own pages and on those that are in memory",
                "ask whether it is resident",
            ));
        }
        Ok(())
    }

    /// Checks that a unit has said that it might touch these bytes through a port.
    fn check_port(&self, port: Port, bytes: &Range<u64>) -> Result<()> {
        let line_log2 = self.tree.config().caches[self.serving(port)].line.log2();
        if self.touched.of(port).cover(bytes, line_log2) {
            return Ok(());
        }
        Err(self.refused(&format!("bytes {} to {} behind port {port:?}", bytes.start, bytes.end)))
    }

    fn refused(&self, what: &str) -> Box<Problem> {
        let rule = "a unit touches what it said it might disturb at this kind of occasion, and nothing else";
        self.broken(what, rule, "let the unit ask for it")
    }

    fn broken(&self, what: &str, rule: &str, remedy: &str) -> Box<Problem> {
        Problem::run(what, &format!("unit at occasion {}", self.kind.name()), rule, remedy)
    }
}

/// The byte at `offset`, as a range. No page has the largest offset, so its range may be empty.
fn byte(offset: u64) -> Range<u64> {
    offset..offset.saturating_add(1)
}
