//! `MemoryLimit` is the memory that a run may take: the smallest limit of this system.
//!
//! The limits are the memory that the kernel reports as available, the limits of this process's control
//! groups (version 1 and 2, with their ancestors), and the limit of its address space (`ulimit -v`). On a
//! system where none of these can be read (not Linux), the memory is unknown.

use std::fs::read_to_string;
use std::path::{Path, PathBuf};

/// `MemoryLimit` is the memory that a run may take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryLimit {
    /// The amount in bytes.
    pub bytes: u64,
    /// The name of the limit, for messages.
    pub source: String,
}

impl MemoryLimit {
    /// Returns the memory that a run may take now. It is three quarters of the free memory, because result
    /// tables, the interpreter and the file being read need memory, too. Of the free address space it is half,
    /// because an allocator reserves address space and keeps it from one round for the next.
    #[must_use]
    pub fn available() -> Option<Self> {
        let bytes = |memory: Self| Self { bytes: memory.bytes / 4 * 3, ..memory };
        Self::free(Path::new("/")).map(bytes)
    }

    /// Returns the free memory, read from the files under a root.
    fn free(root: &Path) -> Option<Self> {
        let text = |path: &str| read_to_string(root.join(path)).unwrap_or_default();
        let of = |source: &str| {
            let source = source.to_string();
            move |bytes| Self { bytes, source }
        };
        let machine = kilobytes(&text("proc/meminfo"), "MemAvailable:").map(of("free on this machine"));
        let space = address_space(&text("proc/self/limits"))
            .zip(kilobytes(&text("proc/self/status"), "VmSize:"))
            // Two thirds are free, of which a run takes three quarters, because address space that an
            // allocator reserves counts as used.
            .map(|(limit, used)| limit.saturating_sub(used) / 3 * 2)
            .map(of("left of the limit of address space, ulimit -v"));
        let group = group(root, &text("proc/self/cgroup")).map(of("left of the control group's limit"));
        [machine, space, group].into_iter().flatten().min_by_key(|memory| memory.bytes)
    }
}

/// Returns the value of a line in a file like `/proc/meminfo`, in bytes.
fn kilobytes(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1 << 10)
}

/// Returns the soft limit of the address space; `None` if there is no limit.
fn address_space(limits: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max address space"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Returns the memory that the control groups of this process leave: the smallest of any group, from its own
/// up to the root.
fn group(root: &Path, groups: &str) -> Option<u64> {
    let of_line = |line: &str| -> Option<u64> {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?);
        let (mount, version) = match controllers {
            "" => (root.join("sys/fs/cgroup"), &V2),
            _ if controllers.split(',').any(|name| name == "memory") => {
                (root.join("sys/fs/cgroup/memory"), &V1)
            }
            _ => return None,
        };
        // In a container the path may exist on the host only. The mount's root is then this process's group.
        let inside = mount.join(path.trim_start_matches('/'));
        let start = if inside.is_dir() { inside } else { mount.clone() };
        start.ancestors().take_while(|at| at.starts_with(&mount)).filter_map(|at| version.left(at)).min()
    };
    groups.lines().filter_map(of_line).min()
}

/// The files of one version of control groups.
struct Version {
    limit: &'static str,
    used: &'static str,
    /// The key of the page cache, which counts as used. The kernel drops the page cache when memory is short.
    files: [&'static str; 2],
}

const V1: Version = Version {
    limit: "memory.limit_in_bytes",
    used: "memory.usage_in_bytes",
    files: ["total_inactive_file", "total_active_file"],
};
const V2: Version =
    Version { limit: "memory.max", used: "memory.current", files: ["inactive_file", "active_file"] };

impl Version {
    fn left(&self, group: &Path) -> Option<u64> {
        let text = |name: &str| read_to_string(PathBuf::from(group).join(name)).ok();
        let number = |name: &str| text(name)?.trim().parse::<u64>().ok();
        // A group without a limit says "max", or a number near 2⁶³.
        let limit = number(self.limit).filter(|&limit| limit < 1 << 62)?;
        let stat = text("memory.stat").unwrap_or_default();
        let of = |name: &&str| {
            let line = stat.lines().find_map(|line| line.strip_prefix(*name)?.strip_prefix(' '));
            line.and_then(|bytes| bytes.trim().parse::<u64>().ok()).unwrap_or(0)
        };
        let files = self.files.iter().map(of).sum::<u64>();
        Some(limit.saturating_sub(number(self.used).unwrap_or(0).saturating_sub(files)))
    }
}

/// Returns a number of bytes for a message: three digits and a unit.
#[must_use]
pub fn readable_bytes(bytes: u64) -> String {
    let (unit, shift) = [("TiB", 40), ("GiB", 30), ("MiB", 20)]
        .into_iter()
        .find(|(_, shift)| bytes >> shift > 0)
        .unwrap_or(("KiB", 10));
    let number = bytes as f64 / (1u64 << shift) as f64;
    if number < 10.0 { format!("{number:.1} {unit}") } else { format!("{number:.0} {unit}") }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// A directory with these files, removed when dropped.
    struct Root(PathBuf);

    impl Root {
        fn new(name: &str, files: &[(&str, &str)]) -> Self {
            let root = std::env::temp_dir().join(format!("binhop-memory-{name}-{}", std::process::id()));
            for (path, text) in files {
                let path = root.join(path);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, text).unwrap();
            }
            Self(root)
        }

        fn free(&self) -> Option<u64> {
            MemoryLimit::free(&self.0).map(|memory| memory.bytes)
        }
    }

    impl Drop for Root {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    const INFO: (&str, &str) = ("proc/meminfo", "MemTotal: 900 kB\nMemAvailable:    600 kB\n");

    #[test]
    fn the_least_of_what_any_limit_leaves_is_taken() {
        assert_eq!(Root::new("info", &[INFO]).free(), Some(600 << 10));
        assert_eq!(Root::new("none", &[("proc/self/cgroup", "0::/\n")]).free(), None);
        let limits =
            "Limit  Soft Limit  Hard Limit  Units\nMax address space         409600      unlimited  bytes\n";
        let space =
            [INFO, ("proc/self/limits", limits), ("proc/self/status", "VmPeak: 90 kB\nVmSize:\t 100 kB\n")];
        assert_eq!(Root::new("space", &space).free(), Some(200 << 10), "two thirds of what is left");
        let endless = limits.replace("409600", "unlimited");
        let space = [INFO, ("proc/self/limits", &*endless), space[2]];
        assert_eq!(Root::new("endless", &space).free(), Some(600 << 10));
    }

    #[test]
    fn control_groups_of_both_versions_leave_what_they_have_not_used() {
        let v2 = [
            INFO,
            ("proc/self/cgroup", "0::/a/b\n"),
            ("sys/fs/cgroup/a/b/memory.max", "max\n"),
            ("sys/fs/cgroup/a/memory.max", "500000\n"),
            ("sys/fs/cgroup/a/memory.current", "300000\n"),
            ("sys/fs/cgroup/a/memory.stat", "anon 1\ninactive_file 50000\nactive_file 7\n"),
        ];
        assert_eq!(Root::new("v2", &v2).free(), Some(500_000 - 300_000 + 50_007));
        let v1 = [
            INFO,
            ("proc/self/cgroup", "3:cpu:/x\n2:memory:/of/the/host\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "400000\n"),
            ("sys/fs/cgroup/memory/memory.usage_in_bytes", "100000\n"),
        ];
        assert_eq!(Root::new("v1", &v1).free(), Some(300_000));
        let unlimited = ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
        assert_eq!(Root::new("v1-unlimited", &[v1[0], v1[1], unlimited]).free(), Some(600 << 10));
    }

    #[test]
    fn bytes_are_told_with_a_unit() {
        assert_eq!(readable_bytes(512), "0.5 KiB");
        assert_eq!(readable_bytes(5 << 20), "5.0 MiB");
        assert_eq!(readable_bytes((70 << 30) + (1 << 29)), "70 GiB");
    }
}
