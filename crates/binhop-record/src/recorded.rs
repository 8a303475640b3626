//! The processes of a recording as streams of pieces.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use binhop_base::{Problem, Result};

use crate::catalog::Catalog;
use crate::code_blocks::FetchRows;
use crate::decode::{Decoder, FEED_WORDS};
use crate::piece::{Piece, ProcessStream, ProcessStreams};
use crate::pipes::is_gone;
use crate::spool::{ImageKey, Spools};

/// What a process that was just made knows: its parent's decoder at that point, by its pid.
type PendingChildren = Arc<Mutex<BTreeMap<u64, VecDeque<Decoder>>>>;

/// The processes that the recorder's pipes bring.
pub(crate) struct RecordedProcesses {
    spools: Arc<Spools>,
    pending_children: PendingChildren,
    catalog: Arc<Mutex<Catalog>>,
    fetch: FetchRows,
    /// The command itself has ended.
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
        // The first piece brings the program's name.
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
        match self.spools.claim(right, || is_gone(pid)) {
            Some(key) => self.process(key, decoder),
            None => Ok(None),
        }
    }
}

/// One process, over all its images.
struct RecordedProcess {
    key: ImageKey,
    decoder: Decoder,
    spools: Arc<Spools>,
    pending_children: PendingChildren,
    /// What the pipe brought last, and how much of it is decoded.
    words: Vec<u64>,
    taken: usize,
    first: Option<Piece>,
    /// The recorder's number of the thread that ran first: the one that has the process's own id.
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

    /// Threads as the system numbers them, as far as is known: the first has the process's id; the recorder counts the
    /// others from there.
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

    /// The next image goes on where this one ends: after exec. A process that was killed has none.
    fn image_ends(&mut self) {
        self.decoder.image_ends();
        if !self.decoder.ended() {
            let (pid, number) = self.key;
            let right =
                |key: ImageKey, parent: Option<ImageKey>| key.0 == pid && key.1 > number && parent.is_none();
            if let Some(next) = self.spools.claim(right, || is_gone(pid)) {
                self.key = next;
                self.decoder.new_image();
                return;
            }
        }
        self.over = true;
    }

    fn wrong(&self, what: &str) -> Box<Problem> {
        let place = format!("recorder's pipe of process {}, image {}", self.key.0, self.key.1);
        let rule = "this is not what the recorder writes";
        Problem::run(what, &place, rule, "report this, with the command: it is an error of the recorder")
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
