//! `Pipes` reads the recorder's pipes: a control pipe that announces process images, and a pipe for each
//! image.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use binhop_base::{Problem, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};

use crate::spool::{ImageKey, Spools};
use crate::wire;

/// The name of the control pipe in the recording's directory.
const CONTROL: &str = "control";
/// The size of a pipe, where the system allows it. A large pipe wakes its reader and writer seldom.
const PIPE_BYTES: usize = 1 << 20;
/// The most bytes that go to the spool at once.
const CHUNK_BYTES: usize = 1 << 20;
/// The most process images that may run at once. Each image takes an open file and a thread, and a process may by
/// default open 1024 files. If a program forks without end, the recording ends, and the program runs on unrecorded.
pub(crate) const MAX_IMAGES: usize = 900;
/// The time after which a waiting reader checks whether its writer still exists.
const POLL_TIMEOUT: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// `Pipes` reads the pipes of one recording.
pub(crate) struct Pipes {
    directory: PathBuf,
    spools: Arc<Spools>,
    listener: Option<JoinHandle<()>>,
}

impl Pipes {
    /// Makes the control pipe and listens to at most `max_images` images at once.
    ///
    /// # Errors
    /// The directory cannot hold pipes.
    pub(crate) fn listen(directory: &Path, spools: Arc<Spools>, max_images: usize) -> Result<Self> {
        let path = directory.join(CONTROL);
        let failed = |error: io::Error| {
            let rule = "the recorder's pipes cannot be made there";
            let remedy = "set TMPDIR to a directory of yours on a local file system";
            Problem::request(&error.to_string(), &path.display().to_string(), rule, remedy)
        };
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)
            .map_err(|error| failed(error.into()))?;
        // The pipe is open for writing, too, so that it does not end when no image holds it.
        let control = OpenOptions::new().read(true).write(true).open(&path).map_err(failed)?;
        let listener = {
            let (directory, spools) = (directory.to_owned(), Arc::clone(&spools));
            std::thread::spawn(move || listen(control, &directory, &spools, max_images))
        };
        Ok(Self { directory: directory.to_owned(), spools, listener: Some(listener) })
    }
}

impl Drop for Pipes {
    /// Ends the recording. An image that finds no control pipe, or whose pipe is closed, runs on unrecorded.
    fn drop(&mut self) {
        let _ = fs::remove_file(self.directory.join(CONTROL));
        self.spools.cancel();
        if let Some(listener) = self.listener.take() {
            let _ = listener.join();
        }
    }
}

/// Starts a reader for each image that announces itself.
fn listen(mut control: File, directory: &Path, spools: &Arc<Spools>, max_images: usize) {
    let mut readers = Vec::new();
    while !spools.is_cancelled() {
        if !ready(&control) {
            continue;
        }
        let mut bytes = [0; wire::HELLO_WORDS as usize * 8];
        if control.read_exact(&mut bytes).is_err() {
            break;
        }
        let hello: Vec<u64> = words(&bytes);
        if hello[0] != wire::HELLO << 56 | wire::VERSION {
            // The programs would wait for a reader that never comes.
            spools
                .give_up("a recorder of another version wrote into the pipe: the recording ended".to_owned());
            break;
        }
        let key = (hello[1], hello[2]);
        let parent = (hello[4] != wire::NO_IMAGE).then_some((hello[3], hello[4]));
        if spools.images().1 >= max_images {
            let consequence =
                "recording ended: the trace is valid up to there, the programs ran on unrecorded";
            spools.give_up(format!("more than {max_images} programs ran at once, so the {consequence}"));
            break;
        }
        spools.announce(key, parent);
        let path = directory.join(format!("{}.{}", key.0, key.1));
        match start_reader(path, key, Arc::clone(spools)) {
            Ok(reader) => readers.push(reader),
            Err(error) => {
                give_up(spools, &error);
                break;
            }
        }
        readers.retain(|reader| !reader.is_finished());
    }
    for reader in readers {
        let _ = reader.join();
    }
}

fn start_reader(path: PathBuf, key: ImageKey, spools: Arc<Spools>) -> io::Result<JoinHandle<()>> {
    std::thread::Builder::new().spawn(move || {
        match open(&path) {
            // An image whose pipe cannot be read has ended, whatever the reason.
            Ok(pipe) => drop(read(pipe, key, &spools)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => give_up(&spools, &error),
        }
        // The pipe's name stays, so that the next image of the process does not take the same number.
        spools.close(key);
    })
}

/// Ends the recording because this process has reached a limit of the system: of open files or of threads.
fn give_up(spools: &Spools, error: &io::Error) {
    let running = spools.images().1;
    spools.give_up(format!(
        "with {running} programs running at once, another one cannot be followed ({error}; see ulimit -n, -u), so the \
         recording ended: the trace is valid up to there, the programs ran on unrecorded"
    ));
}

fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    OpenOptions::new().read(true).custom_flags(flags).open(path)
}

/// Reads the pipe of one image to its end.
fn read(mut pipe: File, key: ImageKey, spools: &Spools) -> io::Result<()> {
    // If the user's share of pipe memory is used up, the pipe keeps its size. Reading is slower then.
    let _ = rustix::pipe::fcntl_setpipe_size(&pipe, PIPE_BYTES);
    let mut bytes = Vec::with_capacity(CHUNK_BYTES);
    let mut wrote = false;
    loop {
        if spools.is_cancelled() {
            return Ok(());
        }
        if !ready(&pipe) {
            if !push_words(&mut bytes, key, spools) {
                return Ok(());
            }
            // An image that has written ends by closing its pipe. An image that was killed before it wrote is
            // noticed here.
            if !wrote && has_ended(key.0) && !ready(&pipe) {
                return Ok(());
            }
            continue;
        }
        let filled = bytes.len();
        bytes.resize(CHUNK_BYTES, 0);
        let got = match pipe.read(&mut bytes[filled..]) {
            Ok(0) => {
                bytes.truncate(filled);
                push_words(&mut bytes, key, spools);
                return Ok(());
            }
            Ok(got) => {
                wrote = true;
                got
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => 0,
            Err(error) => return Err(error),
        };
        bytes.truncate(filled + got);
        if bytes.len() > CHUNK_BYTES / 2 && !push_words(&mut bytes, key, spools) {
            return Ok(());
        }
    }
}

/// Gives complete words to the spool; the bytes of an incomplete word stay. Returns `false` if the recording
/// is over.
fn push_words(bytes: &mut Vec<u8>, key: ImageKey, spools: &Spools) -> bool {
    let whole = bytes.len() / 8 * 8;
    if whole == 0 {
        return true;
    }
    let wanted = spools.push(key, words(&bytes[..whole]));
    bytes.drain(..whole);
    wanted
}

fn words(bytes: &[u8]) -> Vec<u64> {
    bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().expect("8 bytes"))).collect()
}

/// Waits up to [`POLL_TIMEOUT`]. Returns whether there is something to read, or the writer has closed the
/// pipe.
fn ready(file: &File) -> bool {
    let mut polled = [PollFd::new(file, PollFlags::IN)];
    poll(&mut polled, Some(&POLL_TIMEOUT)).is_ok_and(|number| number > 0)
}

/// Returns whether a process has ended, including a process that its parent has not waited for yet.
pub(crate) fn has_ended(pid: u64) -> bool {
    let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { return true };
    // The name stands in parentheses and may hold any character; the state follows it.
    let state = stat.rsplit_once(')').and_then(|(_, rest)| rest.trim_start().chars().next());
    if !matches!(state, None | Some('Z' | 'X')) {
        return false;
    }
    // The state is the same if only the first thread has ended and other threads run on.
    fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count) <= 1
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    /// Announces an image of this version of the pipe's format.
    fn announce(directory: &Path, version: u64, (pid, number): ImageKey) {
        let hello = [wire::HELLO << 56 | version, pid, number, 1, wire::NO_IMAGE, 0];
        let bytes: Vec<u8> = hello.iter().flat_map(|word| word.to_le_bytes()).collect();
        let mut control = OpenOptions::new().write(true).open(directory.join(CONTROL)).unwrap();
        control.write_all(&bytes).unwrap();
    }

    /// A recorder of another version ends the recording. Otherwise its program would wait forever for a reader.
    #[test]
    fn a_recorder_of_another_version_ends_the_recording() {
        let directory = std::env::temp_dir().join(format!("binhop-version-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let spools = Arc::new(Spools::new(&directory));
        let mut pipes = Pipes::listen(&directory, Arc::clone(&spools), 3).unwrap();
        announce(&directory, wire::VERSION - 1, (1, 0));
        pipes.listener.take().unwrap().join().unwrap();
        assert!(spools.gave_up().unwrap().contains("another version"));
        drop(pipes);
        fs::remove_dir_all(&directory).unwrap();
    }

    /// Makes an image's pipe and announces the image, as the recorder does. Returns the path of the pipe.
    fn image(directory: &Path, (pid, number): ImageKey) -> PathBuf {
        let path = directory.join(format!("{pid}.{number}"));
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)
            .unwrap();
        announce(directory, wire::VERSION, (pid, number));
        path
    }

    /// If more images announce themselves than the limit allows, the recording ends. The words that came before are
    /// kept.
    #[test]
    fn too_many_images_end_the_recording() {
        let directory = std::env::temp_dir().join(format!("binhop-pipes-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let spools = Arc::new(Spools::new(&directory));
        let pipes = Pipes::listen(&directory, Arc::clone(&spools), 3).unwrap();
        // All images have the id of this process, so that the readers see a live process.
        let pid = u64::from(std::process::id());
        let mut writers = Vec::new();
        for number in 0..3 {
            let path = image(&directory, (pid, number));
            let mut writer = OpenOptions::new().write(true).open(path).unwrap();
            writer.write_all(&(1000 + number).to_le_bytes()).unwrap();
            writers.push(writer);
        }
        let mut first = spools.pull((pid, 0)).unwrap().unwrap();
        assert_eq!(first, [1000]);
        assert_eq!(spools.gave_up(), None);
        image(&directory, (pid, 3));
        while !spools.is_cancelled() {
            std::thread::yield_now();
        }
        assert!(spools.gave_up().unwrap().starts_with("more than 3 programs ran at once"));
        first.clear();
        while let Some(words) = spools.pull((pid, 0)).unwrap() {
            first.extend(words);
        }
        assert!(first.is_empty());
        drop(pipes);
        // The pipes have no readers any more, so a write fails.
        for mut writer in writers {
            assert_eq!(writer.write(&[0; 8]).unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        }
        fs::remove_dir_all(&directory).unwrap();
    }
}
