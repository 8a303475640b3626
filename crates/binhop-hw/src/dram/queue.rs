//! `RequestQueue` holds the requests of a controller that wait, in the order of their age.
//!
//! A request keeps its place while it waits, so that masks over places stay true. Places follow each other in a ring
//! of [`PLACES`], so the distance of a place from the first one is the *age* of its request: less for older requests.
//! Requests leave in any order and leave gaps behind, which are closed only where the ring has no place left for the
//! next request.

/// The places of a queue: the bits of a mask.
pub(super) const PLACES: u32 = u64::BITS;

/// The number of counters of waiting lines. Lines share counters, and a line is looked for only if its counter is not
/// 0.
const LINE_COUNTS: usize = 256;

/// `Waiting` is a request in a queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    pub(super) line: u64,
    pub(super) arrival: u64,
    pub(super) number: u64,
    pub(super) row: u32,
    /// The bank, counted through the ranks of the channel.
    pub(super) bank: u8,
    pub(super) class: u8,
    /// The first command that the request needed before its row was open.
    pub(super) needed: Needed,
}

/// `Needed` says which command a request needed first. A row that a request has opened may be closed again before its
/// turn, so a request may need several commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Needed {
    Nothing,
    Activate,
    Precharge,
}

/// `RequestQueue` is a queue of requests to read, or of requests to write.
#[derive(Clone, Debug)]
pub(super) struct RequestQueue {
    requests: Box<[Waiting; PLACES as usize]>,
    /// For each remainder of a line's number, the number of requests that wait.
    lines: Box<[u8; LINE_COUNTS]>,
    /// The places of requests that wait.
    taken: u64,
    /// The number of requests that wait.
    count: usize,
    /// The place of the oldest request, or a place before it.
    first: u32,
    /// The places from `first` to behind the youngest request, gaps included.
    spread: u32,
}

impl RequestQueue {
    pub(super) fn new() -> Self {
        let needed = Needed::Nothing;
        let nothing = Waiting { line: 0, arrival: 0, number: 0, row: 0, bank: 0, class: 0, needed };
        Self {
            requests: Box::new([nothing; PLACES as usize]),
            lines: Box::new([0; LINE_COUNTS]),
            taken: 0,
            count: 0,
            first: 0,
            spread: 0,
        }
    }

    #[inline]
    pub(super) const fn len(&self) -> usize {
        self.count
    }

    #[inline]
    pub(super) const fn is_empty(&self) -> bool {
        self.taken == 0
    }

    /// Returns the request at a place.
    #[inline]
    pub(super) fn at(&self, place: u32) -> &Waiting {
        &self.requests[(place % PLACES) as usize]
    }

    /// Returns the request at a place.
    #[inline]
    pub(super) fn at_mut(&mut self, place: u32) -> &mut Waiting {
        &mut self.requests[(place % PLACES) as usize]
    }

    /// Returns the age of the oldest request of a mask that is not empty.
    #[inline]
    pub(super) const fn oldest_age(&self, places: u64) -> u32 {
        // The last bit spares the case of an empty mask.
        (places.rotate_right(self.first) | 1 << (PLACES - 1)).trailing_zeros()
    }

    /// Returns the place of the request with an age. It changes when a request leaves, and when gaps are closed.
    #[inline]
    pub(super) const fn place(&self, age: u32) -> u32 {
        (age + self.first) % PLACES
    }

    /// Returns the age of the request at a place.
    #[inline]
    pub(super) const fn age(&self, place: u32) -> u32 {
        place.wrapping_sub(self.first) % PLACES
    }

    /// Returns the place of the oldest request of a mask that is not empty.
    #[inline]
    pub(super) const fn oldest(&self, places: u64) -> u32 {
        self.place(self.oldest_age(places))
    }

    /// Returns whether a request for a line may wait. `false` is certain.
    #[inline]
    pub(super) fn may_hold(&self, line: u64) -> bool {
        self.lines[line as usize % LINE_COUNTS] != 0
    }

    /// Returns whether the ring has no place for another request before its gaps are closed.
    #[inline]
    pub(super) const fn is_spread(&self) -> bool {
        self.spread == PLACES
    }

    /// Adds the youngest request. Returns its place.
    #[inline(always)]
    pub(super) fn push(&mut self, waiting: Waiting) -> u32 {
        let place = self.place(self.spread);
        *self.at_mut(place) = waiting;
        self.lines[waiting.line as usize % LINE_COUNTS] += 1;
        self.taken |= 1 << place;
        self.count += 1;
        self.spread += 1;
        place
    }

    /// Removes the request at a place.
    #[inline]
    pub(super) fn remove(&mut self, place: u32) {
        let line = self.at(place).line;
        self.lines[line as usize % LINE_COUNTS] -= 1;
        self.taken &= !(1 << place);
        self.count -= 1;
        let gaps = self.taken.rotate_right(self.first).trailing_zeros().min(self.spread);
        self.first = (self.first + gaps) % PLACES;
        self.spread -= gaps;
    }

    /// Moves the requests together, to places from 0 on in the order of their age.
    pub(super) fn close_gaps(&mut self) {
        let (old, taken, first) = (*self.requests, self.taken, self.first);
        let places = (0..self.spread).map(|age| (age + first) % PLACES);
        let waiting = places.filter(|place| taken >> place & 1 == 1);
        self.requests.iter_mut().zip(waiting).for_each(|(to, place)| *to = old[place as usize]);
        (self.first, self.spread) = (0, self.count as u32);
        self.taken = if self.spread == PLACES { u64::MAX } else { (1 << self.spread) - 1 };
    }

    /// Returns the places of requests that wait.
    pub(super) fn places(&self) -> impl Iterator<Item = u32> {
        Places(self.taken)
    }
}

/// `Places` iterates over the places of a mask, lowest first.
#[derive(Clone, Copy, Debug)]
pub(super) struct Places(pub(super) u64);

impl Iterator for Places {
    type Item = u32;

    #[inline]
    fn next(&mut self) -> Option<u32> {
        if self.0 == 0 {
            return None;
        }
        let place = self.0.trailing_zeros();
        self.0 &= self.0 - 1;
        Some(place)
    }
}
