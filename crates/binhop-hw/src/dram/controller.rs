//! `Dram` serves requests: it issues the commands that they need, each at the first cycle that the rules allow.

use binhop_base::Result;

use super::channel::{Channel, READS, WRITES};
use super::mapping::BankLocator;
use super::queue::{Needed, Waiting};
use super::request::{DramListener, DramRequest, RowOutcome};
use super::{DramConfig, DramCounters, DramUseCounters};

/// `Dram` is memory with a controller for each channel. See the module for its rules.
#[derive(Clone, Debug)]
pub struct Dram {
    config: DramConfig,
    locator: BankLocator,
    channels: Vec<Channel>,
    /// The cycle at which the last request entered its queue.
    entered: u64,
    numbers: u64,
    counts: [DramUseCounters; Self::CLASSES],
}

impl Dram {
    /// The classes of requests that are counted apart.
    pub const CLASSES: usize = 4;

    /// Makes a memory with closed rows.
    ///
    /// # Errors
    /// The configuration is refused by [`DramConfig::check`].
    pub fn new(config: DramConfig) -> Result<Self> {
        config.check()?;
        let channels =
            (0..config.organisation.channels).map(|number| Channel::new(&config, number)).collect();
        let counts = [DramUseCounters::default(); Self::CLASSES];
        let locator = BankLocator::new(&config.mapping, &config.organisation);
        Ok(Self { config, locator, channels, entered: 0, numbers: 0, counts })
    }

    /// Takes a request: it enters its queue at its arrival, or when the queue has room. A write also stays
    /// outside until no read of its line waits. Returns its number, counted from 0, and the cycle at which it entered.
    ///
    /// Commands of cycles before that are issued. A request's data may be done later: see [`DramListener::done`].
    pub fn push(&mut self, request: &DramRequest, listener: &mut impl DramListener) -> (u64, u64) {
        let number = self.numbers;
        self.numbers += 1;
        let (bank, row) = self.locator.bank_and_row(request.line);
        let channel = &mut self.channels[self.locator.channel(request.line)];
        let direction = usize::from(request.write);
        let mut enters = request.arrival.max(self.entered);
        channel.advance(enters, &mut self.counts, listener);
        if direction == READS && channel.waits_for(WRITES, bank as usize, request.line) {
            self.entered = enters;
            let count = &mut self.counts[request.class as usize];
            count.forwarded += 1;
            count.latency += enters + 1 - request.arrival;
            listener.done(number, enters + 1, RowOutcome::Forwarded);
            return (number, enters);
        }
        while channel.queues[direction].len() >= channel.queue
            || (direction == WRITES && channel.waits_for(READS, bank as usize, request.line))
        {
            channel.issue_next(&mut self.counts, listener);
            enters = enters.max(channel.next);
        }
        channel.next = channel.next.max(enters);
        self.entered = enters;
        let (DramRequest { line, arrival, class, .. }, needed) = (*request, Needed::Nothing);
        channel.add(direction, Waiting { bank: bank as u8, row, line, arrival, number, class, needed });
        (number, enters)
    }

    /// Issues commands until every request is done. A channel stops at its last request;
    /// [`go_on_until`](Self::go_on_until) lets all channels run equally long.
    pub fn finish(&mut self, listener: &mut impl DramListener) {
        for channel in &mut self.channels {
            while channel.queues.iter().any(|queue| !queue.is_empty()) {
                channel.issue_next(&mut self.counts, listener);
            }
        }
    }

    /// Issues the commands of all cycles before `end`: refreshes, and precharges of rows that no request wants. All
    /// requests are done.
    pub fn go_on_until(&mut self, end: u64, listener: &mut impl DramListener) {
        for channel in &mut self.channels {
            channel.advance(end, &mut self.counts, listener);
        }
    }

    /// Issues the next command of the channel of a line.
    pub(super) fn step(&mut self, line: u64, listener: &mut impl DramListener) {
        self.channels[self.locator.channel(line)].issue_next(&mut self.counts, listener);
    }

    /// Returns the number that the next request gets.
    #[must_use]
    pub const fn next_number(&self) -> u64 {
        self.numbers
    }

    /// Returns the configuration.
    #[must_use]
    pub const fn config(&self) -> &DramConfig {
        &self.config
    }

    /// Returns the counts of the requests of a class.
    #[must_use]
    pub const fn class(&self, class: u8) -> &DramUseCounters {
        &self.counts[class as usize]
    }

    /// Returns the counts of commands and buses, over all channels.
    #[must_use]
    pub fn counters(&self) -> DramCounters {
        let mut sum = DramCounters::default();
        self.channels.iter().for_each(|channel| sum += channel.counters);
        sum
    }
}
