//! `Channel` issues the commands of one channel, each at the first cycle that the rules allow.
//!
//! # How it works
//! Every bank, bank group, rank and channel keeps the first cycle at which it takes each kind of command. A step looks at
//! each bank that a request of the queue that goes waits for, finds the command that it needs next and the first cycle for
//! it, and issues the command with the least cycle; rules of order decide among equals. So time in which nothing can happen
//! costs nothing.
//!
//! A command that is found but lies in the future is kept: a request that comes meanwhile changes the choice of its own
//! bank alone. Each bank has two masks over the places of each queue ([`queue`](super::queue)): the requests for the bank,
//! and those for its open row.

use super::queue::{Needed, RequestQueue, SEQUENCE_BITS, Waiting};
use super::request::{DramListener, RowOutcome};
use super::{
    DramCommand, DramCommandKind, DramConfig, DramCounters, DramTiming, DramUseCounters, PagePolicy,
};

const CLOSED: u32 = u32::MAX;
pub(super) const READS: usize = 0;
pub(super) const WRITES: usize = 1;

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
    /// Cycle, order and age of the request that the command serves, as one number that is least for the next command.
    key: u64,
}

/// `BankChoice` is the command that a bank needs next for a queue.
#[derive(Clone, Copy, Debug, Default)]
struct BankChoice {
    /// The first cycle at which the bank takes it.
    ready: u64,
    /// Order and age, as the low bits of a key.
    rest: u64,
    /// The limit of the group and rank that applies.
    limit: u32,
    /// The place of the request in its queue.
    place: u32,
}

/// The bits of a key below the cycle: the order, and below it the number of the request in its queue.
const KEY_BITS: u32 = SEQUENCE_BITS + 2;
/// The orders of commands among equals: transfers go first, then what opens and closes rows for requests.
const TRANSFER: u64 = 1;
const OTHER: u64 = 2;

/// `Limits` has the first cycle at which groups and ranks take a transfer or an activate, for each bank group.
#[derive(Clone, Debug)]
struct Limits(Vec<u64>);

impl Limits {
    /// The limit of a precharge, which groups and ranks do not limit.
    const NONE: usize = 0;

    fn new(groups: usize) -> Self {
        Self(vec![0; 2 * groups + 1])
    }

    const fn transfer(group: usize) -> usize {
        2 * group + 1
    }

    const fn activate(group: usize) -> usize {
        2 * group + 2
    }
}

/// `Channel` is a channel with its controller: two queues, banks, groups and ranks.
#[derive(Clone, Debug)]
pub(super) struct Channel {
    number: u32,
    timing: DramTiming,
    pub(super) queue: usize,
    marks: (usize, usize),
    closes: bool,
    pub(super) queues: [RequestQueue; 2],
    /// For each queue and bank, the places of the requests for the bank.
    places: [Vec<u64>; 2],
    /// For each queue and bank, the places of the requests for the open row.
    wanted: [Vec<u64>; 2],
    /// For each queue, the banks with requests.
    busy: [u64; 2],
    /// For each queue and bank with requests, the command that the bank needs next.
    choices: [Vec<BankChoice>; 2],
    /// For each queue, what groups and ranks allow.
    limits: [Limits; 2],
    /// The cycle of the first refresh that is due.
    first_due: u64,
    banks: Vec<Bank>,
    groups: Vec<Group>,
    ranks: Vec<Rank>,
    banks_of_rank: u32,
    groups_of_rank: usize,
    /// The next command, if it is known, and the queue that goes then.
    known: Option<(NextCommand, usize)>,
    /// The first cycle for the next command.
    pub(super) next: u64,
    /// True while writes go first.
    drains: bool,
    /// The direction of the last transfer.
    last: usize,
    pub(super) counters: DramCounters,
}

impl Channel {
    pub(super) fn new(config: &DramConfig, number: u32) -> Self {
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
        let groups = (organisation.ranks * organisation.bank_groups) as usize;
        Self {
            number,
            timing: config.timing,
            queue: config.queue as usize,
            marks: (config.drain_high as usize, config.drain_low as usize),
            closes: config.pages == PagePolicy::Closed,
            queues: [RequestQueue::new(), RequestQueue::new()],
            places: [vec![0; banks as usize], vec![0; banks as usize]],
            wanted: [vec![0; banks as usize], vec![0; banks as usize]],
            busy: [0; 2],
            choices: [
                vec![BankChoice::default(); banks as usize],
                vec![BankChoice::default(); banks as usize],
            ],
            limits: [Limits::new(groups), Limits::new(groups)],
            first_due: refi / ranks,
            banks: (0..banks).map(bank).collect(),
            groups: vec![Group::default(); groups],
            ranks: (0..ranks)
                .map(|rank| Rank { due: (rank + 1) * refi / ranks, ..Rank::default() })
                .collect(),
            banks_of_rank,
            groups_of_rank: organisation.bank_groups as usize,
            known: None,
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
            key: 0,
        }
    }

    /// Chooses the command that a bank needs next for a queue, from the state of the bank alone.
    #[inline]
    fn choose(&mut self, queue: usize, number: usize) {
        let places = self.places[queue][number];
        if places == 0 {
            self.busy[queue] &= !(1 << number);
            return;
        }
        self.busy[queue] |= 1 << number;
        let (bank, wanted) = (&self.banks[number], self.wanted[queue][number]);
        let group = bank.group as usize;
        let (ready, order, limit) = match (wanted != 0, bank.open == CLOSED) {
            (true, _) => (bank.transfer, TRANSFER, Limits::transfer(group)),
            (false, true) => (bank.activate, OTHER, Limits::activate(group)),
            (false, false) => (bank.precharge, OTHER, Limits::NONE),
        };
        let place = self.queues[queue].oldest(if wanted != 0 { wanted } else { places });
        let rest = order << SEQUENCE_BITS | self.queues[queue].at(place).sequence;
        self.choices[queue][number] = BankChoice { ready, rest, limit: limit as u32, place };
    }

    /// Returns the key of a bank's command: its cycle, then its order, then the age of its request. The least key is next.
    #[inline(always)]
    fn key(&self, queue: usize, number: usize) -> u64 {
        let choice = &self.choices[queue][number];
        let cycle = choice.ready.max(self.limits[queue].0[choice.limit as usize]).max(self.next);
        cycle << KEY_BITS | choice.rest
    }

    /// Returns the command of a bank's choice with its key.
    #[inline(always)]
    fn command(&self, key: u64, bank: usize, going: usize) -> NextCommand {
        let (cycle, order) = (key >> KEY_BITS, key >> SEQUENCE_BITS & 3);
        let kind = match (order, going) {
            (TRANSFER, READS) => DramCommandKind::Read,
            (TRANSFER, _) => DramCommandKind::Write,
            _ if self.banks[bank].open == CLOSED => DramCommandKind::Activate,
            _ => DramCommandKind::Precharge,
        };
        NextCommand { cycle, order: order as u8, kind, place: self.choices[going][bank].place, key }
    }

    /// Finds the next command. `going` is the queue that goes.
    #[inline]
    fn find(&self, going: usize) -> NextCommand {
        let now = self.next;
        let (mut key, mut bank_of_key) = (u64::MAX, 0);
        let mut busy = self.busy[going];
        while busy != 0 {
            let number = busy.trailing_zeros() as usize;
            busy &= busy - 1;
            let found = self.key(going, number);
            bank_of_key = if found < key { number } else { bank_of_key };
            key = key.min(found);
        }
        if key >> KEY_BITS >= self.first_due {
            (key, bank_of_key) = self.before_refreshes(going);
        }
        let mut best = NextCommand {
            cycle: u64::MAX,
            order: u8::MAX,
            kind: DramCommandKind::Refresh,
            place: 0,
            key: u64::MAX,
        };
        if key != u64::MAX {
            best = self.command(key, bank_of_key, going);
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
                    best = NextCommand { cycle, order: 3, kind, place: place as u32, key: 0 };
                }
            }
        }
        if best.cycle < self.first_due {
            return best;
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

    /// Returns the least key, and its bank, of commands that come before the refresh of their rank is due. A rank whose
    /// refresh is due takes no other command.
    #[cold]
    fn before_refreshes(&self, going: usize) -> (u64, usize) {
        let (mut key, mut bank_of_key) = (u64::MAX, 0);
        for number in (0..self.banks.len()).filter(|number| self.busy[going] >> number & 1 == 1) {
            let found = self.key(going, number);
            if found < key && found >> KEY_BITS < self.ranks[self.banks[number].rank as usize].due {
                (key, bank_of_key) = (found, number);
            }
        }
        (key, bank_of_key)
    }

    /// Puts a request at the end of its queue.
    #[inline]
    pub(super) fn add(&mut self, queue: usize, waiting: Waiting) {
        if self.queues[queue].is_spread() {
            self.close_gaps(queue);
        }
        let bank = waiting.bank as usize;
        let place = self.queues[queue].push(waiting);
        self.places[queue][bank] |= place;
        if self.banks[bank].open == waiting.row {
            self.wanted[queue][bank] |= place;
        }
        let before = self.choices[queue][bank].place;
        self.choose(queue, bank);
        self.reconsider(queue, bank, before);
    }

    /// Keeps the known command true after a request for a bank came. `before` is the place that the bank had chosen.
    #[inline]
    fn reconsider(&mut self, queue: usize, bank: usize, before: u32) {
        let Some((known, going)) = self.known else { return };
        let serves = known.order == TRANSFER as u8 || known.order == OTHER as u8;
        // A row that is closed after use may be wanted now.
        if self.closes || queue == going && serves && known.place == before {
            self.known = None;
        } else if queue == going {
            let key = self.key(queue, bank);
            if !serves || key >> KEY_BITS >= self.first_due {
                self.known = None;
            } else if key < known.key {
                self.known = Some((self.command(key, bank, going), going));
            }
        }
    }

    /// Moves the requests of a queue to its first places, and numbers them anew.
    #[cold]
    fn close_gaps(&mut self, queue: usize) {
        self.known = None;
        self.queues[queue].close_gaps();
        self.places[queue].fill(0);
        self.wanted[queue].fill(0);
        for (place, waiting) in self.queues[queue].iter() {
            let bank = waiting.bank as usize;
            self.places[queue][bank] |= place;
            if self.banks[bank].open == waiting.row {
                self.wanted[queue][bank] |= place;
            }
        }
        (0..self.banks.len()).for_each(|bank| self.choose(queue, bank));
    }

    /// Returns whether a request of a queue waits for a line of this bank.
    #[inline]
    pub(super) fn waits_for(&self, queue: usize, bank: usize, line: u64) -> bool {
        let mut places = self.places[queue][bank];
        while places != 0 {
            if self.queues[queue].at(places.trailing_zeros()).line == line {
                return true;
            }
            places &= places - 1;
        }
        false
    }

    /// Takes a request out of its queue.
    #[inline]
    fn take(&mut self, queue: usize, place: u32) -> Waiting {
        let waiting = self.queues[queue].remove(place);
        let bank = waiting.bank as usize;
        let others = !(1 << place);
        self.places[queue][bank] &= others;
        self.wanted[queue][bank] &= others;
        waiting
    }

    /// Chooses anew for a bank whose state has changed.
    #[inline]
    fn changed(&mut self, bank: usize) {
        self.choose(READS, bank);
        self.choose(WRITES, bank);
    }

    /// Issues the next command if its cycle is before `end`. Returns whether it did.
    #[inline]
    pub(super) fn step(
        &mut self,
        end: u64,
        counts: &mut [DramUseCounters],
        listener: &mut impl DramListener,
    ) -> bool {
        // A request that enters at `end` is not in its queue yet, so no cycle from there on is decided here.
        if self.next >= end {
            return false;
        }
        let going = self.going();
        let next = match self.known {
            Some((known, of)) if of == going => known,
            _ => self.find(going),
        };
        if next.cycle >= end {
            self.known = Some((next, going));
            return false;
        }
        self.known = None;
        let NextCommand { cycle, order, kind, place, .. } = next;
        assert!(cycle >> (u64::BITS - KEY_BITS) == 0, "a memory runs for fewer than 2^40 cycles");
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
                    let waiting = self.queues[going].at_mut(place);
                    waiting.needed = Needed::Precharge;
                    waiting.bank
                };
                listener.command(&at(self.banks[bank as usize].rank, bank, 0));
                self.close(bank as usize, cycle);
                self.counters.precharges += 1;
            }
            DramCommandKind::Activate => {
                let waiting = self.queues[going].at_mut(place);
                if waiting.needed == Needed::Nothing {
                    waiting.needed = Needed::Activate;
                }
                let (bank, row) = (waiting.bank, waiting.row);
                listener.command(&at(self.banks[bank as usize].rank, bank, row));
                self.open(bank as usize, row, cycle);
            }
            DramCommandKind::Read | DramCommandKind::Write => {
                let waiting = self.take(going, place);
                listener.command(&at(self.banks[waiting.bank as usize].rank, waiting.bank, waiting.row));
                let end = self.transfer(waiting.bank as usize, going, cycle);
                let count = &mut counts[waiting.class as usize];
                let (counter, outcome) = match waiting.needed {
                    Needed::Nothing => (&mut count.row_hits, RowOutcome::Hit),
                    Needed::Activate => (&mut count.row_misses, RowOutcome::Miss),
                    Needed::Precharge => (&mut count.row_conflicts, RowOutcome::Conflict),
                };
                *counter += 1;
                if going == READS {
                    count.reads += 1;
                    count.latency += end - waiting.arrival;
                } else {
                    count.writes += 1;
                }
                listener.done(waiting.number, end, outcome);
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
        for bank in banks {
            self.banks[bank].activate = self.banks[bank].activate.max(cycle + self.timing.rfc);
            self.changed(bank);
        }
        self.ranks[rank].due += self.timing.refi;
        self.first_due = self.ranks.iter().map(|rank| rank.due).min().expect("a channel has ranks");
        self.counters.refreshes += 1;
    }

    fn close(&mut self, bank: usize, cycle: u64) {
        self.wanted.iter_mut().for_each(|wanted| wanted[bank] = 0);
        self.banks[bank].open = CLOSED;
        self.banks[bank].activate = self.banks[bank].activate.max(cycle + self.timing.rp);
        self.changed(bank);
    }

    fn open(&mut self, number: usize, row: u32, cycle: u64) {
        let timing = &self.timing;
        for queue in [READS, WRITES] {
            let mut places = self.places[queue][number];
            let mut wanted = 0;
            while places != 0 {
                let place = places.trailing_zeros();
                places &= places - 1;
                wanted |= u64::from(self.queues[queue].at(place).row == row) << place;
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
        self.changed(number);
        self.limit_activates(self.banks[number].rank as usize);
    }

    /// Notes what a rank and its groups allow, after an activate.
    #[inline]
    fn limit_activates(&mut self, rank: usize) {
        let of = &self.ranks[rank];
        let limit = of.activate.max(of.window[of.oldest]);
        for group in rank * self.groups_of_rank..(rank + 1) * self.groups_of_rank {
            let limit = limit.max(self.groups[group].activate);
            for limits in &mut self.limits {
                limits.0[Limits::activate(group)] = limit;
            }
        }
    }

    /// Notes what ranks and groups allow, after a transfer.
    #[inline]
    fn limit_transfers(&mut self) {
        for (number, group) in self.groups.iter().enumerate() {
            let rank = &self.ranks[number / self.groups_of_rank];
            for (direction, limits) in self.limits.iter_mut().enumerate() {
                limits.0[Limits::transfer(number)] = group.transfer[direction].max(rank.transfer[direction]);
            }
        }
    }

    /// Notes a transfer. Returns the cycle at which its data end.
    fn transfer(&mut self, number: usize, direction: usize, cycle: u64) -> u64 {
        let timing = &self.timing;
        let bank = &mut self.banks[number];
        let group = &mut self.groups[bank.group as usize];
        group.transfer[direction] = cycle + [timing.ccd_l, timing.ccd_l_write][direction];
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
        self.changed(number);
        self.limit_transfers();
        end
    }
}
