//! `Dram` serves requests: it issues the commands that they need, each at the first cycle that the rules allow.
//!
//! # How it works
//! Every bank, bank group, rank and channel keeps the first cycle at which it takes each kind of command. A step looks at
//! each bank that a request of the queue that goes waits for, finds the command that it needs next and the first cycle for
//! it, and issues the command with the least cycle; rules of order decide among equals. So time in which nothing can happen
//! costs nothing.
//!
//! The requests of a queue stand in the order of their age. Each bank has two masks over the places of each queue: the
//! requests for the bank, and those for its open row.

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
    /// The commands that the request needed before its row was open.
    needed: Needed,
}

/// `Needed` says which commands a request needed before its row was open.
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
    /// For each queue and bank, the places of the requests for the bank.
    places: [Vec<u64>; 2],
    /// For each queue and bank, the places of the requests for the open row.
    wanted: [Vec<u64>; 2],
    /// For each queue, the banks with requests.
    busy: [u64; 2],
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
        let banks = organisation.ranks * banks_of_rank;
        let bank = |number: u32| Bank {
            open: CLOSED,
            rank: number / banks_of_rank,
            group: number / organisation.banks,
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
            places: [vec![0; banks as usize], vec![0; banks as usize]],
            wanted: [vec![0; banks as usize], vec![0; banks as usize]],
            busy: [0; 2],
            banks: (0..banks).map(bank).collect(),
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
        let now = self.next;
        // The least key has the least cycle, then the least order, then the oldest request.
        let (mut key, mut bank_of_key) = (u64::MAX, 0);
        let mut busy = self.busy[going];
        while busy != 0 {
            let number = busy.trailing_zeros() as usize;
            busy &= busy - 1;
            let bank = &self.banks[number];
            let (rank, group) = (&self.ranks[bank.rank as usize], &self.groups[bank.group as usize]);
            let wanted = self.wanted[going][number];
            let transfer = bank.transfer.max(group.transfer[going]).max(rank.transfer[going]);
            let activate = bank.activate.max(group.activate).max(rank.activate).max(rank.window[rank.oldest]);
            let other = if bank.open == CLOSED { activate } else { bank.precharge };
            let (ready, order, places) =
                if wanted != 0 { (transfer, 1, wanted) } else { (other, 2, self.places[going][number]) };
            let cycle = ready.max(now);
            let found = cycle << 8 | order << 6 | u64::from(places.trailing_zeros());
            // A rank whose refresh is due takes no other command.
            if found < key && cycle < rank.due {
                (key, bank_of_key) = (found, number);
            }
        }
        let mut best =
            NextCommand { cycle: u64::MAX, order: u8::MAX, kind: DramCommandKind::Refresh, place: 0 };
        if key != u64::MAX {
            let (cycle, order) = (key >> 8, (key >> 6 & 3) as u8);
            let kind = match (order, going) {
                (1, READS) => DramCommandKind::Read,
                (1, _) => DramCommandKind::Write,
                _ if self.banks[bank_of_key].open == CLOSED => DramCommandKind::Activate,
                _ => DramCommandKind::Precharge,
            };
            best = NextCommand { cycle, order, kind, place: (key & 63) as u32 };
        }
        if self.closes {
            for (place, bank) in self.banks.iter().enumerate() {
                let is_wanted = self.wanted[READS][place] | self.wanted[WRITES][place] != 0;
                let cycle = bank.precharge.max(now);
                if bank.open != CLOSED
                    && !is_wanted
                    && (cycle, 3) < (best.cycle, best.order)
                    && cycle < self.ranks[bank.rank as usize].due
                {
                    let kind = DramCommandKind::Precharge;
                    best = NextCommand { cycle, order: 3, kind, place: place as u32 };
                }
            }
        }
        for rank in 0..self.ranks.len() {
            if self.ranks[rank].due <= best.cycle {
                let refresh = self.refresh(rank);
                if (refresh.cycle, refresh.order) < (best.cycle, best.order) {
                    best = refresh;
                }
            }
        }
        best
    }

    /// Puts a request at the end of its queue.
    #[inline]
    fn add(&mut self, queue: usize, waiting: Waiting) {
        let (bank, place) = (waiting.bank as usize, 1 << self.queues[queue].len());
        self.places[queue][bank] |= place;
        if self.banks[bank].open == waiting.row {
            self.wanted[queue][bank] |= place;
        }
        self.busy[queue] |= 1 << bank;
        self.queues[queue].push(waiting);
    }

    /// Returns whether a write of a line of this bank waits.
    fn writes_wait_for(&self, bank: usize, line: u64) -> bool {
        let mut places = self.places[WRITES][bank];
        while places != 0 {
            if self.queues[WRITES][places.trailing_zeros() as usize].line == line {
                return true;
            }
            places &= places - 1;
        }
        false
    }

    /// Takes a request out of its queue. The younger requests move up.
    #[inline]
    fn take(&mut self, queue: usize, place: usize) -> Waiting {
        let waiting = self.queues[queue].remove(place);
        let below = (1 << place) - 1;
        let without = |mask: &mut u64| *mask = *mask & below | (*mask >> 1) & !below;
        self.places[queue].iter_mut().for_each(without);
        self.wanted[queue].iter_mut().for_each(without);
        if self.places[queue][waiting.bank as usize] == 0 {
            self.busy[queue] &= !(1 << waiting.bank);
        }
        waiting
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
        let (channel, banks_of_rank) = (self.number, self.banks_of_rank);
        let at = |rank: u32, bank: u32, row: u32| {
            let bank = bank - rank * banks_of_rank;
            DramCommand { cycle, kind, channel, rank, bank, row }
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
                let waiting = self.take(going, place as usize);
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
        self.wanted.iter_mut().for_each(|wanted| wanted[bank] = 0);
        let bank = &mut self.banks[bank];
        bank.open = CLOSED;
        bank.activate = bank.activate.max(cycle + self.timing.rp);
    }

    fn open(&mut self, number: usize, row: u32, cycle: u64) {
        let timing = &self.timing;
        for queue in [READS, WRITES] {
            let mut places = self.places[queue][number];
            let mut wanted = 0;
            while places != 0 {
                let place = places.trailing_zeros();
                places &= places - 1;
                wanted |= u64::from(self.queues[queue][place as usize].row == row) << place;
            }
            self.wanted[queue][number] = wanted;
        }
        let bank = &mut self.banks[number];
        bank.open = row;
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
        if direction == READS && channel.writes_wait_for(bank as usize, request.line) {
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
        let (DramRequest { line, arrival, class, .. }, needed) = (*request, Needed::Nothing);
        channel.add(direction, Waiting { bank, row, line, arrival, number, class, needed });
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
