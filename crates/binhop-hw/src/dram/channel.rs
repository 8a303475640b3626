//! `Channel` issues the commands of one channel, each at the first cycle that the rules allow.
//!
//! # How it works
//! Every bank, bank group, rank and channel keeps the first cycle at which it takes each kind of command. A step serves
//! one queue. It looks at what the banks of this queue need next ([`bank_index`](super::bank_index)), and issues the
//! command with the least cycle; rules of order decide among equal cycles. So time in which nothing can happen costs
//! nothing.
//!
//! A command that is found but lies in the future is kept: a request that comes meanwhile changes the choice of its own
//! bank alone.

use super::bank_index::{
    BANKS, Bank, BankIndex, CLOSE, CLOSED, KEY_BITS, OTHER, Order, REFRESH, TRANSFER, key, parts_of,
};
use super::limits::Limits;
use super::queue::{Needed, Places, RequestQueue, Waiting};
use super::request::{DramListener, RowOutcome};
use super::{
    DramCommand, DramCommandKind, DramConfig, DramCounters, DramTiming, DramUseCounters, PagePolicy,
};

pub(super) const READS: usize = 0;
pub(super) const WRITES: usize = 1;
/// The number that stands in place of a queue where no command is known, and of a direction before the first transfer.
const NEITHER: usize = 2;

/// `Channel` is a channel with its controller: two queues, banks, groups and ranks.
#[derive(Clone, Debug)]
pub(super) struct Channel {
    number: u32,
    timing: DramTiming,
    pub(super) queue: usize,
    /// The numbers of waiting writes from which on writes are served first: the number while reads are served first,
    /// and the number while writes are served first.
    marks: [usize; 2],
    closes: bool,
    pub(super) queues: [RequestQueue; 2],
    indices: [Box<BankIndex>; 2],
    limits: Limits,
    banks: Box<[Bank; BANKS]>,
    banks_of_rank: usize,
    /// The banks with an open row.
    open: u64,
    /// For each rank, the cycle of its next refresh.
    dues: Vec<u64>,
    /// The cycle of the first refresh that is due.
    first_due: u64,
    /// The key of the next command, and the queue that is served then; [`NEITHER`] if the command is not known.
    known: (u64, usize),
    /// The first cycle for the next command.
    pub(super) next: u64,
    /// True while writes are served first.
    drains: bool,
    /// The direction of the last transfer; [`NEITHER`] before the first transfer.
    last: usize,
    pub(super) counters: DramCounters,
}

impl Channel {
    pub(super) fn new(config: &DramConfig, number: u32) -> Self {
        let organisation = &config.organisation;
        let banks_of_rank = organisation.banks_of_rank() as usize;
        let bank = |number: usize| Bank {
            open: CLOSED,
            rank: (number / banks_of_rank) as u8,
            group: (number / organisation.banks as usize) as u8,
            activate: 0,
            precharge: 0,
            transfer: 0,
        };
        let (ranks, refi) = (u64::from(organisation.ranks), config.timing.refi);
        Self {
            number,
            timing: config.timing,
            queue: config.queue as usize,
            marks: [config.drain_high as usize, config.drain_low as usize + 1],
            closes: config.pages == PagePolicy::Closed,
            queues: [RequestQueue::new(), RequestQueue::new()],
            indices: [READS, WRITES].map(|queue| Box::new(BankIndex::new(queue))),
            limits: Limits::new(organisation, &config.timing),
            banks: Box::new(core::array::from_fn(bank)),
            banks_of_rank,
            open: 0,
            dues: (1..=ranks).map(|rank| rank * refi / ranks).collect(),
            first_due: refi / ranks,
            known: (0, NEITHER),
            next: 0,
            drains: false,
            last: NEITHER,
            counters: DramCounters::default(),
        }
    }

    /// Returns the queue that is served now.
    #[inline]
    fn going(&mut self) -> usize {
        let waiting = self.queues[WRITES].len();
        self.drains = waiting >= self.marks[usize::from(self.drains)];
        if self.drains || self.queues[READS].is_empty() { WRITES } else { READS }
    }

    /// Returns the open banks of a rank.
    fn open_of(&self, rank: usize) -> u64 {
        let each = self.banks_of_rank as u32;
        let all = if each == u64::BITS { u64::MAX } else { (1 << each) - 1 };
        self.open & all << (rank as u32 * each)
    }

    fn banks_of(&self, rank: usize) -> core::ops::Range<usize> {
        rank * self.banks_of_rank..(rank + 1) * self.banks_of_rank
    }

    /// Returns the key of the command that a rank needs for its refresh.
    fn refresh(&self, rank: usize) -> u64 {
        let open = Places(self.open_of(rank)).map(|bank| self.banks[bank as usize].precharge).max();
        let banks = &self.banks[self.banks_of(rank)];
        let ready = open.or(banks.iter().map(|bank| bank.activate).max()).expect("a rank has banks");
        key(self.dues[rank].max(self.next).max(ready), REFRESH, rank as u32)
    }

    /// Finds the key of the next command. `going` is the queue that is served.
    #[inline(always)]
    fn find(&mut self, going: usize) -> u64 {
        let queue = &self.queues[going];
        let mut best = self.indices[going].least_key(queue, &self.limits, self.next);
        if best >> KEY_BITS >= self.first_due {
            best = self.before_refreshes(going);
        }
        if self.closes {
            best = best.min(self.unwanted());
        }
        if best >> KEY_BITS >= self.first_due {
            for rank in 0..self.dues.len() {
                if self.dues[rank] <= best >> KEY_BITS {
                    best = best.min(self.refresh(rank));
                }
            }
        }
        best
    }

    /// Returns the least key of commands that come before the refresh of their rank is due. A rank whose refresh is
    /// due takes no other command.
    #[cold]
    fn before_refreshes(&self, going: usize) -> u64 {
        let (index, queue) = (&self.indices[going], &self.queues[going]);
        let key_of = |number: usize| {
            let bank = &self.banks[number];
            let found = index.key(number, bank, queue, &self.limits, self.next);
            if found >> KEY_BITS < self.dues[bank.rank as usize] { found } else { u64::MAX }
        };
        Places(index.busy()).map(|number| key_of(number as usize)).min().unwrap_or(u64::MAX)
    }

    /// Returns the least key of precharges of open rows that no request wants.
    fn unwanted(&self) -> u64 {
        let key_of = |number: u32| {
            let (place, bank) = (number as usize, &self.banks[number as usize]);
            let is_wanted = self.indices.iter().any(|index| index.wanted(place) != 0);
            let cycle = bank.precharge.max(self.next);
            let is_due = cycle >= self.dues[bank.rank as usize];
            if is_wanted || is_due { u64::MAX } else { key(cycle, CLOSE, number) }
        };
        Places(self.open).map(key_of).min().unwrap_or(u64::MAX)
    }

    /// Puts a request at the end of its queue. It is inlined, so that the request is written to its place at once: a
    /// copy of fields that were written one by one waits for them.
    #[inline(always)]
    pub(super) fn add(&mut self, queue: usize, waiting: Waiting) {
        if self.queues[queue].is_spread() {
            self.close_gaps(queue);
        }
        let (number, row) = (waiting.bank as usize % BANKS, waiting.row);
        let place = self.queues[queue].push(waiting);
        let (bank, index) = (&self.banks[number], &mut self.indices[queue]);
        if index.add(number, bank, row, place) {
            index.choose(number, bank, &self.queues[queue]);
            if self.known.1 == queue {
                self.reconsider(queue, number);
            }
        }
        if self.closes {
            // A row that is closed after use may be wanted now.
            self.known.1 = NEITHER;
        }
    }

    /// Corrects the known command after the command changed that a bank needs next for the served queue.
    #[inline]
    fn reconsider(&mut self, queue: usize, number: usize) {
        let (cycle, order, age) = parts_of(self.known.0);
        let requests = &self.queues[queue];
        let is_of_bank = requests.at(requests.place(age)).bank as usize == number;
        if order == REFRESH || order == CLOSE || cycle >= self.first_due || is_of_bank {
            self.known.1 = NEITHER;
        } else {
            let bank = &self.banks[number];
            let found = self.indices[queue].key(number, bank, requests, &self.limits, self.next);
            self.known.0 = self.known.0.min(found);
        }
    }

    /// Moves the requests of a queue to its first places.
    #[cold]
    fn close_gaps(&mut self, number: usize) {
        self.known.1 = NEITHER;
        let (queue, index) = (&mut self.queues[number], &mut self.indices[number]);
        queue.close_gaps();
        let busy = index.clear();
        for place in queue.places() {
            let (bank, row) = (queue.at(place).bank as usize, queue.at(place).row);
            index.add(bank, &self.banks[bank], row, place);
        }
        Places(busy).for_each(|bank| index.choose(bank as usize, &self.banks[bank as usize], queue));
    }

    /// Returns whether a request of a queue waits for a line of this bank.
    #[inline]
    pub(super) fn waits_for(&self, queue: usize, bank: usize, line: u64) -> bool {
        let requests = &self.queues[queue];
        requests.may_hold(line)
            && Places(self.indices[queue].places(bank)).any(|place| requests.at(place).line == line)
    }

    /// Notes in both queues that the row of a bank was closed, or that a bank with a closed row was refreshed.
    #[inline]
    fn note_closed(&mut self, number: usize) {
        for (index, queue) in self.indices.iter_mut().zip(&self.queues) {
            index.row_closed(number, &self.banks[number % BANKS], queue);
        }
    }

    /// Issues all commands of cycles before `end`.
    #[inline(never)]
    pub(super) fn advance(
        &mut self,
        end: u64,
        counts: &mut [DramUseCounters],
        listener: &mut impl DramListener,
    ) {
        while self.step(end, counts, listener) {}
    }

    /// Issues the next command.
    pub(super) fn issue_next(&mut self, counts: &mut [DramUseCounters], listener: &mut impl DramListener) {
        self.step(u64::MAX, counts, listener);
    }

    /// Issues the next command if its cycle is before `end`. Returns whether it did.
    #[inline(always)]
    fn step(&mut self, end: u64, counts: &mut [DramUseCounters], listener: &mut impl DramListener) -> bool {
        // A request that enters at `end` is not in its queue yet, so no cycle from there on is decided here.
        if self.next >= end {
            return false;
        }
        // Both queues have a number below 2.
        let going = self.going() & 1;
        if self.queues[going].is_empty() && !self.closes && self.first_due >= end {
            // Nothing waits in either queue, and an open row stays open until its rank is refreshed.
            return false;
        }
        let next = if self.known.1 == going { self.known.0 } else { self.find(going) };
        let (cycle, order, last) = parts_of(next);
        if cycle >= end {
            self.known = (next, going);
            return false;
        }
        self.known.1 = NEITHER;
        assert!(cycle >> (u64::BITS - KEY_BITS - 1) == 0, "a memory runs for fewer than 2^55 cycles");
        self.next = cycle + 1;
        if order == TRANSFER {
            self.transfer(going, self.queues[going].place(last), cycle, counts, listener);
        } else {
            self.issue_other(order, going, last, cycle, listener);
        }
        true
    }

    /// Issues a command other than a transfer. It is not inlined, because a jump that chooses among all commands is
    /// predicted less often than two branches.
    #[inline(never)]
    fn issue_other(
        &mut self,
        order: Order,
        going: usize,
        last: u32,
        cycle: u64,
        listener: &mut impl DramListener,
    ) {
        match order {
            OTHER => self.open_or_close(going, self.queues[going].place(last), cycle, listener),
            REFRESH => self.serve_rank(last as usize, cycle, listener),
            _ => self.precharge(last as usize, cycle, listener),
        }
    }

    /// Tells the listener of a command to a bank.
    #[inline]
    fn tell(
        &self,
        kind: DramCommandKind,
        number: usize,
        row: u32,
        cycle: u64,
        listener: &mut impl DramListener,
    ) {
        let rank = u32::from(self.banks[number % BANKS].rank);
        let bank = number as u32 - rank * self.banks_of_rank as u32;
        listener.command(&DramCommand { cycle, kind, channel: self.number, rank, bank, row });
    }

    /// Issues a precharge of all banks or a refresh, whichever the rank needs next.
    fn serve_rank(&mut self, rank: usize, cycle: u64, listener: &mut impl DramListener) {
        let open = self.open_of(rank);
        let first = rank * self.banks_of_rank;
        if open != 0 {
            self.tell(DramCommandKind::PrechargeAll, first, 0, cycle, listener);
            Places(open).for_each(|bank| self.close(bank as usize, cycle));
            self.counters.precharges += 1;
            return;
        }
        self.tell(DramCommandKind::Refresh, first, 0, cycle, listener);
        for bank in self.banks_of(rank) {
            self.banks[bank].activate = self.banks[bank].activate.max(cycle + self.timing.rfc);
            self.note_closed(bank);
        }
        self.dues[rank] += self.timing.refi;
        self.first_due = self.dues.iter().copied().min().expect("a channel has ranks");
        self.counters.refreshes += 1;
    }

    fn close(&mut self, number: usize, cycle: u64) {
        let bank = &mut self.banks[number % BANKS];
        bank.open = CLOSED;
        bank.activate = bank.activate.max(cycle + self.timing.rp);
        self.open &= !(1 << number);
        self.note_closed(number);
    }

    fn precharge(&mut self, number: usize, cycle: u64, listener: &mut impl DramListener) {
        self.tell(DramCommandKind::Precharge, number, 0, cycle, listener);
        self.close(number, cycle);
        self.counters.precharges += 1;
    }

    /// Issues the precharge or the activate that a request needs.
    fn open_or_close(&mut self, queue: usize, place: u32, cycle: u64, listener: &mut impl DramListener) {
        let waiting = self.queues[queue].at_mut(place);
        let number = waiting.bank as usize % BANKS;
        let bank = &mut self.banks[number];
        if bank.open != CLOSED {
            if waiting.needed == Needed::Nothing {
                waiting.needed = Needed::Precharge;
            }
            return self.precharge(number, cycle, listener);
        }
        if waiting.needed == Needed::Nothing {
            waiting.needed = Needed::Activate;
        }
        let (row, timing) = (waiting.row, &self.timing);
        bank.open = row;
        bank.transfer = cycle + timing.rcd;
        bank.precharge = cycle + timing.ras;
        bank.activate = cycle + timing.rc;
        self.open |= 1 << number;
        self.limits.note_activate(bank.rank, bank.group, cycle);
        self.counters.activates += 1;
        self.tell(DramCommandKind::Activate, number, row, cycle, listener);
        for (index, queue) in self.indices.iter_mut().zip(&self.queues) {
            index.row_opened(number, &self.banks[number], queue);
        }
    }

    /// Issues the read or write of a request, which leaves its queue.
    #[inline]
    fn transfer(
        &mut self,
        direction: usize,
        place: u32,
        cycle: u64,
        counts: &mut [DramUseCounters],
        listener: &mut impl DramListener,
    ) {
        let waiting = *self.queues[direction].at(place);
        let number = waiting.bank as usize % BANKS;
        let kind = [DramCommandKind::Read, DramCommandKind::Write][direction];
        self.tell(kind, number, waiting.row, cycle, listener);
        let (bank, timing) = (&mut self.banks[number], &self.timing);
        let [end, precharge] = if direction == READS {
            [cycle + timing.cl + timing.burst, cycle + timing.rtp]
        } else {
            let end = cycle + timing.cwl + timing.burst;
            [end, end + timing.wr]
        };
        bank.precharge = bank.precharge.max(precharge);
        self.limits.note_transfer(direction, bank.rank, bank.group, cycle);
        self.queues[direction].remove(place);
        self.indices[direction].remove(number, bank, place, &self.queues[direction]);
        self.indices[1 - direction].precharge_changed(number, bank, &self.queues[1 - direction]);
        self.counters.bus += timing.burst;
        self.counters.turns += u64::from(direction + self.last == READS + WRITES);
        self.last = direction;
        let outcome = match waiting.needed {
            Needed::Nothing => RowOutcome::Hit,
            Needed::Activate => RowOutcome::Miss,
            Needed::Precharge => RowOutcome::Conflict,
        };
        let count = &mut counts[waiting.class as usize];
        count.row_hits += u64::from(outcome == RowOutcome::Hit);
        count.row_misses += u64::from(outcome == RowOutcome::Miss);
        count.row_conflicts += u64::from(outcome == RowOutcome::Conflict);
        if direction == READS {
            count.reads += 1;
            count.latency += end - waiting.arrival;
        } else {
            count.writes += 1;
        }
        listener.done(waiting.number, end, outcome);
    }
}
