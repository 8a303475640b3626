//! `Injector` makes the accesses and invalidations of a unit, in one lane and at one occasion.

use std::ops::Range;

use binhop_base::{Agent, Agents, Kind, LineAddr, MappingId, PageId, Problem, Result, Translation};
use binhop_hw::{Answer, Back, Computer, DirtyData, Front, Invalidation, Origin, Resident, Tree};

use super::LeftLines;
use crate::frame_map::LaneTranslation;
use crate::occasion::{OccasionKind, Port, TouchedLines};

/// `Injector` gives a unit the caches of its lane at one occasion. Every access is made at the lane's clock, by
/// the stepper ([`Computer`]). The clock advances by the cycles that the processor waits.
///
/// A mapping and a place in its page name a byte. The unit owns the page, or the page is resident in the lane
/// ([`Injector::is_resident`]).
///
/// # Errors
/// Every function refuses lines for which the unit did not ask at this kind of occasion, an agent that it did
/// not name, a page that is not resident, and bytes outside the page.
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
    /// The private caches of the life that runs, if switches are observed.
    pub(crate) private: Option<&'a mut dyn PrivateSide>,
    pub(crate) owned: u32,
    /// The agents as which the unit acts.
    pub(crate) agents: Agents,
    /// The lane's clock.
    pub(crate) now: u64,
    /// The cycles that the processor has waited.
    pub(crate) waited: u64,
    /// Takes the lines that leave at an invalidation, if the front is tapped.
    pub(crate) left: Option<&'a mut LeftLines>,
}

/// `PrivateSide` makes each access of a unit in private caches, too. The shared caches are a lane's own.
pub(crate) trait PrivateSide {
    /// See [`Computer::access`].
    fn access(
        &mut self,
        shared: &mut SharedCaches<'_>,
        agent: Agent,
        kind: Kind,
        at: LineAddr,
        translation: &LaneTranslation<'_>,
    ) -> Answer;

    /// See [`Computer::ask`].
    fn ask(
        &mut self,
        shared: &mut SharedCaches<'_>,
        cache: usize,
        agent: Agent,
        kind: Kind,
        at: LineAddr,
        translation: &LaneTranslation<'_>,
    ) -> Answer;

    /// See [`Computer::invalidate`].
    fn invalidate(
        &mut self,
        shared: &mut SharedCaches<'_>,
        agent: Agent,
        what: &Invalidation<'_>,
        translation: &LaneTranslation<'_>,
    );

    /// See [`Computer::flush`].
    fn flush(
        &mut self,
        shared: &mut SharedCaches<'_>,
        agent: Agent,
        caches: &[usize],
        translation: &LaneTranslation<'_>,
    );

    /// Makes the processor wait, besides the waits of accesses.
    fn wait(&mut self, cycles: u64);
}

/// `SharedCaches` are the caches of a lane, at the lane's clock.
pub(crate) type SharedCaches<'a> = Computer<&'a mut Front, &'a mut Back>;

impl<'a> Injector<'a> {
    /// Returns the mapping of a page that the unit owns. The pages of the unit are numbered from 0.
    ///
    /// # Panics
    /// The unit owns no page of this number.
    #[must_use]
    pub fn own_page(&self, number: u32) -> MappingId {
        assert!(number < self.owned, "the unit owns {} pages: there is no page {number}", self.owned);
        MappingId(number)
    }

    /// Returns whether the page of a mapping is in the lane's memory. The unit's own pages are always in memory.
    #[must_use]
    pub fn is_resident(&self, mapping: MappingId) -> bool {
        (self.resident)(self.translation.page(mapping))
    }

    /// Lets an agent fetch, load or store the line that holds byte `offset` of a page, through the processor's
    /// port for this kind of access.
    pub fn access(&mut self, agent: Agent, kind: Kind, mapping: MappingId, offset: u64) -> Result<Answer> {
        let port = Port::of(kind);
        self.check(agent, mapping, &byte(offset))?;
        self.check_port(port, &byte(offset))?;
        let cache = self.serving(port);
        let at = LineAddr { id: mapping.0, line: self.line(cache, offset) };
        let (translation, mut computer, private) = self.computer()?;
        let answer = match private {
            Some(private) => private.access(&mut computer, agent, kind, at, &translation),
            None => computer.access(agent, kind, at, &translation, &mut ()),
        };
        self.wait_for(agent, answer.cycles);
        Ok(answer)
    }

    /// Lets an agent access the line that holds byte `offset` of a page at any cache, as if the cache were the
    /// first level: one fetch, load or store there. Returns its cycles. Only an inclusive cache touches the
    /// caches above it.
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
        let cycles = if self.tree.in_front(cache) || self.private.is_some() {
            let (translation, mut computer, private) = self.computer()?;
            let answer = match private {
                Some(private) => private.ask(&mut computer, cache, agent, kind, at, &translation),
                None => computer.ask(cache, agent, kind, at, &translation, &mut ()),
            };
            answer.cycles
        } else {
            self.back.ask(cache, agent, kind, at, self.now, &self.translation, &mut ())
        };
        self.wait_for(agent, cycles);
        Ok(cycles)
    }

    /// Lets an agent read (fetch, load) or write (write) memory itself: the line of two to the power of `unit` bytes
    /// that holds byte `offset` of a page. No cache is looked at. Returns the cycles of the access.
    pub fn ask_memory(
        &mut self,
        agent: Agent,
        kind: Kind,
        mapping: MappingId,
        offset: u64,
        unit: u8,
    ) -> Result<u64> {
        self.check(agent, mapping, &byte(offset))?;
        let at = LineAddr { id: self.translation.page(mapping).0, line: (offset >> unit) as u32 };
        let cycles = self.back.ask_memory(kind, at, Origin::new(agent, unit), self.now);
        self.wait_for(agent, cycles);
        Ok(cycles)
    }

    /// Lets an agent invalidate or clean, in every cache, the lines that hold any of these bytes of a page. Above an
    /// inclusive cache, every line that an invalidated line of the cache covers is invalidated, too.
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
        let left = self.left.take();
        let (translation, mut computer, private) = self.computer()?;
        let mappings: Vec<MappingId> = translation.tables.mappings_of(page).collect();
        let what = Invalidation { page, mappings: &mappings, bytes, data };
        match (private, left) {
            (Some(private), _) => private.invalidate(&mut computer, agent, &what, &translation),
            (None, None) => computer.invalidate(agent, &what, &translation, &mut ()),
            (None, Some(left)) => {
                computer.invalidate(agent, &what, &translation, left);
                self.left = Some(left);
            }
        }
        Ok(())
    }

    /// Lets an agent flush caches: all lines leave the named caches and the caches above a named inclusive cache. The
    /// private caches of every life are flushed, too.
    pub fn flush(&mut self, agent: Agent, caches: &[usize]) -> Result<()> {
        if caches.is_empty() {
            return Ok(());
        }
        self.check_agent(agent)?;
        let in_front = caches.iter().any(|&cache| self.tree.in_front(cache));
        if in_front {
            let page = 0..self.tree.config().page.bytes();
            self.check_port(Port::Fetch, &page)?;
            self.check_port(Port::Data, &page)?;
        }
        if !in_front && self.private.is_none() {
            self.back.flush(agent, caches, self.now, &self.translation, &mut ());
            return Ok(());
        }
        let (translation, mut computer, private) = self.computer()?;
        match private {
            Some(private) => private.flush(&mut computer, agent, caches, &translation),
            None => computer.flush(agent, caches, &translation, &mut ()),
        }
        Ok(())
    }

    /// Returns whether the cache that serves a kind of access holds the line with byte `offset` of a page. The
    /// call changes no state.
    pub fn holds(&self, kind: Kind, mapping: MappingId, offset: u64) -> Result<bool> {
        self.check_page(mapping, &byte(offset))?;
        let cache = self.serving(Port::of(kind));
        self.check_level1()?;
        let front = self.front.as_deref().expect("the lane has a front of its own");
        Ok(front.holds(cache, LineAddr { id: mapping.0, line: self.line(cache, offset) }, &self.translation))
    }

    /// Returns the lines that a cache holds, as [`Front::contents`] does: the ways of each set.
    pub fn contents(&self, cache: usize) -> Result<Vec<Vec<Option<Resident>>>> {
        if !self.tree.in_front(cache) {
            return Ok(self.back.contents(cache));
        }
        self.check_level1()?;
        let front = self.front.as_deref().expect("the lane has a front of its own");
        Ok(front.contents(cache))
    }

    /// Makes the processor wait for the unit.
    pub fn wait(&mut self, cycles: u64) {
        if let Some(private) = &mut self.private {
            private.wait(cycles);
        }
        self.note_wait(cycles);
    }

    fn wait_for(&mut self, agent: Agent, cycles: u64) {
        if agent.is_waited_for() {
            self.note_wait(cycles);
        }
    }

    fn note_wait(&mut self, cycles: u64) {
        self.now += cycles;
        self.waited += cycles;
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

    fn computer(
        &mut self,
    ) -> Result<(LaneTranslation<'_>, SharedCaches<'_>, Option<&mut (dyn PrivateSide + 'a)>)> {
        // With private caches the lane has a front of its own, and a unit may ask any cache behind it.
        if self.private.is_none() {
            self.check_level1()?;
        }
        let front = self.front.as_deref_mut().expect("the lane has a front of its own");
        let computer = Computer::over(front, &mut *self.back, self.now);
        let private = self.private.as_deref_mut();
        Ok((self.translation, computer, private))
    }

    /// Checks that the unit asks for lines of level 1 at this kind of occasion. If it does not, lanes may share
    /// their front, and a refusal must not depend on whether they do.
    fn check_level1(&self) -> Result<()> {
        if self.touched.is_nothing() { Err(self.refused("level 1")) } else { Ok(()) }
    }

    /// Checks that the unit may let an agent touch these bytes of a page.
    fn check(&self, agent: Agent, mapping: MappingId, bytes: &Range<u64>) -> Result<()> {
        self.check_agent(agent)?;
        self.check_page(mapping, bytes)
    }

    /// Checks that the unit may act as an agent.
    fn check_agent(&self, agent: Agent) -> Result<()> {
        if self.agents.place(agent).is_some() {
            return Ok(());
        }
        Err(self.broken(
            &format!("agent {agent:?}"),
            "a unit acts as the agents that it has named, and never as the program",
            "name the agent in the unit's subscription",
        ))
    }

    /// Checks that these are bytes of a page that is in memory.
    fn check_page(&self, mapping: MappingId, bytes: &Range<u64>) -> Result<()> {
        let page = self.tree.config().page.bytes();
        if bytes.end > page {
            return Err(self.broken(
                &format!("bytes {} to {} of a page", bytes.start, bytes.end),
                &format!("a page has {page} bytes"),
                "act on each page separately",
            ));
        }
        if !self.is_resident(mapping) {
            return Err(self.broken(
                &format!("page {}", self.translation.page(mapping)),
                "a unit acts on its own pages and on pages that are in memory",
                "ask the injector first whether the page is resident",
            ));
        }
        Ok(())
    }

    /// Checks that the unit asks for the lines of these bytes behind a port.
    fn check_port(&self, port: Port, bytes: &Range<u64>) -> Result<()> {
        let line_log2 = self.tree.config().caches[self.serving(port)].line.log2();
        if self.touched.of(port).cover(bytes, line_log2) {
            return Ok(());
        }
        Err(self.refused(&format!("bytes {} to {} behind port {port:?}", bytes.start, bytes.end)))
    }

    fn refused(&self, what: &str) -> Box<Problem> {
        let rule = "a unit touches only the lines for which it asks at this kind of occasion";
        self.broken(what, rule, "add the lines to the unit's subscription")
    }

    fn broken(&self, what: &str, rule: &str, remedy: &str) -> Box<Problem> {
        Problem::run(what, &format!("unit at occasion {}", self.kind.name()), rule, remedy)
    }
}

/// Returns the byte at `offset` as a range. The range of the largest offset is empty; no page has such a byte.
fn byte(offset: u64) -> Range<u64> {
    offset..offset.saturating_add(1)
}
