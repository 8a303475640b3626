//! `RecordedProcesses` holds the recorded processes. Each is a stream of pieces, decoded from the words of
//! its pipes.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use binhop_base::{Problem, Result};

use crate::catalog::Catalog;
use crate::code_blocks::FetchRows;
use crate::decode::{Decoder, FEED_WORDS};
use crate::piece::{Piece, ProcessStream, ProcessStreams};
use crate::pipes::has_ended;
use crate::spool::{ImageKey, Spools};

/// The decoders of forked children whose streams were not opened yet, by process id.
type PendingChildren = Arc<Mutex<BTreeMap<u64, VecDeque<Decoder>>>>;

/// `RecordedProcesses` opens the streams of the processes that write into the recorder's pipes.
pub(crate) struct RecordedProcesses {
    spools: Arc<Spools>,
    pending_children: PendingChildren,
    catalog: Arc<Mutex<Catalog>>,
    fetch: FetchRows,
    /// True once the command's own process has ended.
    over: Arc<AtomicBool>,
}

impl RecordedProcesses {
    pub(crate) fn new(
        spools: Arc<Spools>,
        catalog: Arc<Mutex<Catalog>>,
        fetch: FetchRows,
        over: Arc<AtomicBool>,
    ) -> Self {
        Self { spools, pending_children: PendingChildren::default(), catalog, fetch, over }
    }

    fn process(&self, key: ImageKey, decoder: Decoder) -> Result<Option<Box<dyn ProcessStream>>> {
        let mut process = RecordedProcess {
            key,
            decoder,
            spools: Arc::clone(&self.spools),
            pending_children: Arc::clone(&self.pending_children),
            words: Vec::new(),
            taken: 0,
            first: None,
            leader: None,
            over: false,
        };
        // The words before the first piece hold the program's name.
        process.first = process.advance()?;
        let wrote = process.first.is_some();
        Ok(wrote.then(|| Box::new(process) as Box<dyn ProcessStream>))
    }
}

impl ProcessStreams for RecordedProcesses {
    fn root(&mut self) -> Result<Option<Box<dyn ProcessStream>>> {
        let over = || self.over.load(Ordering::Acquire);
        match self.spools.claim(|_, parent| parent.is_none(), over) {
            Some(key) => self.process(key, Decoder::new(self.fetch, Arc::clone(&self.catalog))),
            None => Ok(None),
        }
    }

    fn child(&mut self, pid: u64) -> Result<Option<Box<dyn ProcessStream>>> {
        let decoder = {
            let mut pending_children = self.pending_children.lock().unwrap_or_else(PoisonError::into_inner);
            pending_children.get_mut(&pid).and_then(VecDeque::pop_front)
        };
        let Some(decoder) = decoder else { return Ok(None) };
        let right = |key: ImageKey, parent: Option<ImageKey>| key.0 == pid && parent.is_some();
        match self.spools.claim(right, || has_ended(pid)) {
            Some(key) => self.process(key, decoder),
            None => Ok(None),
        }
    }
}

/// `RecordedProcess` is the stream of one process, over all its images.
struct RecordedProcess {
    key: ImageKey,
    decoder: Decoder,
    spools: Arc<Spools>,
    pending_children: PendingChildren,
    /// The last words of the pipe, and how many of them are decoded.
    words: Vec<u64>,
    taken: usize,
    first: Option<Piece>,
    /// The recorder's number of the thread that ran first. This thread has the process's own id.
    leader: Option<u32>,
    over: bool,
}

impl RecordedProcess {
    fn advance(&mut self) -> Result<Option<Piece>> {
        loop {
            if let Some(piece) = self.decoder.piece() {
                return Ok(Some(self.numbered(piece)));
            }
            if self.over {
                return Ok(None);
            }
            if self.taken < self.words.len() {
                self.decode_some()?;
                continue;
            }
            match self.spools.pull(self.key)? {
                Some(words) => (self.words, self.taken) = (words, 0),
                None => self.image_ends(),
            }
        }
    }

    /// Replaces the recorder's thread numbers by the system's, as far as they are known. The first thread has
    /// the process's id; the recorder counts the other threads from there.
    fn numbered(&mut self, mut piece: Piece) -> Piece {
        if let Piece::Enter { tid, .. } | Piece::Leave { tid, .. } | Piece::Thread { tid, .. } = &mut piece {
            let leader = *self.leader.get_or_insert(*tid);
            *tid = (self.key.0 as u32).wrapping_add(tid.wrapping_sub(leader));
        }
        piece
    }

    fn decode_some(&mut self) -> Result<()> {
        let end = self.words.len().min(self.taken + FEED_WORDS);
        let part = self.taken..end;
        self.taken = end;
        self.decoder.feed(&self.words[part]).map_err(|what| self.wrong(&what))?;
        let children = self.decoder.take_children();
        if !children.is_empty() {
            let mut pending_children = self.pending_children.lock().unwrap_or_else(PoisonError::into_inner);
            for (child, decoder) in children {
                pending_children.entry(child).or_default().push_back(decoder);
            }
        }
        Ok(())
    }

    /// Ends an image. After an exec the next image continues the process; a process that was killed has no
    /// next image.
    fn image_ends(&mut self) {
        self.decoder.image_ends();
        if !self.decoder.ended() {
            let (pid, number) = self.key;
            let right =
                |key: ImageKey, parent: Option<ImageKey>| key.0 == pid && key.1 > number && parent.is_none();
            if let Some(next) = self.spools.claim(right, || has_ended(pid)) {
                self.key = next;
                self.decoder.new_image();
                return;
            }
        }
        self.over = true;
    }

    fn wrong(&self, what: &str) -> Box<Problem> {
        let place = format!("recorder's pipe of process {}, image {}", self.key.0, self.key.1);
        let rule = "the recorder does not write this";
        Problem::run(what, &place, rule, "report this with the command: it is an error of the recorder")
    }
}

impl ProcessStream for RecordedProcess {
    fn pid(&self) -> u64 {
        self.key.0
    }

    fn command(&self) -> &str {
        self.decoder.command()
    }

    fn next_piece(&mut self) -> Result<Option<Piece>> {
        match self.first.take() {
            Some(piece) => Ok(Some(piece)),
            None => self.advance(),
        }
    }
}
