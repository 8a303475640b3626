//! `Temporary` is a file under a temporary name beside its target. It is moved to the target when it is
//! complete.
//!
//! Its name is `.NAME.partial-` and 16 hexadecimal digits that nobody can foresee. The file is created
//! exclusively, so no existing file is written to and no link is followed. The writer holds a lock on the
//! file, and the lock ends with the writer's process. So a file without a lock was left by a dead process,
//! even if another process has that process's number now. The next writer to the same target removes such a
//! file. Python writes its files in the same way (`binhop/partial.py`).

use std::fs::{self, File, OpenOptions, TryLockError};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use binhop_base::{Problem, Result};
use nix::unistd::{Uid, User};

/// The number of hexadecimal digits in a name.
const DIGITS: usize = 16;
/// The most links that are followed before they are taken for a cycle. Linux has the same limit.
const MOST_LINKS: usize = 40;

/// The mode of a directory in which everybody may make files, and nobody may remove another user's files.
const SHARED: u32 = 0o1002;

/// `Temporary` is removed when dropped, unless it has taken its target's place.
pub(crate) struct Temporary {
    path: PathBuf,
    target: PathBuf,
    /// The name of the content in errors.
    what: &'static str,
    /// The open file, which holds the lock.
    file: File,
    /// True once the file is complete. It then stays, even under its temporary name.
    stays: bool,
}

impl Temporary {
    pub(crate) fn create(path: &Path, what: &'static str) -> Result<(Self, File)> {
        // This check precedes following links, because /dev/stdout leads to a file without a name.
        let there = fs::metadata(path).ok();
        if there.as_ref().is_some_and(|there| !there.is_file()) {
            let rule = format!("{what} is written to a regular file");
            return Err(Problem::request(
                "not a regular file",
                &path.display().to_string(),
                &rule,
                "name another path",
            ));
        }
        let target = resolved(path).map_err(|error| cannot_write(path, what, &error.to_string()))?;
        let Some(name) = target.file_name().map(|name| name.to_string_lossy().into_owned()) else {
            let rule = format!("{what} is written to a file");
            return Err(Problem::request("no file name", &path.display().to_string(), &rule, "name a file"));
        };
        let made = make(&target, &format!(".{name}.partial-")).and_then(|(path, file)| {
            there.map_or(Ok(()), |there| file.set_permissions(there.permissions()))?;
            Ok((path, file.try_clone()?, file))
        });
        let (path, held, file) = made.map_err(|error| cannot_write(&target, what, &error.to_string()))?;
        Ok((Self { path, target, what, file: held, stays: false }, file))
    }

    pub(crate) fn place(&self) -> String {
        self.target.display().to_string()
    }

    /// Returns the file once more, at the position of the last write.
    pub(crate) fn reopened(&self) -> Result<File> {
        self.file.try_clone().map_err(|error| self.cannot_write(&error.to_string()))
    }

    pub(crate) fn cannot_write(&self, error: &str) -> Box<Problem> {
        cannot_write(&self.target, self.what, error)
    }

    /// Syncs the complete file to the disk and moves it to its target. If the move fails, the file stays
    /// under its temporary name.
    pub(crate) fn take_place(mut self) -> Result<()> {
        self.file.sync_all().map_err(|error| self.cannot_write(&error.to_string()))?;
        self.stays = true;
        fs::rename(&self.path, &self.target).map_err(|error| {
            let rule =
                format!("{} cannot be put there; it is complete in {}", self.what, self.path.display());
            Problem::request(&error.to_string(), &self.place(), &rule, "move it from there to its place")
        })?;
        // Some file systems cannot sync a directory. There the name reaches the disk later.
        let _ = File::open(parent(&self.target)).and_then(|directory| directory.sync_all());
        Ok(())
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.stays {
            // There is no caller to report a failure to.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Returns the path behind all links, whether a file exists there or not. A rename to the link would replace
/// the link.
fn resolved(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..MOST_LINKS {
        match fs::read_link(&path) {
            Ok(link) => {
                refuse_planted(&path)?;
                path = parent(&path).join(link);
            }
            Err(_) => return Ok(path),
        }
    }
    Err(io::Error::other("the path is a link that leads to itself"))
}

/// Refuses a link that another user may have put into a directory that everybody may write to, such as /tmp.
/// The link would make this user write to a file of the other user's choice. Linux has the same rule
/// (`protected_symlinks`, proc(5)), but does not see links that are followed here.
fn refuse_planted(link: &Path) -> io::Result<()> {
    let (about, directory) = (fs::symlink_metadata(link)?, fs::metadata(parent(link))?);
    let shared = directory.mode() & SHARED == SHARED;
    if shared && about.uid() != directory.uid() && about.uid() != rustix::process::geteuid().as_raw() {
        let user = user_name(about.uid());
        let rule =
            format!("it is a link of another user, {user}, where everybody may make links: not followed");
        return Err(io::Error::other(rule));
    }
    Ok(())
}

/// Returns the name of a user; "number" and the number if no user has it.
fn user_name(number: u32) -> String {
    let known = User::from_uid(Uid::from_raw(number)).ok().flatten();
    known.map_or_else(|| format!("number {number}"), |user| user.name)
}

fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Makes a locked file beside a target, and removes files that dead processes left there.
fn make(target: &Path, before: &str) -> io::Result<(PathBuf, File)> {
    loop {
        let random = RandomState::new().hash_one(before);
        let path = target.with_file_name(format!("{before}{random:0DIGITS$x}"));
        let file = match OpenOptions::new().read(true).write(true).create_new(true).open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
            Err(error) => return Err(error),
        };
        // Another process may have removed the file as a leftover before it was locked.
        let locked = !matches!(file.try_lock(), Err(TryLockError::WouldBlock));
        if locked && bears(&path, &file) {
            remove_dead(target, before, &file);
            return Ok((path, file));
        }
    }
}

/// Removes the target's temporary files that belong to the owner of `own` and that no living process has
/// locked.
fn remove_dead(target: &Path, before: &str, own: &File) {
    let Ok(entries) = fs::read_dir(parent(target)) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let digits = name.to_str().and_then(|name| name.strip_prefix(before)).unwrap_or_default();
        let hexadecimal = digits.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
        if digits.len() != DIGITS || !hexadecimal {
            continue;
        }
        let path = entry.path();
        let Ok(about) = fs::symlink_metadata(&path) else { continue };
        if !about.is_file() || !same_owner(&about, own) {
            continue;
        }
        let Ok(file) = File::open(&path) else { continue };
        if file.try_lock().is_ok() && bears(&path, &file) {
            // A file that cannot be removed stays, and does no harm.
            let _ = fs::remove_file(&path);
        }
    }
}

fn same_owner(about: &fs::Metadata, own: &File) -> bool {
    own.metadata().is_ok_and(|own| own.uid() == about.uid())
}

/// Returns whether an open file still has this name.
fn bears(path: &Path, file: &File) -> bool {
    let identity = |about: fs::Metadata| (about.dev(), about.ino());
    match (fs::symlink_metadata(path), file.metadata()) {
        (Ok(there), Ok(held)) => identity(there) == identity(held),
        _ => false,
    }
}

fn cannot_write(target: &Path, what: &str, error: &str) -> Box<Problem> {
    Problem::request(
        error,
        &target.display().to_string(),
        &format!("{what} cannot be written there, and nothing was left behind"),
        "choose a directory that exists, may be written and has room",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let random = RandomState::new().hash_one(name);
            let directory = std::env::temp_dir().join(format!("binhop-{name}-{random:x}"));
            fs::create_dir_all(&directory).unwrap();
            Self(directory)
        }

        fn names(&self) -> Vec<String> {
            let entries = fs::read_dir(&self.0).unwrap();
            let mut names: Vec<String> =
                entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
            names.sort();
            names
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn the_dead_are_removed_and_the_living_are_not() {
        let scratch = Scratch::new("dead");
        let target = scratch.0.join("t.parquet");
        let (living, _file) = Temporary::create(&target, "a trace").unwrap();
        let dead = [".t.parquet.partial-0123456789abcdef", ".t.parquet.partial-ffffffffffffffff"];
        let stay =
            [".t.parquet.partial-4711", ".t.parquet.partial-0123456789ABCDEF", ".u.partial-0000000000000000"];
        for name in dead.iter().chain(&stay) {
            fs::write(scratch.0.join(name), "half").unwrap();
        }
        let (second, _) = Temporary::create(&target, "a trace").unwrap();
        let mut left: Vec<String> = stay.iter().map(|name| (*name).to_owned()).collect();
        for path in [&living.path, &second.path] {
            left.push(path.file_name().unwrap().to_str().unwrap().to_owned());
        }
        left.sort();
        assert_eq!(scratch.names(), left);
        second.take_place().unwrap();
        drop(living);
        let mut left: Vec<&str> = stay.to_vec();
        left.push("t.parquet");
        left.sort_unstable();
        assert_eq!(scratch.names(), left);
    }

    #[test]
    #[cfg(unix)]
    fn links_are_written_through_and_never_into() {
        use std::os::unix::fs::symlink;
        let scratch = Scratch::new("links");
        fs::create_dir(scratch.0.join("deep")).unwrap();
        for (link, to) in [("there", "deep/there"), ("gone", "deep/gone"), ("loop", "loop")] {
            symlink(to, scratch.0.join(link)).unwrap();
        }
        fs::write(scratch.0.join("deep/there"), "old").unwrap();
        for link in ["there", "gone"] {
            let (temporary, mut file) = Temporary::create(&scratch.0.join(link), "a trace").unwrap();
            io::Write::write_all(&mut file, b"new").unwrap();
            temporary.take_place().unwrap();
            assert!(fs::symlink_metadata(scratch.0.join(link)).unwrap().is_symlink());
            assert_eq!(fs::read(scratch.0.join("deep").join(link)).unwrap(), b"new");
        }
        let problem = Temporary::create(&scratch.0.join("loop"), "a trace").err().unwrap();
        assert!(problem.value.contains("leads to itself"), "{problem}");
        assert_eq!(scratch.names(), ["deep", "gone", "loop", "there"]);
    }

    /// Only root can make another user's link.
    #[test]
    fn another_users_link_is_refused_by_the_users_name() {
        use std::os::unix::fs::{PermissionsExt, lchown, symlink};
        assert_eq!([0, 3_999_999_999].map(user_name), ["root", "number 3999999999"]);
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let scratch = Scratch::new("planted");
        fs::set_permissions(&scratch.0, fs::Permissions::from_mode(0o1777)).unwrap();
        for number in [1, 3_999_999_999] {
            let link = scratch.0.join(format!("link-{number}"));
            symlink("precious", &link).unwrap();
            lchown(&link, Some(number), None).unwrap();
            let problem = Temporary::create(&link, "a trace").err().unwrap();
            let user = user_name(number);
            assert!(
                problem.value.starts_with(&format!("it is a link of another user, {user}, ")),
                "{problem}"
            );
        }
        assert_ne!(user_name(1), "number 1");
    }

    /// A directory appears at the target after the file was started.
    #[test]
    fn what_is_complete_and_cannot_be_moved_stays() {
        let scratch = Scratch::new("stays");
        let target = scratch.0.join("t.parquet");
        let (temporary, mut file) = Temporary::create(&target, "a trace").unwrap();
        io::Write::write_all(&mut file, b"whole").unwrap();
        fs::create_dir(&target).unwrap();
        let path = temporary.path.clone();
        let problem = temporary.take_place().unwrap_err();
        assert!(problem.rule.contains(&path.display().to_string()), "{problem}");
        assert_eq!(fs::read(path).unwrap(), b"whole");
    }
}
