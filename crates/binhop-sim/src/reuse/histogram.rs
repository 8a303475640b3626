//! `Histogram` counts accesses by the power of two of their distance; `ReuseCurve` counts them by the distance.

use binhop_base::Kind;

/// The classes of a histogram: distance 0, and a class for each power of two below 2³².
const CLASSES: usize = 33;

/// `Histogram` counts accesses by kind (fetch, load, store) and class of distance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    first: [u64; 3],
    classes: [[u64; CLASSES]; 3],
}

impl Default for Histogram {
    fn default() -> Self {
        Self { first: [0; 3], classes: [[0; CLASSES]; 3] }
    }
}

impl Histogram {
    /// The kinds of accesses, in order.
    pub const KINDS: [Kind; 3] = [Kind::Fetch, Kind::Load, Kind::Store];

    /// Returns the first accesses to units, by kind.
    #[must_use]
    pub const fn first(&self) -> [u64; 3] {
        self.first
    }

    /// Returns the classes that are not empty: the least distance of the class, and the accesses by kind. The class of
    /// distance d > 0 ends before 2d.
    pub fn classes(&self) -> impl Iterator<Item = (u64, [u64; 3])> {
        (0..CLASSES).filter_map(|class| {
            let counts = [0, 1, 2].map(|kind: usize| self.classes[kind][class]);
            let least = if class == 0 { 0 } else { 1 << (class - 1) };
            (counts != [0; 3]).then_some((least, counts))
        })
    }

    #[inline]
    pub(super) fn add(&mut self, kind: usize, distance: Option<u32>, accesses: u64) {
        match distance {
            None => self.first[kind] += accesses,
            Some(distance) => {
                self.classes[kind][(u32::BITS - distance.leading_zeros()) as usize] += accesses;
            }
        }
    }

    pub(super) fn add_all(&mut self, other: &Self) {
        for kind in 0..3 {
            self.first[kind] += other.first[kind];
            for class in 0..CLASSES {
                self.classes[kind][class] += other.classes[kind][class];
            }
        }
    }
}

/// `ReuseCurve` counts accesses by distance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReuseCurve {
    first: u64,
    /// The accesses at each distance.
    distances: Vec<u64>,
}

impl ReuseCurve {
    /// Returns all accesses.
    #[must_use]
    pub fn accesses(&self) -> u64 {
        self.first + self.distances.iter().sum::<u64>()
    }

    /// Returns the number of units: each has one first access.
    #[must_use]
    pub const fn units(&self) -> u64 {
        self.first
    }

    /// Returns the misses of a fully associative LRU cache of `capacity` units.
    #[must_use]
    pub fn misses(&self, capacity: u64) -> u64 {
        let far = usize::try_from(capacity).ok().and_then(|capacity| self.distances.get(capacity..));
        self.first + far.map_or(0, |far| far.iter().sum())
    }

    /// Returns the accesses at each distance, from 0 on.
    #[must_use]
    pub fn distances(&self) -> &[u64] {
        &self.distances
    }

    #[inline]
    pub(super) fn add(&mut self, distance: Option<u32>) {
        let Some(distance) = distance else {
            self.first += 1;
            return;
        };
        let distance = distance as usize;
        if distance >= self.distances.len() {
            self.distances.resize((distance + 1).next_power_of_two(), 0);
        }
        self.distances[distance] += 1;
    }

    #[inline]
    pub(super) fn add_repeated(&mut self, accesses: u64) {
        if self.distances.is_empty() {
            self.distances.push(0);
        }
        self.distances[0] += accesses;
    }

    /// Drops the distances at the end that no access has.
    pub(super) fn trim(&mut self) {
        let end = self.distances.iter().rposition(|&accesses| accesses > 0).map_or(0, |last| last + 1);
        self.distances.truncate(end);
    }
}
