//! This file lets time pass on the path: devices serve the requests that wait for them, and the flusher wakes.

use super::{Emit, IoPath, IoWaiting};

/// `Due` names a device, or a reason to wake the flusher, that acts at its own time. If several are due at one
/// time, the variant that is declared first acts first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    Read,
    Write,
    Send,
    /// A page has been dirty too long.
    Old,
    /// A store through a mapping may have made one page dirty too many.
    Stored,
}

impl IoPath {
    /// Returns the next time, in instructions, at which a device or the flusher acts on its own. Nothing happens
    /// before this time, so a caller need not call [`pass_time`](Self::pass_time) earlier.
    #[must_use]
    pub fn next_due(&self) -> u64 {
        self.first_due().map_or(u64::MAX, |(due, _)| due)
    }

    /// Returns what waits for devices and the flusher.
    #[must_use]
    pub fn waiting(&self) -> IoWaiting {
        IoWaiting {
            reads_waiting: self.arriving.waiting(),
            writes_waiting: self.leaving.waiting(),
            packets_waiting: self.network.waiting(),
            dirty: self.cache.dirty_len(),
        }
    }

    /// Tells the path how many instructions have been executed. Devices and flusher do what was due by then, the
    /// earliest first. Time never goes back.
    pub fn pass_time(&mut self, now: u64, emit: Emit<'_>) {
        while let Some((due, who)) = self.first_due()
            && due <= now
        {
            self.now = self.now.max(due);
            match who {
                Due::Read => {
                    if let Some(run) = self.arriving.serve(due) {
                        self.receive_pages(run, emit);
                    }
                }
                Due::Write => {
                    if let Some(run) = self.leaving.serve(due) {
                        self.send_pages(run, emit);
                    }
                }
                Due::Send => self.in_memory(emit, |path, emit| {
                    path.network.send_first(due, &mut path.counts, emit);
                }),
                Due::Old => {
                    if let Some((page, _)) = self.cache.dirty_longest() {
                        self.write_dirty(page, emit);
                    }
                }
                Due::Stored => self.balance(emit),
            }
        }
        self.now = self.now.max(now);
    }

    fn first_due(&self) -> Option<(u64, Due)> {
        let page = self.config.page;
        let read = self.config.disk_rate.and_then(|rate| self.arriving.due(rate, page));
        let written = self.config.disk_write_rate.and_then(|rate| self.leaving.due(rate, page));
        let sent = self.config.send_rate.and_then(|rate| self.network.due(rate));
        // A page is never written before the store that makes it dirty.
        let age = self.config.dirty_age.max(1);
        let old = self.cache.dirty_longest().map(|(_, since)| since.saturating_add(age));
        let all = [
            (read, Due::Read),
            (written, Due::Write),
            (sent, Due::Send),
            (old, Due::Old),
            (self.flusher_wakes, Due::Stored),
        ];
        all.into_iter().filter_map(|(due, who)| Some((due?, who))).min()
    }
}
