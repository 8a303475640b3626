//! `LineNotes` keeps one byte for each physical line that was ever referenced.
//!
//! Chunks of 512 lines are allocated when they are first touched. A chunk has the lines of a few pages: a placement may
//! choose frames anywhere in memory, so a larger chunk would mostly hold lines that nobody touches. The chunks of the
//! lower 256 GiB (with lines of 64 bytes) are found in a flat array, and the chunks above it in a map.

use std::collections::BTreeMap;

/// The front holds the line.
pub(super) const HELD: u8 = 1;
/// The front holds the line tagged as I/O data.
pub(super) const TAGGED: u8 = 2;
/// A device produced the line, and the processor has not updated it since.
pub(super) const IO_DATA: u8 = 4;
/// A device wrote the line, and the processor has not read it since.
pub(super) const UNREAD: u8 = 8;
/// The line left the caches while it was [`UNREAD`], and has not been written by a device since.
pub(super) const EVICTED: u8 = 16;

const CHUNK_LOG2: u32 = 9;
const CHUNK: usize = 1 << CHUNK_LOG2;
const FLAT_CHUNKS: u64 = 1 << 23;
const ABSENT: u32 = u32::MAX;

#[derive(Clone, Debug, Default)]
pub(super) struct LineNotes {
    /// The notes of all chunks, one chunk after another.
    notes: Vec<u8>,
    /// The place of each chunk in `notes`, in chunks.
    places: Vec<u32>,
    /// The places of the chunks from [`FLAT_CHUNKS`] on.
    far: BTreeMap<u64, u32>,
}

impl LineNotes {
    /// Returns the note of a line.
    #[inline]
    pub(super) fn at(&mut self, line: u64) -> &mut u8 {
        let chunk = line >> CHUNK_LOG2;
        let place = match self.places.get(chunk as usize) {
            Some(&place) if place != ABSENT => place,
            _ => self.find_or_allocate(chunk),
        };
        &mut self.notes[place as usize * CHUNK + (line as usize & (CHUNK - 1))]
    }

    #[cold]
    fn find_or_allocate(&mut self, chunk: u64) -> u32 {
        if let Some(&place) = self.far.get(&chunk) {
            return place;
        }
        let place = (self.notes.len() / CHUNK) as u32;
        self.notes.resize(self.notes.len() + CHUNK, 0);
        if chunk < FLAT_CHUNKS {
            let chunk = chunk as usize;
            if self.places.len() <= chunk {
                self.places.resize(chunk + 1, ABSENT);
            }
            self.places[chunk] = place;
        } else {
            self.far.insert(chunk, place);
        }
        place
    }

    /// Counts the lines that have a note.
    pub(super) fn count(&self, note: u8) -> u64 {
        self.notes.iter().filter(|&&n| n & note != 0).count() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_and_far_lines_keep_their_notes_apart() {
        let mut notes = LineNotes::default();
        let lines = [0, 1, 511, 512, (FLAT_CHUNKS << CHUNK_LOG2) - 1, FLAT_CHUNKS << CHUNK_LOG2, 1 << 55];
        for (number, &line) in lines.iter().enumerate() {
            *notes.at(line) = number as u8 + 1;
        }
        for (number, &line) in lines.iter().enumerate() {
            assert_eq!(*notes.at(line), number as u8 + 1);
        }
        assert_eq!(notes.count(1), 4);
        assert_eq!(*notes.at(5000), 0);
    }
}
