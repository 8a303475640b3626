//! `Dram` serves requests: it issues the commands that they need, each at the first cycle that the rules allow.
//!
//! # How it works
//! Every bank, bank group, rank and channel keeps the first cycle at which it takes each kind of command. A step looks at
//! each request of the queue that goes, finds the command that it needs next and the first cycle for it, and issues the
//! command with the least cycle; rules of order decide among equals. So time in which nothing can happen costs nothing.

use binhop_base::Result;

use super::{
    DramAddress, DramCommand, DramCommandKind, DramConfig, DramCounters, DramTiming, DramUseCounters,
    PagePolicy,
};

/// `DramRequest` is a request to read or write a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DramRequest {
    /// The cycle at which the request arrives. Requests are served as if they arrived in the order in which they are given.
    pub arrival: u64,
    /// The line: the address / 64.
    pub line: u64,
    /// True if the line is written.
    pub write: bool,
    /// The class under which the request counts, below [`Dram::CLASSES`].
    pub class: u8,
}

/// `DramListener` hears what a memory does.
pub trait DramListener {
    /// A command was issued.
    fn command(&mut self, _command: &DramCommand) {}

    /// The data of a request were on the bus until this cycle, or came from the queue of writes.
    fn done(&mut self, _request: u64, _cycle: u64) {}
}

impl DramListener for () {}

const CLOSED: u32 = u32::MAX;
const READS: usize = 0;
const WRITES: usize = 1;

/// `Waiting` is a request in a queue.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    /// The bank, counted through the ranks of the channel.
    bank: u32,
    row: u32,
    line: u64,
    arrival: u64,
    number: u64,
    class: u8,
    /// What the request needed before its row was open.
    needed: Needed,
}

/// `Needed` is what a request needed before its row was open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Needed {
    Nothing,
    Activate,
    Precharge,
}

#[derive(Clone, Copy, Debug)]
struct Bank {
    open: u32,
    rank: u32,
    group: u32,
    /// The requests of each queue that want the open row.
    wanted: [u32; 2],
    activate: u64,
    precharge: u64,
    /// The first read or write after the activate.
    transfer: u64,
}

/// `Group` is a bank group.
#[derive(Clone, Copy, Debug, Default)]
struct Group {
    activate: u64,
    transfer: [u64; 2],
}

#[derive(Clone, Copy, Debug, Default)]
struct Rank {
    activate: u64,
    transfer: [u64; 2],
    /// The first cycle for each of the next four activates, because of the last four.
    window: [u64; 4],
    oldest: usize,
    /// The cycle of the next refresh.
    due: u64,
}

/// `NextCommand` is a command that may be issued, by its cycle and its place in the order among equals.
#[derive(Clone, Copy, Debug)]
struct NextCommand {
    cycle: u64,
    order: u8,
    kind: DramCommandKind,
    /// The place of the request in its queue; of a command without a request, the bank or rank.
    place: u32,
}

#[derive(Clone, Debug)]
struct Channel {
    number: u32,
    timing: DramTiming,
    queue: usize,
    marks: (usize, usize),
    closes: bool,
    queues: [Vec<Waiting>; 2],
    banks: Vec<Bank>,
    groups: Vec<Group>,
    ranks: Vec<Rank>,
    banks_of_rank: u32,
    /// The first cycle for the next command.
    next: u64,
    /// True while writes go first.
    drains: bool,
    /// The direction of the last transfer.
    last: usize,
    counters: DramCounters,
}

impl Channel {
    fn new(config: &DramConfig, number: u32) -> Self {
        let organisation = &config.organisation;
        let banks_of_rank = organisation.banks_of_rank();
        let bank = |number: u32| Bank {
            open: CLOSED,
            rank: number / banks_of_rank,
            group: number / organisation.banks,
            wanted: [0; 2],
            activate: 0,
            precharge: 0,
            transfer: 0,
        };
        let (ranks, refi) = (u64::from(organisation.ranks), config.timing.refi);
        Self {
            number,
            timing: config.timing,
            queue: config.queue as usize,
            marks: (config.drain_high as usize, config.drain_low as usize),
            closes: config.pages == PagePolicy::Closed,
            queues: [Vec::new(), Vec::new()],
            banks: (0..organisation.ranks * banks_of_rank).map(bank).collect(),
            groups: vec![Group::default(); (organisation.ranks * organisation.bank_groups) as usize],
            ranks: (0..ranks)
                .map(|rank| Rank { due: (rank + 1) * refi / ranks, ..Rank::default() })
                .collect(),
            banks_of_rank,
            next: 0,
            drains: false,
            last: READS,
            counters: DramCounters::default(),
        }
    }

    /// Returns the queue that goes.
    fn going(&mut self) -> usize {
        let waiting = self.queues[WRITES].len();
        self.drains = if self.drains { waiting > self.marks.1 } else { waiting >= self.marks.0 };
        if self.drains || self.queues[READS].is_empty() { WRITES } else { READS }
    }

    fn banks_of(&self, rank: usize) -> core::ops::Range<usize> {
        let each = self.banks_of_rank as usize;
        rank * each..(rank + 1) * each
    }

    /// Returns the command that a rank needs for its refresh.
    fn refresh(&self, rank: usize) -> NextCommand {
        let banks = &self.banks[self.banks_of(rank)];
        let (kind, ready) =
            match banks.iter().filter(|bank| bank.open != CLOSED).map(|bank| bank.precharge).max() {
                Some(ready) => (DramCommandKind::PrechargeAll, ready),
                None => {
                    let ready = banks.iter().map(|bank| bank.activate).max().expect("a rank has banks");
                    (DramCommandKind::Refresh, ready)
                }
            };
        NextCommand {
            cycle: self.ranks[rank].due.max(self.next).max(ready),
            order: 0,
            kind,
            place: rank as u32,
        }
    }

    /// Finds the next command. `going` is the queue that goes.
    #[inline]
    fn find(&self, going: usize) -> NextCommand {
        let mut best = self.refresh(0);
        for rank in 1..self.ranks.len() {
            let refresh = self.refresh(rank);
            if refresh.cycle < best.cycle {
                best = refresh;
            }
        }
        let mut consider = |cycle: u64, order: u8, kind, place, due: u64| {
            // A rank whose refresh is due takes no other command.
            if (cycle, order) < (best.cycle, best.order) && cycle < due {
                best = NextCommand { cycle, order, kind, place };
            }
        };
        let transfer = if going == READS { DramCommandKind::Read } else { DramCommandKind::Write };
        for (place, waiting) in self.queues[going].iter().enumerate() {
            let bank = &self.banks[waiting.bank as usize];
            let rank = &self.ranks[bank.rank as usize];
            let group = &self.groups[bank.group as usize];
            if bank.open == waiting.row {
                let ready = bank.transfer.max(group.transfer[going]).max(rank.transfer[going]);
                consider(ready.max(self.next), 1, transfer, place as u32, rank.due);
            } else if bank.open == CLOSED {
                let ready =
                    bank.activate.max(group.activate).max(rank.activate).max(rank.window[rank.oldest]);
                consider(ready.max(self.next), 2, DramCommandKind::Activate, place as u32, rank.due);
            } else if bank.wanted[going] == 0 {
                consider(
                    bank.precharge.max(self.next),
                    2,
                    DramCommandKind::Precharge,
                    place as u32,
                    rank.due,
                );
            }
        }
        if self.closes {
            for (place, bank) in self.banks.iter().enumerate() {
                if bank.open != CLOSED && bank.wanted == [0; 2] {
                    let due = self.ranks[bank.rank as usize].due;
                    consider(bank.precharge.max(self.next), 3, DramCommandKind::Precharge, place as u32, due);
                }
            }
        }
        best
    }

    /// Issues the next command if its cycle is before `end`. Returns whether it did.
    #[inline]
    fn step(&mut self, end: u64, counts: &mut [DramUseCounters], listener: &mut impl DramListener) -> bool {
        // A request that enters at `end` is not in its queue yet, so no cycle from there on is decided here.
        if self.next >= end {
            return false;
        }
        let going = self.going();
        let next = self.find(going);
        if next.cycle >= end {
            return false;
        }
        let NextCommand { cycle, order, kind, place } = next;
        self.next = cycle + 1;
        let at = |rank: u32, bank: u32, row: u32| DramCommand {
            cycle,
            kind,
            channel: self.number,
            rank,
            bank: bank - rank * self.banks_of_rank,
            row,
        };
        match kind {
            DramCommandKind::Refresh | DramCommandKind::PrechargeAll => {
                listener.command(&at(place, place * self.banks_of_rank, 0));
                self.serve_rank(place as usize, cycle, kind);
            }
            DramCommandKind::Precharge => {
                let bank = if order == 3 {
                    place
                } else {
                    let waiting = &mut self.queues[going][place as usize];
                    waiting.needed = Needed::Precharge;
                    waiting.bank
                };
                listener.command(&at(self.banks[bank as usize].rank, bank, 0));
                self.close(bank as usize, cycle);
                self.counters.precharges += 1;
            }
            DramCommandKind::Activate => {
                let waiting = &mut self.queues[going][place as usize];
                if waiting.needed == Needed::Nothing {
                    waiting.needed = Needed::Activate;
                }
                let (bank, row) = (waiting.bank, waiting.row);
                listener.command(&at(self.banks[bank as usize].rank, bank, row));
                self.open(bank as usize, row, cycle);
            }
            DramCommandKind::Read | DramCommandKind::Write => {
                let waiting = self.queues[going].remove(place as usize);
                listener.command(&at(self.banks[waiting.bank as usize].rank, waiting.bank, waiting.row));
                let end = self.transfer(waiting.bank as usize, going, cycle);
                let count = &mut counts[waiting.class as usize];
                match waiting.needed {
                    Needed::Nothing => count.row_hits += 1,
                    Needed::Activate => count.row_misses += 1,
                    Needed::Precharge => count.row_conflicts += 1,
                }
                if going == READS {
                    count.reads += 1;
                    count.latency += end - waiting.arrival;
                } else {
                    count.writes += 1;
                }
                listener.done(waiting.number, end);
            }
        }
        true
    }

    fn serve_rank(&mut self, rank: usize, cycle: u64, kind: DramCommandKind) {
        let banks = self.banks_of(rank);
        if kind == DramCommandKind::PrechargeAll {
            banks.for_each(|bank| {
                if self.banks[bank].open != CLOSED {
                    self.close(bank, cycle);
                }
            });
            self.counters.precharges += 1;
            return;
        }
        for bank in &mut self.banks[banks] {
            bank.activate = bank.activate.max(cycle + self.timing.rfc);
        }
        self.ranks[rank].due += self.timing.refi;
        self.counters.refreshes += 1;
    }

    fn close(&mut self, bank: usize, cycle: u64) {
        let bank = &mut self.banks[bank];
        bank.open = CLOSED;
        bank.wanted = [0; 2];
        bank.activate = bank.activate.max(cycle + self.timing.rp);
    }

    fn open(&mut self, number: usize, row: u32, cycle: u64) {
        let timing = &self.timing;
        let wanted = [READS, WRITES].map(|queue| {
            let wants = |waiting: &&Waiting| waiting.bank as usize == number && waiting.row == row;
            self.queues[queue].iter().filter(wants).count() as u32
        });
        let bank = &mut self.banks[number];
        bank.open = row;
        bank.wanted = wanted;
        bank.transfer = cycle + timing.rcd;
        bank.precharge = cycle + timing.ras;
        bank.activate = cycle + timing.rc;
        self.groups[bank.group as usize].activate = cycle + timing.rrd_l;
        let rank = &mut self.ranks[bank.rank as usize];
        rank.activate = cycle + timing.rrd_s;
        rank.window[rank.oldest] = cycle + timing.faw;
        rank.oldest = (rank.oldest + 1) % 4;
        self.counters.activates += 1;
    }

    /// Notes a transfer. Returns the cycle at which its data end.
    fn transfer(&mut self, number: usize, direction: usize, cycle: u64) -> u64 {
        let timing = &self.timing;
        let bank = &mut self.banks[number];
        bank.wanted[direction] -= 1;
        let group = &mut self.groups[bank.group as usize];
        group.transfer[direction] = cycle + timing.ccd_l;
        let end = if direction == READS {
            let end = cycle + timing.cl + timing.burst;
            bank.precharge = bank.precharge.max(cycle + timing.rtp);
            let write = (end + timing.turn).saturating_sub(timing.cwl);
            for (number, rank) in self.ranks.iter_mut().enumerate() {
                let same = number == bank.rank as usize;
                let read = if same { timing.ccd_s } else { timing.burst + timing.turn };
                rank.transfer[READS] = rank.transfer[READS].max(cycle + read);
                rank.transfer[WRITES] = rank.transfer[WRITES].max(write);
            }
            end
        } else {
            let end = cycle + timing.cwl + timing.burst;
            bank.precharge = bank.precharge.max(end + timing.wr);
            group.transfer[READS] = group.transfer[READS].max(end + timing.wtr_l);
            for (number, rank) in self.ranks.iter_mut().enumerate() {
                let same = number == bank.rank as usize;
                let write = if same { timing.ccd_s } else { timing.burst + timing.turn };
                rank.transfer[WRITES] = rank.transfer[WRITES].max(cycle + write);
                let read =
                    if same { end + timing.wtr_s } else { (end + timing.turn).saturating_sub(timing.cl) };
                rank.transfer[READS] = rank.transfer[READS].max(read);
            }
            end
        };
        self.counters.bus += timing.burst;
        self.counters.turns += u64::from(direction != self.last);
        self.last = direction;
        end
    }
}

/// `Dram` is memory with a controller for each channel. See the module for its rules.
#[derive(Clone, Debug)]
pub struct Dram {
    config: DramConfig,
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
        Ok(Self { config, channels, entered: 0, numbers: 0, counts })
    }

    /// Takes a request: it enters its queue at its arrival, or when the queue has room. Returns its number, counted from 0,
    /// and the cycle at which it entered.
    ///
    /// Commands of cycles before that are issued. A request's data may be done later: see [`DramListener::done`].
    pub fn push(&mut self, request: &DramRequest, listener: &mut impl DramListener) -> (u64, u64) {
        let number = self.numbers;
        self.numbers += 1;
        let DramAddress { channel, rank, bank_group, bank, row, .. } =
            self.config.mapping.address(request.line, &self.config.organisation);
        let organisation = &self.config.organisation;
        let bank = (rank * organisation.bank_groups + bank_group) * organisation.banks + bank;
        let channel = &mut self.channels[channel as usize];
        let direction = usize::from(request.write);
        let mut enters = request.arrival.max(self.entered);
        while channel.step(enters, &mut self.counts, listener) {}
        if direction == READS && channel.queues[WRITES].iter().any(|waiting| waiting.line == request.line) {
            self.entered = enters;
            let count = &mut self.counts[request.class as usize];
            count.forwarded += 1;
            count.latency += enters + 1 - request.arrival;
            listener.done(number, enters + 1);
            return (number, enters);
        }
        while channel.queues[direction].len() >= channel.queue {
            channel.step(u64::MAX, &mut self.counts, listener);
            enters = enters.max(channel.next);
        }
        channel.next = channel.next.max(enters);
        self.entered = enters;
        if channel.banks[bank as usize].open == row {
            channel.banks[bank as usize].wanted[direction] += 1;
        }
        let (DramRequest { line, arrival, class, .. }, needed) = (*request, Needed::Nothing);
        channel.queues[direction].push(Waiting { bank, row, line, arrival, number, class, needed });
        (number, enters)
    }

    /// Issues commands until every request is done.
    pub fn finish(&mut self, listener: &mut impl DramListener) {
        for channel in &mut self.channels {
            while channel.queues.iter().any(|queue| !queue.is_empty()) {
                channel.step(u64::MAX, &mut self.counts, listener);
            }
        }
    }

    /// Issues the next command of the channel of a line.
    pub(super) fn step(&mut self, line: u64, listener: &mut impl DramListener) {
        let channel = self.config.mapping.address(line, &self.config.organisation).channel;
        self.channels[channel as usize].step(u64::MAX, &mut self.counts, listener);
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
