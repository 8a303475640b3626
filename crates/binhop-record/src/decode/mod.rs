//! `Decoder` turns the words of a recorder's pipe into pieces of a process's stream.
//!
//! This file decodes the runs of blocks, and cuts the words into records; `records.rs` decodes the records.

mod records;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use binhop_base::counted;
use binhop_trace::import::rows::Rows;

use crate::areas::Areas;
use crate::catalog::Catalog;
use crate::code_blocks::{CodeBlocks, FetchRows};
use crate::piece::Piece;
use crate::wire;

/// The number of rows at which a batch becomes a piece.
const BATCH_ROWS: usize = 1 << 16;
/// The size of the pages in which mappings are counted. The recorder supports one platform.
pub(crate) const PAGE: u64 = 4096;
/// The number of words to feed at once. One word, which says that a block ran, may make thousands of rows.
pub(crate) const FEED_WORDS: usize = 1 << 10;
/// The most words of a record. The longest records are a call of 1200 ranges, a path, and a superblock's
/// items.
const MAX_RECORD_WORDS: u64 = 16 << 10;

/// `Decoder` decodes the stream of one process.
#[derive(Debug)]
pub(crate) struct Decoder {
    blocks: CodeBlocks,
    fetch: FetchRows,
    rows: Rows,
    areas: Areas,
    catalog: Arc<Mutex<Catalog>>,
    pieces: VecDeque<Piece>,
    /// The children that were forked since the last [`Decoder::take_children`]: process id and decoder.
    children: Vec<(u64, Decoder)>,
    /// The first words of a record or run whose other words come with the next chunk.
    rest: Vec<u64>,
    /// The program that runs, and whether its references are wanted. `None` before it starts.
    program: Option<(String, bool)>,
    /// The segment of the heap and the heap's first address, once there is a heap.
    heap: Option<(u64, u64)>,
    ended: bool,
    /// The number of words decoded so far, for errors.
    read: u64,
}

impl Decoder {
    pub(crate) fn new(fetch: FetchRows, catalog: Arc<Mutex<Catalog>>) -> Self {
        Self {
            blocks: CodeBlocks::new(fetch),
            fetch,
            rows: Rows::with_capacity(BATCH_ROWS),
            areas: Areas::default(),
            catalog,
            pieces: VecDeque::new(),
            children: Vec::new(),
            rest: Vec::new(),
            program: None,
            heap: None,
            ended: false,
            read: 0,
        }
    }

    /// Takes the children that were forked since the last call: process id, and the decoder of the child's
    /// stream.
    pub(crate) fn take_children(&mut self) -> Vec<(u64, Decoder)> {
        std::mem::take(&mut self.children)
    }

    /// Returns the decoder of a child that is forked now: it knows the blocks, mappings and program of its
    /// parent.
    fn child(&mut self) -> Self {
        Self {
            blocks: self.blocks.child(),
            areas: self.areas.clone(),
            program: self.program.clone(),
            heap: self.heap,
            ..Self::new(self.fetch, Arc::clone(&self.catalog))
        }
    }

    /// Returns the name of the program that runs.
    pub(crate) fn command(&self) -> &str {
        self.program.as_ref().map_or("", |(name, _)| name)
    }

    /// Returns whether the process said that it ended.
    pub(crate) fn ended(&self) -> bool {
        self.ended
    }

    /// Takes the next complete piece.
    pub(crate) fn piece(&mut self) -> Option<Piece> {
        self.pieces.pop_front()
    }

    /// Prepares for another image of the process. A new image describes its own blocks.
    pub(crate) fn new_image(&mut self) {
        self.rest.clear();
        self.blocks = CodeBlocks::new(self.fetch);
    }

    /// Ends an image that writes no more. Open rows become a piece; the words of an incomplete record are
    /// dropped.
    pub(crate) fn image_ends(&mut self) {
        self.rest.clear();
        self.end_rows();
    }

    /// Decodes the next words.
    ///
    /// # Errors
    /// A recorder does not write such words. The error says which word is wrong, and why.
    pub(crate) fn feed(&mut self, words: &[u64]) -> Result<(), String> {
        if self.rest.is_empty() {
            let taken = self.decode(words)?;
            self.rest.extend_from_slice(&words[taken..]);
        } else {
            let mut joined = std::mem::take(&mut self.rest);
            joined.extend_from_slice(words);
            let taken = self.decode(&joined)?;
            joined.drain(..taken);
            self.rest = joined;
        }
        Ok(())
    }

    /// Decodes complete runs and records. Returns the number of their words.
    fn decode(&mut self, words: &[u64]) -> Result<usize, String> {
        let mut at = 0;
        while let Some(&word) = words.get(at) {
            if wire::tag(word) == wire::RUN {
                let number = wire::low(word) as usize;
                let Some(block) = self.blocks.block(number) else {
                    return Err(self.wrong(at, &format!("block {number} runs before it is described")));
                };
                let Some(addresses) = words.get(at + 1..at + 1 + block.references) else { break };
                block.run(addresses, &mut self.rows);
                at += 1 + addresses.len();
                if self.rows.len() >= BATCH_ROWS {
                    self.flush_rows();
                }
            } else if wire::tag(word) == wire::RECORD {
                let length = wire::low(word);
                if length > MAX_RECORD_WORDS {
                    let length = counted(length, ["word", "words"]);
                    return Err(self.wrong(at, &format!("a record of {length}")));
                }
                let Some(record) = words.get(at + 1..at + 1 + length as usize) else { break };
                self.record(word >> 48 & 0xff, record).map_err(|what| self.wrong(at, &what))?;
                at += 1 + record.len();
            } else {
                return Err(self.wrong(at, &format!("{word:#018x} starts neither a run nor a record")));
            }
        }
        self.read += at as u64;
        Ok(at)
    }

    fn wrong(&self, at: usize, what: &str) -> String {
        format!("word {}: {what}", self.read + at as u64)
    }

    fn catalog(&self) -> std::sync::MutexGuard<'_, Catalog> {
        self.catalog.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a piece of the finished rows.
    fn flush_rows(&mut self) {
        if !self.rows.is_empty() {
            let room = if self.rows.len() < BATCH_ROWS { 64 } else { BATCH_ROWS };
            self.pieces.push_back(Piece::Rows(self.rows.take(room)));
        }
    }

    /// Makes a piece of all rows so far, so that a piece of another kind may follow.
    fn end_rows(&mut self) {
        self.rows.end_run();
        self.flush_rows();
    }

    /// Appends a piece that holds no rows: an event between rows.
    fn push(&mut self, piece: Piece) {
        self.end_rows();
        self.pieces.push_back(piece);
    }
}

/// Decodes arbitrary bytes as one image's pipe and returns the number of rows. For tests.
///
/// # Errors
/// A recorder does not write such words. The error says which word is wrong, and why.
#[doc(hidden)]
pub fn read_pipe(bytes: &[u8], fetch: FetchRows) -> Result<u64, String> {
    let words: Vec<u64> = bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
    let mut decoder = Decoder::new(fetch, Arc::default());
    let mut rows = 0;
    for part in words.chunks(FEED_WORDS) {
        decoder.feed(part)?;
        drop(decoder.take_children());
        while let Some(piece) = decoder.piece() {
            rows += if let Piece::Rows(batch) = piece { batch.len() as u64 } else { 0 };
        }
    }
    Ok(rows)
}

#[cfg(test)]
mod any_words;
#[cfg(test)]
mod tests;
