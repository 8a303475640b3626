//! `Log` holds numbers in records that are written once and read in order. There may be more records than memory holds.
//!
//! - A [`Log`] keeps its last [`CHUNK`] bytes in memory. The bytes before them lie in the [`Spill`] of the
//!   run: one temporary file without a name, in the directory for temporary files. The file ends with the
//!   last log that wrote to it.
//! - A number takes a byte for each seven of its bits (LEB128). Most counts between two marks take one byte.
//! - A log takes 16 bytes of memory for each chunk in the file, which is a five-hundredth of the chunk.

use std::fs::{File, OpenOptions};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use binhop_base::{Problem, Result};

/// The maximum number of bytes of a log that stay in memory.
pub(crate) const CHUNK: usize = 8 << 10;
/// The number of bytes that the largest number takes.
const MOST_BYTES: usize = 10;

/// `Spill` is a temporary file that the logs of a run share. It is created when the first log needs it.
#[derive(Debug, Default)]
pub(crate) struct Spill {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    file: Option<Arc<File>>,
    end: u64,
}

/// Makes a file that no other process finds, and that the system removes when it is closed.
fn nameless(directory: &Path) -> io::Result<File> {
    loop {
        let random = RandomState::new().hash_one(directory);
        let path = directory.join(format!("binhop-{random:016x}"));
        match OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path) {
            Ok(file) => return std::fs::remove_file(&path).map(|()| file),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
}

fn failed(error: &io::Error, what: &str) -> Box<Problem> {
    let directory = std::env::temp_dir();
    let rule = format!("the counts of a long run lie there until the run ends, and they cannot be {what}");
    let remedy = "make room there, or set TMPDIR to a directory with room";
    Problem::run(&error.to_string(), &directory.display().to_string(), &rule, remedy)
}

impl Spill {
    /// Appends bytes to the file and returns their place. Workers write at the same time.
    fn append(&self, bytes: &[u8]) -> Result<u64> {
        let (file, at) = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            let file = match &state.file {
                Some(file) => Arc::clone(file),
                None => {
                    let file = nameless(&std::env::temp_dir()).map_err(|error| failed(&error, "written"))?;
                    Arc::clone(state.file.insert(Arc::new(file)))
                }
            };
            let at = state.end;
            state.end += bytes.len() as u64;
            (file, at)
        };
        file.write_all_at(bytes, at).map_err(|error| failed(&error, "written"))?;
        Ok(at)
    }

    fn read(&self, bytes: &mut [u8], at: u64) -> Result<()> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let file = Arc::clone(state.file.as_ref().expect("what is read was written"));
        drop(state);
        file.read_exact_at(bytes, at).map_err(|error| failed(&error, "read"))
    }
}

/// `Extent` is the place of a chunk in the file.
#[derive(Clone, Copy, Debug)]
struct Extent {
    at: u64,
    bytes: usize,
}

/// `Log` is a sequence of records of equal width.
#[derive(Debug)]
pub(crate) struct Log {
    spill: Arc<Spill>,
    extents: Vec<Extent>,
    /// The records that are not in the file.
    open: Vec<u8>,
    records: u64,
}

impl Log {
    pub(crate) fn new(spill: &Arc<Spill>) -> Self {
        Self { spill: Arc::clone(spill), extents: Vec::new(), open: Vec::new(), records: 0 }
    }

    /// Returns the number of records.
    pub(crate) fn records(&self) -> u64 {
        self.records
    }

    /// Appends a record. The log allocates memory only until its chunk has its full size, and then one place
    /// for each 8 KiB.
    pub(crate) fn push(&mut self, record: &[u64]) -> Result<()> {
        for &number in record {
            let mut rest = number;
            while rest >= 0x80 {
                self.open.push(rest as u8 | 0x80);
                rest >>= 7;
            }
            self.open.push(rest as u8);
        }
        self.records += 1;
        // The next record finds room without growing the buffer.
        if self.open.len() + MOST_BYTES * record.len() > CHUNK {
            let at = self.spill.append(&self.open)?;
            self.extents.push(Extent { at, bytes: self.open.len() });
            self.open.clear();
        }
        Ok(())
    }

    /// Forgets every record.
    pub(crate) fn clear(&mut self) {
        self.extents.clear();
        self.open.clear();
        self.records = 0;
    }

    /// Ends the log, and frees the memory that it keeps for further records.
    pub(crate) fn seal(mut self) -> Arc<Self> {
        self.open.shrink_to_fit();
        self.extents.shrink_to_fit();
        Arc::new(self)
    }
}

/// `Records` reads the records of a log from the first.
#[derive(Clone, Debug)]
pub(crate) struct Records {
    log: Arc<Log>,
    /// The extent that is read next; after the last extent, the records in memory.
    next: usize,
    chunk: Vec<u8>,
    at: usize,
}

impl Records {
    pub(crate) fn new(log: &Arc<Log>) -> Self {
        Self { log: Arc::clone(log), next: 0, chunk: Vec::new(), at: 0 }
    }

    /// Reads the next record; returns `false` if there are no more records.
    pub(crate) fn next(&mut self, record: &mut [u64]) -> Result<bool> {
        while self.at == self.chunk.len() {
            self.at = 0;
            match self.log.extents.get(self.next) {
                Some(extent) => {
                    self.chunk.resize(extent.bytes, 0);
                    self.log.spill.read(&mut self.chunk, extent.at)?;
                }
                None if self.next == self.log.extents.len() => self.chunk.clone_from(&self.log.open),
                None => {
                    self.chunk.clear();
                    return Ok(false);
                }
            }
            self.next += 1;
        }
        for number in record {
            *number = 0;
            let mut shift = 0;
            loop {
                let byte = self.chunk[self.at];
                self.at += 1;
                *number |= u64::from(byte & 0x7f) << shift;
                if byte < 0x80 {
                    break;
                }
                shift += 7;
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(log: Log, width: usize) -> Vec<Vec<u64>> {
        let mut records = Records::new(&log.seal());
        let (mut all, mut record) = (Vec::new(), vec![0; width]);
        while records.next(&mut record).unwrap() {
            all.push(record.clone());
        }
        all
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

        #[test]
        fn what_is_written_is_read(
            width in 1usize..5,
            numbers in prop::collection::vec(prop_oneof![0..200u64, any::<u64>()], 0..5000),
        ) {
            let spill = Arc::new(Spill::default());
            let records: Vec<&[u64]> = numbers.chunks_exact(width).collect();
            // Two logs write to one file by turns.
            let [mut one, mut other] = [(); 2].map(|()| Log::new(&spill));
            for record in &records {
                one.push(record).unwrap();
                other.push(record).unwrap();
            }
            prop_assert_eq!(one.records(), records.len() as u64);
            prop_assert!(one.open.capacity() <= CHUNK);
            prop_assert_eq!(read(one, width), records.clone());
            prop_assert_eq!(read(other, width), records);
        }
    }

    #[test]
    fn a_log_that_was_cleared_begins_anew() {
        let mut log = Log::new(&Arc::new(Spill::default()));
        (0..3000).for_each(|number| log.push(&[number, u64::MAX]).unwrap());
        log.clear();
        log.push(&[7, 8]).unwrap();
        assert_eq!(read(log, 2), [[7, 8]]);
    }

    #[test]
    fn a_directory_that_is_not_there_is_named() {
        let error = nameless(Path::new("/nowhere/at/all")).unwrap_err();
        let problem = failed(&error, "written").to_string();
        assert!(problem.contains("TMPDIR"), "{problem}");
    }
}
