//! `RequestQueue` holds the requests of a controller that wait, in the order of their age.
//!
//! A request keeps its place while it waits, so that masks over places stay true. Places follow each other in a ring of
//! [`PLACES`]. Requests leave in any order and leave gaps behind, which are closed only where the ring has no place
//! left for the next request.

/// The places of a queue: the bits of a mask.
pub(super) const PLACES: u32 = u64::BITS;

/// The bits of the number of a request in its queue. Requests are numbered anew when all numbers are used up.
pub(super) const SEQUENCE_BITS: u32 = 22;

/// `Waiting` is a request in a queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    /// The bank, counted through the ranks of the channel.
    pub(super) bank: u32,
    pub(super) row: u32,
    pub(super) line: u64,
    pub(super) arrival: u64,
    pub(super) number: u64,
    /// The number of the request in its queue: less for older requests.
    pub(super) sequence: u64,
    pub(super) class: u8,
    /// The commands that the request needed before its row was open.
    pub(super) needed: Needed,
}

/// `Needed` says which commands a request needed before its row was open.
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
    /// The places of requests that wait.
    taken: u64,
    /// The place of the oldest request, or a place before it.
    first: u32,
    /// The places from `first` to behind the youngest request, gaps included.
    spread: u32,
    /// The number of the next request.
    sequence: u64,
}

impl RequestQueue {
    pub(super) fn new() -> Self {
        let nothing = Waiting {
            bank: 0,
            row: 0,
            line: 0,
            arrival: 0,
            number: 0,
            sequence: 0,
            class: 0,
            needed: Needed::Nothing,
        };
        Self { requests: Box::new([nothing; PLACES as usize]), taken: 0, first: 0, spread: 0, sequence: 0 }
    }

    #[inline]
    pub(super) const fn len(&self) -> usize {
        self.taken.count_ones() as usize
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

    /// Returns the place of the oldest request of a mask.
    #[inline]
    pub(super) const fn oldest(&self, places: u64) -> u32 {
        (places.rotate_right(self.first).trailing_zeros() + self.first) % PLACES
    }

    /// Returns whether the ring has no place, or no number, for another request before its gaps are closed.
    #[inline]
    pub(super) const fn is_spread(&self) -> bool {
        self.spread == PLACES || self.sequence >> SEQUENCE_BITS != 0
    }

    /// Adds the youngest request. Returns the bit of its place.
    #[inline]
    pub(super) fn push(&mut self, waiting: Waiting) -> u64 {
        let place = (self.first + self.spread) % PLACES;
        *self.at_mut(place) = Waiting { sequence: self.sequence, ..waiting };
        self.sequence += 1;
        self.taken |= 1 << place;
        self.spread += 1;
        1 << place
    }

    /// Takes the request at a place out.
    #[inline]
    pub(super) fn remove(&mut self, place: u32) -> Waiting {
        self.taken &= !(1 << place);
        let gaps = self.taken.rotate_right(self.first).trailing_zeros().min(self.spread);
        self.first = (self.first + gaps) % PLACES;
        self.spread -= gaps;
        *self.at(place)
    }

    /// Returns the requests, oldest first, each with the bit of its place.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, &Waiting)> {
        let places = (0..self.spread).map(|gap| (self.first + gap) % PLACES);
        places.filter(|&place| self.taken >> place & 1 == 1).map(|place| (1 << place, self.at(place)))
    }

    /// Moves the requests together, to places from 0 on in the order of their age, and numbers them from 0.
    pub(super) fn close_gaps(&mut self) {
        let waiting: Vec<Waiting> = self.iter().map(|(_, &waiting)| waiting).collect();
        (self.taken, self.first, self.spread, self.sequence) = (0, 0, 0, 0);
        for request in waiting {
            self.push(request);
        }
    }
}
