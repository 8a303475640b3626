//! This part of the memory estimate says how many seeds fit into memory at once, and what would fit if not even one does.

use binhop_base::{Bytes, Problem, counted};

use super::{MemoryEstimate, guess};
use crate::machine::Machine;
use crate::memory_limit::{MemoryLimit, readable_bytes};
use crate::options::RunOptions;
use crate::prepare::Growth;

/// `LargestSetting` is the memory that one setting of a machine costs a lane.
#[derive(Clone, Debug)]
pub(super) struct LargestSetting {
    pub(super) key: String,
    pub(super) size: u64,
    pub(super) bytes: SettingBytes,
}

/// `SettingBytes` is what a setting costs a lane: bytes at the start, and bytes of each page, up to a maximum.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SettingBytes {
    pub(super) fixed: u64,
    pub(super) page: u64,
    pub(super) most: u64,
}

impl SettingBytes {
    pub(super) fn fixed(fixed: u64) -> Self {
        Self { fixed, ..Self::default() }
    }

    pub(super) fn of(self, pages: u64) -> u64 {
        self.fixed.saturating_add(self.page.saturating_mul(pages).min(self.most))
    }
}

impl MemoryEstimate {
    /// Returns how many seeds of `all` fit at once, as far as the trace is known.
    pub(crate) fn fit(&self, memory: &MemoryLimit, all: usize, growth: Growth) -> usize {
        let (mut fit, mut over) = (0, all + 1);
        while over - fit > 1 {
            let middle = fit + (over - fit) / 2;
            if self.bytes(middle, all, growth) <= memory.bytes {
                fit = middle;
            } else {
                over = middle;
            }
        }
        fit
    }

    /// Returns how many seeds of `all` a run starts with: as many as fit if the trace is as guessed. If none
    /// fits then, the run starts with one seed if one fits what the trace is known to hold.
    pub(crate) fn start(
        &self,
        memory: &MemoryLimit,
        all: usize,
        options: &RunOptions,
        seen: Growth,
    ) -> usize {
        let fit = self.fit(memory, all, guess(options).max(seen));
        fit.max(self.fit(memory, all, seen).min(1))
    }

    /// Returns the setting that takes the most memory, as a machine file writes it. Its value is halved until
    /// a seed would fit.
    fn would_fit(&self, memory: &MemoryLimit, all: usize, growth: Growth) -> Option<String> {
        let LargestSetting { key, size, bytes } = self.largest.as_ref()?;
        let bytes = bytes.of(growth.pages);
        let rest = self.bytes(1, all, growth).saturating_sub(bytes);
        let room = memory.bytes.checked_sub(rest)?;
        (1..64)
            .map(|halved| (size >> halved, bytes >> halved))
            .find(|&(_, bytes)| bytes <= room)
            .filter(|&(size, _)| size > 0)
            .map(|(size, _)| format!("{key}={}", Bytes(size)))
    }

    /// Returns the problem that one seed does not fit, with a remedy.
    pub(crate) fn too_large(
        &self,
        machines: &[Machine],
        memory: &MemoryLimit,
        all: usize,
        growth: Growth,
    ) -> Box<Problem> {
        if let Some(few) = &self.without_bits {
            return few.too_large(machines, memory, all, growth);
        }
        let estimated_memory = self.bytes(1, all, growth);
        let names: Vec<&str> = machines.iter().map(Machine::name).collect();
        let after = if growth.pages > 0 {
            format!(
                ", having touched {} in {}",
                counted(growth.pages, ["page", "pages"]),
                counted(growth.processes, ["address space", "address spaces"])
            )
        } else {
            String::new()
        };
        let tables = self.tables.of(growth).saturating_mul(all as u64);
        let remedy = match self.would_fit(memory, all, growth) {
            Some(fits) => format!("with this memory {fits} would fit; or make room"),
            None if tables > memory.bytes / 2 => {
                format!("its tables take {}: ask for fewer seeds", readable_bytes(tables))
            }
            None => "make room, or allow more".to_string(),
        };
        Problem::request(
            &format!("{} of memory", readable_bytes(estimated_memory)),
            &format!("machine {}", names.join(", ")),
            &format!(
                "one placement needs {}{after}, and a run may take {} ({})",
                readable_bytes(estimated_memory),
                readable_bytes(memory.bytes),
                memory.source
            ),
            &remedy,
        )
    }

    /// Returns the problem that the seeds do not fit at once, where a trace can be read only once.
    pub(crate) fn only_once(
        &self,
        name: &str,
        memory: &MemoryLimit,
        all: usize,
        fit: usize,
        growth: Growth,
    ) -> Box<Problem> {
        Problem::request(
            &format!("{all} seeds"),
            &format!("trace {name}"),
            &format!(
                "at once they need {} of memory and there are {} ({}); rounds would read the trace again, and this trace can be read only once",
                readable_bytes(self.bytes(all, all, growth)),
                readable_bytes(memory.bytes),
                memory.source
            ),
            &format!(
                "ask for {}, or write the trace to a file first (binhop import)",
                counted(fit as u64, ["seed", "seeds or fewer"])
            ),
        )
    }
}
