//! `BankIndex` knows, for each bank, the requests of one queue that wait for it, and the command that the bank needs
//! next.
//!
//! A bank is *ready* if a request wants its open row and the bank itself no longer delays the transfer. The requests
//! for its open row stand in the mask of its group, and the bank has no [`Choice`] of its own. Every other bank with
//! requests is *apart*: it has a choice, which is looked at by itself. In a stream most banks are ready, so one mask
//! shows the oldest transfer of a group.

use super::limits::{LimitPair, Limits};
use super::queue::{Places, RequestQueue};

/// The banks of a channel: the bits of a mask.
pub(super) const BANKS: usize = 64;

pub(super) const CLOSED: u32 = u32::MAX;

/// `Bank` is the state of a bank.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bank {
    /// The open row, or [`CLOSED`].
    pub(super) open: u32,
    pub(super) rank: u8,
    /// The bank group, counted through the ranks of the channel.
    pub(super) group: u8,
    /// The first activate, because of commands to the bank and refreshes.
    pub(super) activate: u64,
    /// The first precharge.
    pub(super) precharge: u64,
    /// The first read or write after the activate.
    pub(super) transfer: u64,
}

/// `Order` is the order of commands of one cycle, in the bits of a key above the age.
pub(super) type Order = u64;

/// The number of bits of a key below its cycle. These bits hold the order and, below the order, the age of the request.
/// A command without a request has the number of its bank or rank in place of an age.
pub(super) const KEY_BITS: u32 = 8;
const AGE_BITS: u32 = 6;
pub(super) const REFRESH: Order = 0;
pub(super) const TRANSFER: Order = 1 << AGE_BITS;
/// The order of activates and precharges for requests.
pub(super) const OTHER: Order = 2 << AGE_BITS;
/// The order of precharges without a request.
pub(super) const CLOSE: Order = 3 << AGE_BITS;

/// Returns the key of a command: the least key is next. `last` is an age, or the number of a bank or rank.
#[inline]
pub(super) const fn key(cycle: u64, order: Order, last: u32) -> u64 {
    cycle << KEY_BITS | order | last as u64
}

/// Returns cycle, order and age of a key.
#[inline]
pub(super) const fn parts_of(key: u64) -> (u64, Order, u32) {
    (key >> KEY_BITS, key & CLOSE, (key & ((1 << AGE_BITS) - 1)) as u32)
}

/// `Choice` is the command that a bank needs next for a queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Choice {
    /// The first cycle at which the bank takes it.
    cycle: u64,
    order: Order,
    /// The limits of group and rank.
    limits: LimitPair,
    /// The place of the request in its queue.
    place: u32,
}

impl Choice {
    #[inline]
    fn key(&self, limit: u64, queue: &RequestQueue) -> u64 {
        key(self.cycle.max(limit), self.order, queue.age(self.place))
    }
}

/// `BankIndex` is the index of a queue.
#[derive(Clone, Debug)]
pub(super) struct BankIndex {
    /// The number of the queue, for its limits.
    queue: usize,
    /// For each bank, the places of its requests.
    places: [u64; BANKS],
    /// For each bank, the places of the requests for the open row.
    wanted: [u64; BANKS],
    /// For each bank group, the wanted places of banks that are ready.
    ready: [u64; BANKS],
    /// The bank groups with a bank that is ready.
    ready_groups: u64,
    /// The banks with requests.
    busy: u64,
    /// The banks with requests that are not ready.
    apart: u64,
    choices: [Choice; BANKS],
}

impl BankIndex {
    pub(super) fn new(queue: usize) -> Self {
        let nothing = Choice { cycle: 0, order: OTHER, limits: LimitPair::NONE, place: 0 };
        Self {
            queue,
            places: [0; BANKS],
            wanted: [0; BANKS],
            ready: [0; BANKS],
            ready_groups: 0,
            busy: 0,
            apart: 0,
            choices: [nothing; BANKS],
        }
    }

    #[inline]
    pub(super) const fn places(&self, bank: usize) -> u64 {
        self.places[bank % BANKS]
    }

    /// Returns the places of requests for the open row of a bank.
    #[inline]
    pub(super) const fn wanted(&self, bank: usize) -> u64 {
        self.wanted[bank % BANKS]
    }

    /// Returns the banks with requests.
    #[inline]
    pub(super) const fn busy(&self) -> u64 {
        self.busy
    }

    const fn is_apart(&self, bank: usize) -> bool {
        self.apart >> bank & 1 == 1
    }

    /// Puts the wanted places of a bank into the mask of its group.
    #[inline]
    fn make_ready(&mut self, number: usize, group: u8) {
        self.apart &= !(1 << number);
        self.ready[group as usize % BANKS] |= self.wanted[number % BANKS];
        self.ready_groups |= 1 << group;
    }

    /// Takes places out of the mask of a group.
    #[inline]
    fn not_ready(&mut self, group: u8, places: u64) {
        let group = group as usize % BANKS;
        self.ready[group] &= !places;
        self.ready_groups &= !(u64::from(self.ready[group] == 0) << group);
    }

    /// Notes a request for a bank. Returns true if the command that the bank needs next has changed.
    #[inline]
    pub(super) fn add(&mut self, number: usize, bank: &Bank, row: u32, place: u32) -> bool {
        let (number, bit) = (number % BANKS, 1 << place);
        let had = self.places[number];
        self.places[number] |= bit;
        self.busy |= 1 << number;
        if bank.open != row {
            return had == 0;
        }
        let wanted = self.wanted[number];
        self.wanted[number] |= bit;
        if wanted != 0 && !self.is_apart(number) {
            self.ready[bank.group as usize % BANKS] |= bit;
        }
        wanted == 0
    }

    /// Notes that a request for the open row of a bank left the queue. The first place of the queue may have changed.
    #[inline]
    pub(super) fn remove(&mut self, number: usize, bank: &Bank, place: u32, queue: &RequestQueue) {
        let (number, bit) = (number % BANKS, 1 << place);
        self.places[number] &= !bit;
        self.wanted[number] &= !bit;
        self.not_ready(bank.group, bit);
        if self.wanted[number] == 0 {
            self.choose(number, bank, queue);
        } else {
            // The row has been open long enough for the transfer that removed the request, so the bank is ready.
            self.make_ready(number, bank.group);
        }
    }

    /// Notes that the bank takes a precharge at another cycle.
    #[inline]
    pub(super) fn precharge_changed(&mut self, number: usize, bank: &Bank, queue: &RequestQueue) {
        if self.places(number) != 0 && self.wanted(number) == 0 {
            self.choose(number, bank, queue);
        }
    }

    /// Notes that a row of a bank was opened.
    #[inline]
    pub(super) fn row_opened(&mut self, number: usize, bank: &Bank, queue: &RequestQueue) {
        let number = number % BANKS;
        let mut places = self.places[number];
        if places == 0 {
            return;
        }
        let mut wanted = 0;
        while places != 0 {
            let place = places.trailing_zeros();
            places &= places - 1;
            wanted |= u64::from(queue.at(place).row == bank.open) << place;
        }
        self.wanted[number] = wanted;
        self.choose(number, bank, queue);
    }

    /// Notes that the row of a bank was closed, or that a bank with a closed row was refreshed.
    #[inline]
    pub(super) fn row_closed(&mut self, number: usize, bank: &Bank, queue: &RequestQueue) {
        let number = number % BANKS;
        if self.places[number] != 0 {
            self.wanted[number] = 0;
            self.choose(number, bank, queue);
        }
    }

    /// Empties the index. Returns the banks that had requests. When requests have been added, the caller chooses anew
    /// for these banks.
    pub(super) fn clear(&mut self) -> u64 {
        for bank in Places(self.busy) {
            self.places[bank as usize % BANKS] = 0;
            self.wanted[bank as usize % BANKS] = 0;
        }
        for group in Places(self.ready_groups) {
            self.ready[group as usize % BANKS] = 0;
        }
        (self.ready_groups, self.apart) = (0, 0);
        core::mem::take(&mut self.busy)
    }

    /// Returns the command that a bank with requests needs next, from the state of the bank alone.
    #[inline]
    fn choice(&self, number: usize, bank: &Bank, queue: &RequestQueue) -> Choice {
        let wanted = self.wanted[number];
        if wanted != 0 {
            let limits = LimitPair::transfer(bank.rank, bank.group);
            return Choice { cycle: bank.transfer, order: TRANSFER, limits, place: queue.oldest(wanted) };
        }
        let place = queue.oldest(self.places[number]);
        if bank.open == CLOSED {
            let limits = LimitPair::activate(bank.rank, bank.group);
            Choice { cycle: bank.activate, order: OTHER, limits, place }
        } else {
            Choice { cycle: bank.precharge, order: OTHER, limits: LimitPair::NONE, place }
        }
    }

    /// Chooses anew for a bank, which is apart from then on, if it has requests.
    #[inline]
    pub(super) fn choose(&mut self, number: usize, bank: &Bank, queue: &RequestQueue) {
        let (number, places) = (number % BANKS, self.places(number));
        self.not_ready(bank.group, places);
        if places == 0 {
            self.apart &= !(1 << number);
            self.busy &= !(1 << number);
            return;
        }
        self.apart |= 1 << number;
        self.choices[number] = self.choice(number, bank, queue);
    }

    /// Returns the key of the command that a bank with requests needs next, from `now` on.
    #[inline]
    pub(super) fn key(
        &self,
        number: usize,
        bank: &Bank,
        queue: &RequestQueue,
        limits: &Limits,
        now: u64,
    ) -> u64 {
        let choice = self.choice(number % BANKS, bank, queue);
        choice.key(limits.of(self.queue, choice.limits).max(now), queue)
    }

    /// Returns the least key of all banks from `now` on, or `u64::MAX` without requests.
    #[inline(always)]
    pub(super) fn least_key(&mut self, queue: &RequestQueue, limits: &Limits, now: u64) -> u64 {
        let mut least = u64::MAX;
        for number in Places(self.apart) {
            let choice = &self.choices[number as usize % BANKS];
            let limit = limits.of(self.queue, choice.limits).max(now);
            if choice.order == TRANSFER && choice.cycle <= limit {
                // The limits never decrease, so the bank stays ready until its row is closed.
                self.make_ready(number as usize, choice.limits.group());
                continue;
            }
            least = least.min(choice.key(limit, queue));
        }
        for group in Places(self.ready_groups) {
            let limit = limits.of_group(self.queue, group).max(now);
            least = least.min(key(limit, TRANSFER, queue.oldest_age(self.ready[group as usize % BANKS])));
        }
        least
    }
}
