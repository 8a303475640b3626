//! `Spools` holds words that were read from the recorder's pipes and that the merge has not read yet. Beyond a limit of
//! memory, words are compressed and written to disk.
//!
//! Programs that wait for each other must never wait for the merge. So an image that the merge does not read
//! now is spooled without a bound. Only the image that the merge is reading may be held back, as a full pipe
//! would hold it back.

use std::collections::{BTreeMap, VecDeque};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use binhop_base::{Problem, Result};

/// A process image is identified by its process id, and by its number among the images with this id.
pub(crate) type ImageKey = (u64, u64);

/// The number of words in memory beyond which further words go to disk.
const MEMORY_WORDS: usize = 24 << 20;
/// The time after which a waiting reader checks whether a process still exists.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);
/// zstd's fastest level compresses repeated addresses well enough.
const LEVEL: i32 = 1;

#[derive(Debug)]
enum Chunk {
    Memory(Vec<u64>),
    Disk { at: u64, bytes: usize, words: usize },
}

/// `Image` holds the words of one image.
#[derive(Debug)]
struct Image {
    chunks: VecDeque<Chunk>,
    closed: bool,
    /// The image of the parent, if a recorded process forked the process of this image.
    parent: Option<ImageKey>,
    claimed: bool,
    /// The bytes in the image's file. The file is open only while it is written or read, because there may be
    /// thousands of images.
    spilled: u64,
}

#[derive(Debug, Default)]
struct State {
    images: BTreeMap<ImageKey, Image>,
    words: usize,
    reading: Option<ImageKey>,
    cancelled: bool,
    failed: Option<Box<Problem>>,
    gave_up: Option<String>,
}

impl State {
    /// Returns whether the merge is reading this image, and the image has words that the merge can read.
    fn is_busy_with(&self, key: ImageKey) -> bool {
        self.reading == Some(key) && self.images.get(&key).is_some_and(|image| !image.chunks.is_empty())
    }
}

/// `Spools` holds the words of every image of a recording.
#[derive(Debug)]
pub(crate) struct Spools {
    directory: PathBuf,
    state: Mutex<State>,
    changed: Condvar,
}

impl Spools {
    pub(crate) fn new(directory: &Path) -> Self {
        Self { directory: directory.to_owned(), state: Mutex::default(), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an image that announced itself.
    pub(crate) fn announce(&self, key: ImageKey, parent: Option<ImageKey>) {
        let image = Image { chunks: VecDeque::new(), closed: false, parent, claimed: false, spilled: 0 };
        self.lock().images.insert(key, image);
        self.changed.notify_all();
    }

    /// Appends words. Returns `false` if the recording is over.
    pub(crate) fn push(&self, key: ImageKey, words: Vec<u64>) -> bool {
        let mut state = self.lock();
        // The writer waits only while the merge has words of this image to read, never while the merge waits
        // for words.
        while state.words > MEMORY_WORDS && state.is_busy_with(key) && !state.cancelled {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.cancelled {
            return false;
        }
        let chunk = if state.words > MEMORY_WORDS && state.reading != Some(key) {
            drop(state);
            let spilled = self.spill(key, &words);
            state = self.lock();
            match spilled {
                Ok(chunk) => chunk,
                Err(problem) => {
                    state.failed = Some(problem);
                    self.changed.notify_all();
                    return false;
                }
            }
        } else {
            state.words += words.len();
            Chunk::Memory(words)
        };
        state.images.get_mut(&key).expect("an image writes after it is announced").chunks.push_back(chunk);
        self.changed.notify_all();
        true
    }

    /// Writes words to disk. Only the thread that reads the image's pipe does this.
    fn spill(&self, key: ImageKey, words: &[u64]) -> Result<Chunk> {
        let path = self.file(key);
        let failed = |error: std::io::Error| {
            let rule = "words that wait for the merge are kept on disk, and they cannot be written there";
            let remedy = "make room, or set TMPDIR to a directory with room";
            Problem::request(&error.to_string(), &path.display().to_string(), rule, remedy)
        };
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let packed = zstd::bulk::compress(&bytes, LEVEL).map_err(failed)?;
        let at = {
            let mut state = self.lock();
            let image = state.images.get_mut(&key).expect("an image writes after it is announced");
            let end = image.spilled + packed.len() as u64;
            std::mem::replace(&mut image.spilled, end)
        };
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(&path).map_err(failed)?;
        file.write_all_at(&packed, at).map_err(failed)?;
        Ok(Chunk::Disk { at, bytes: packed.len(), words: words.len() })
    }

    fn file(&self, key: ImageKey) -> PathBuf {
        self.directory.join(format!("{}.{}.spool", key.0, key.1))
    }

    /// Marks an image as closed: it writes no more.
    pub(crate) fn close(&self, key: ImageKey) {
        if let Some(image) = self.lock().images.get_mut(&key) {
            image.closed = true;
        }
        self.changed.notify_all();
    }

    /// Returns the next words of an image, and waits for them. `None` once the image is closed and empty, or
    /// the recording is cancelled.
    ///
    /// # Errors
    /// The disk failed.
    pub(crate) fn pull(&self, key: ImageKey) -> Result<Option<Vec<u64>>> {
        let mut state = self.lock();
        if state.reading != Some(key) {
            state.reading = Some(key);
            self.changed.notify_all();
        }
        loop {
            if let Some(problem) = &state.failed {
                return Err(problem.clone());
            }
            let cancelled = state.cancelled;
            let image = state.images.get_mut(&key).expect("an image is read after it is announced");
            if let Some(chunk) = image.chunks.pop_front() {
                return match chunk {
                    Chunk::Memory(words) => {
                        state.words -= words.len();
                        self.changed.notify_all();
                        Ok(Some(words))
                    }
                    Chunk::Disk { at, bytes, words } => {
                        drop(state);
                        read_back(File::open(self.file(key)), at, bytes, words).map(Some)
                    }
                };
            }
            if image.closed || cancelled {
                if std::mem::take(&mut image.spilled) > 0 {
                    let _ = std::fs::remove_file(self.file(key));
                }
                return Ok(None);
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Claims the first image that `right` accepts, and returns its key. Waits until there is such an image,
    /// or `hopeless` says that none will come.
    pub(crate) fn claim(
        &self,
        right: impl Fn(ImageKey, Option<ImageKey>) -> bool,
        hopeless: impl Fn() -> bool,
    ) -> Option<ImageKey> {
        let mut last_check = false;
        let mut state = self.lock();
        loop {
            let found =
                state.images.iter_mut().find(|(key, image)| !image.claimed && right(**key, image.parent));
            if let Some((&key, image)) = found {
                image.claimed = true;
                return Some(key);
            }
            if last_check || state.cancelled {
                return None;
            }
            let waited =
                self.changed.wait_timeout(state, CHECK_INTERVAL).unwrap_or_else(PoisonError::into_inner);
            state = waited.0;
            if waited.1.timed_out() {
                // The announcement of a process that has ended may still be in the control pipe, so check
                // once more.
                last_check = hopeless();
            }
        }
    }

    /// Ends the recording: writers stop, and readers get only the words that are already there.
    pub(crate) fn cancel(&self) {
        self.lock().cancelled = true;
        self.changed.notify_all();
    }

    /// Ends the recording as [`Spools::cancel`] does, for a reason that is reported to the user.
    pub(crate) fn give_up(&self, why: String) {
        self.lock().gave_up.get_or_insert(why);
        self.cancel();
    }

    /// Returns why the recording was given up, if it was.
    pub(crate) fn gave_up(&self) -> Option<String> {
        self.lock().gave_up.clone()
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.lock().cancelled
    }

    /// Returns the number of announced images, and the number of images that still write.
    pub(crate) fn images(&self) -> (usize, usize) {
        let state = self.lock();
        (state.images.len(), state.images.values().filter(|image| !image.closed).count())
    }
}

fn read_back(file: std::io::Result<File>, at: u64, bytes: usize, words: usize) -> Result<Vec<u64>> {
    let failed = |error: std::io::Error| {
        let remedy = "look at the disk that TMPDIR is on";
        Problem::run(&error.to_string(), "the recording's temporary file", "cannot be read back", remedy)
    };
    let mut packed = vec![0; bytes];
    file.map_err(failed)?.read_exact_at(&mut packed, at).map_err(failed)?;
    let plain = zstd::bulk::decompress(&packed, words * 8).map_err(failed)?;
    Ok(plain.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().expect("8 bytes"))).collect())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// Words of an idle image go to disk and come back. The writer of a busy image waits instead.
    #[test]
    fn words_come_back_in_order_from_memory_and_disk() {
        let directory = std::env::temp_dir().join(format!("binhop-spool-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let spools = Arc::new(Spools::new(&directory));
        let (idle, busy) = ((1, 0), (2, 0));
        spools.announce(idle, None);
        spools.announce(busy, None);
        let chunk = |number: u64| vec![number; MEMORY_WORDS / 4];
        for number in 0..8 {
            assert!(spools.push(idle, chunk(number)));
        }
        assert!(directory.join("1.0.spool").exists());
        spools.close(idle);
        for number in 0..8 {
            assert_eq!(spools.pull(idle).unwrap().unwrap(), chunk(number));
        }
        assert_eq!(spools.pull(idle).unwrap(), None);
        let writer = {
            let spools = Arc::clone(&spools);
            std::thread::spawn(move || {
                (0..20).all(|number| spools.push(busy, vec![number; MEMORY_WORDS / 4]))
            })
        };
        for number in 0..20 {
            assert_eq!(spools.pull(busy).unwrap().unwrap()[0], number);
        }
        assert!(writer.join().unwrap());
        spools.cancel();
        assert!(!spools.push(busy, vec![1]));
        assert_eq!(spools.pull(busy).unwrap(), None);
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
