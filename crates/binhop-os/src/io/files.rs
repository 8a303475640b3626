//! This part of the path serves calls on files: calls through the page cache, direct transfers, and changes of a
//! file's length.

use alloc::vec::Vec;

use binhop_base::VirtAddr;

use super::copies::{Side, copy, copy_pieces, pieces};
use super::disk_queue::all_pages;
use super::rings::Data;
use super::{Emit, FileId, FilePage, IoConfig, IoPath, IoStep, Location, MemoryPage};

/// The number of pages of the source that a call between two files moves in one write, before the flusher works: Linux
/// passes the pages through a pipe with room for so many pages (`PIPE_DEF_BUFFERS`). A write does not know which bytes
/// the next write changes. So a write reads a page of which it does not write all bytes.
const COPIED_AT_ONCE: u64 = 16;

impl IoPath {
    /// Reads `bytes` of a file from byte `offset` through the page cache into the user's memory.
    pub fn read(&mut self, file: FileId, offset: u64, bytes: u64, user: VirtAddr, emit: Emit<'_>) {
        if bytes == 0 {
            return;
        }
        self.reach(file, offset + bytes);
        let page = self.config.page;
        let end = (offset + bytes).div_ceil(page);
        for (start, length) in pieces(offset, bytes, page) {
            let number = start / page;
            self.bring(FilePage { file, page: number }, end - number, emit);
            let user = VirtAddr(user.0 + (start - offset));
            self.in_memory(emit, |_, emit| {
                copy(Location::File(file, start), Side::From, user, length, page, emit);
            });
        }
        self.file(file).ahead.end_call(end - 1);
        self.counts.read += bytes;
    }

    /// Writes `bytes` of the user's memory to a file from byte `offset` on, into the page cache. The flusher works
    /// afterwards.
    pub fn write(&mut self, file: FileId, offset: u64, bytes: u64, user: VirtAddr, emit: Emit<'_>) {
        let size = self.config.page;
        for (start, length) in pieces(offset, bytes, size) {
            let page = FilePage { file, page: start / size };
            let user = VirtAddr(user.0 + (start - offset));
            if self.is_mapped(user.0, length) {
                self.write_mapped((file, start), length, user, emit);
                continue;
            }
            self.make_writable(page, start % size, length, emit);
            self.reach(file, start + length);
            self.in_memory(emit, |_, emit| {
                copy(Location::File(file, start), Side::To, user, length, size, emit);
            });
            // To make room for the user's page, the page of the file may have been written to the disk.
            self.cache.mark_dirty(page, self.now);
        }
        self.counts.written += bytes;
        self.balance(emit);
    }

    /// Writes to a page of a file, as `write` does, from a buffer that lies in a mapped file.
    fn write_mapped(&mut self, (file, start): (FileId, u64), length: u64, user: VirtAddr, emit: Emit<'_>) {
        let size = self.config.page;
        let page = FilePage { file, page: start / size };
        let written = start..start + length;
        let mut is_new = true;
        for (from, bytes) in pieces(user.0, length, size) {
            let target = start + (from - user.0);
            let from = Location::User(VirtAddr(from));
            loop {
                self.fault_user(&[(from, false)], emit);
                self.keep_writable(page, target, (is_new, &written), emit);
                is_new = false;
                // The page of the buffer may have left to make room for the page of the file.
                if !self.must_fault(from, false) {
                    break;
                }
            }
            self.reach(file, target + bytes);
            let to = Location::File(file, target);
            self.in_memory(emit, |_, emit| emit(IoStep::Copy { from, to, bytes }));
            self.cache.mark_dirty(page, self.now);
        }
    }

    /// Copies `bytes` of a file from byte `offset` on to byte `to_offset` of a file, from page cache to page cache
    /// (`copy_file_range`, `sendfile` between files). The flusher works after each `COPIED_AT_ONCE` pages of the
    /// source.
    pub fn copy_file(
        &mut self,
        (from, offset): (FileId, u64),
        (to, to_offset): (FileId, u64),
        bytes: u64,
        emit: Emit<'_>,
    ) {
        if bytes == 0 {
            return;
        }
        let size = self.config.page;
        self.reach(from, offset + bytes);
        let end = (offset + bytes).div_ceil(size);
        let cut = copy_pieces(VirtAddr(to_offset), offset, bytes, size);
        let write = |distance: u64| ((offset + distance) / size - offset / size) / COPIED_AT_ONCE;
        for some in cut.chunk_by(|before, behind| write(before.0) == write(behind.0)) {
            let written = to_offset + some[0].0..to_offset + some.last().map_or(0, |last| last.0 + last.1);
            for &(distance, length) in some {
                let (start, target) = (offset + distance, to_offset + distance);
                let source = FilePage { file: from, page: start / size };
                let page = FilePage { file: to, page: target / size };
                if distance == 0 || start.is_multiple_of(size) {
                    self.bring(source, end - source.page, emit);
                } else {
                    self.keep(source, emit);
                }
                let mut is_new = target == written.start || target.is_multiple_of(size);
                loop {
                    // The page stays while a page of the copy takes a place.
                    self.cache.use_now(source);
                    self.keep_writable(page, target, (is_new, &written), emit);
                    is_new = false;
                    if self.cache.contains(source) {
                        break;
                    }
                    // The source was reclaimed to make room for the page of the target.
                    self.bring_alone(source, emit);
                }
                self.reach(to, target + length);
                let (from, to) = (Location::File(from, start), Location::File(to, target));
                self.in_memory(emit, |_, emit| emit(IoStep::Copy { from, to, bytes: length }));
                self.cache.mark_dirty(page, self.now);
            }
            self.balance(emit);
        }
        self.file(from).ahead.end_call(end - 1);
        self.counts.read += bytes;
        self.counts.written += bytes;
    }

    /// Sends `bytes` of a file from byte `offset` on to the network (`sendfile`). The card reads the pages of the page
    /// cache; nothing is copied. A packet lies in one page (ours).
    pub fn send_file(&mut self, file: FileId, offset: u64, bytes: u64, emit: Emit<'_>) {
        if bytes == 0 {
            return;
        }
        let size = self.config.page;
        self.reach(file, offset + bytes);
        let end = (offset + bytes).div_ceil(size);
        for (start, length) in pieces(offset, bytes, size) {
            let page = FilePage { file, page: start / size };
            self.bring(page, end - page.page, emit);
            self.in_memory(emit, |path, emit| path.network.send_all(path.now, &mut path.counts, emit));
            if !self.cache.contains(page) {
                // The page was reclaimed to make room for packets that waited.
                self.bring_alone(page, emit);
            }
            let at = (Location::File(file, start), length, Some((file, start)));
            self.in_memory(emit, |path, emit| {
                path.network.send_in_place(at, &path.config, &mut path.counts, emit);
            });
        }
        self.file(file).ahead.end_call(end - 1);
        self.counts.read += bytes;
        self.counts.sent += bytes;
    }

    /// Brings a page into the cache because the processor touches it in a mapping of the file. `writes` says that the
    /// page becomes dirty; the store follows, so the flusher works one instruction later.
    pub fn fault(&mut self, page: FilePage, writes: bool, emit: Emit<'_>) {
        self.bring_mapped(page, (writes, true), emit);
    }

    /// Brings a page into the cache as a [fault](Self::fault) does, but without read-ahead. The page was reclaimed
    /// to make room for another page of the same reference.
    pub fn fault_again(&mut self, page: FilePage, writes: bool, emit: Emit<'_>) {
        self.bring_mapped(page, (writes, false), emit);
    }

    fn bring_mapped(&mut self, page: FilePage, (writes, reads_ahead): (bool, bool), emit: Emit<'_>) {
        // A file of unknown length may have all bytes of the page, and stores may change all of them.
        let is_known = self.file(page.file).is_known;
        let bytes = if is_known { 1 } else { self.config.page };
        self.reach(page.file, page.page * self.config.page + bytes);
        self.note_mapped(MemoryPage::File(page));
        if reads_ahead {
            self.bring(page, 1, emit);
        } else {
            self.bring_alone(page, emit);
        }
        self.file(page.file).ahead.end_call(page.page);
        if writes {
            self.cache.mark_dirty(page, self.now);
            if self.cache.dirty_len() > self.config.dirty_pages {
                self.flusher_wakes.get_or_insert(self.now.saturating_add(1));
            }
        }
    }

    /// Tells the path that a mapping leads to the first `bytes` of a file. A file of unknown length then has these
    /// bytes.
    pub fn reach_mapped(&mut self, file: FileId, bytes: u64) {
        if !self.file(file).is_known {
            self.reach(file, bytes);
        }
    }

    /// Reads `bytes` of a file from byte `offset` from the disk directly into the user's memory.
    pub fn read_direct(&mut self, file: FileId, offset: u64, bytes: u64, user: VirtAddr, emit: Emit<'_>) {
        if bytes == 0 {
            return;
        }
        self.reach(file, offset + bytes);
        self.sync_range(file, offset, bytes, emit);
        self.transfer_direct(true, file, offset, bytes, user, emit);
        self.counts.read += bytes;
    }

    /// Writes `bytes` of the user's memory directly to the disk, to byte `offset` of a file.
    pub fn write_direct(&mut self, file: FileId, offset: u64, bytes: u64, user: VirtAddr, emit: Emit<'_>) {
        if bytes == 0 {
            return;
        }
        self.reach(file, offset + bytes);
        self.write_range(file, offset, bytes, emit);
        let size = self.config.page;
        for page in offset / size..(offset + bytes).div_ceil(size) {
            self.drop_page(FilePage { file, page }, emit);
        }
        self.transfer_direct(false, file, offset, bytes, user, emit);
        // The buffer may lie in a mapping of the same range. Then its faults have brought pages of the range in again.
        for page in offset / size..(offset + bytes).div_ceil(size) {
            self.drop_page(FilePage { file, page }, emit);
        }
        self.counts.written += bytes;
    }

    /// Writes the dirty pages of a file to the disk (`fsync`).
    pub fn sync_file(&mut self, file: FileId, emit: Emit<'_>) {
        self.write_range(file, 0, u64::MAX, emit);
        self.wait_for_writes(&all_pages(file), emit);
    }

    /// Writes the dirty pages of a range of a file to the disk (`msync`).
    pub fn sync_range(&mut self, file: FileId, offset: u64, bytes: u64, emit: Emit<'_>) {
        if bytes == 0 {
            return;
        }
        self.write_range(file, offset, bytes, emit);
        let size = self.config.page;
        let page = |byte: u64| FilePage { file, page: byte / size };
        self.wait_for_writes(&(page(offset)..=page(offset + bytes - 1)), emit);
    }

    /// Writes all dirty pages to the disk (`sync`), the page that has been dirty longest first.
    pub fn sync(&mut self, emit: Emit<'_>) {
        while let Some((page, _)) = self.cache.dirty_longest() {
            self.write_dirty(page, emit);
        }
        let all = *all_pages(FileId(0)).start()..=*all_pages(FileId(u64::MAX)).end();
        self.wait_for_writes(&all, emit);
    }

    /// Cuts a file to `bytes`, or makes it longer. Pages behind the end leave the cache and are not written. A file
    /// that is deleted is cut to 0 bytes.
    pub fn truncate(&mut self, file: FileId, bytes: u64, emit: Emit<'_>) {
        let size = self.config.page;
        let before = core::mem::replace(&mut self.file(file).bytes, bytes);
        let end = FilePage { file, page: bytes.div_ceil(size) };
        let behind: Vec<FilePage> = self.cache.of_file(end).collect();
        for page in behind {
            self.drop_page(page, emit);
        }
        let rest = (bytes.div_ceil(size) * size).min(before).saturating_sub(bytes);
        if rest > 0 {
            let last = FilePage { file, page: bytes / size };
            self.bring_alone(last, emit);
            self.in_memory(emit, |_, emit| {
                emit(IoStep::Fill { at: Location::File(file, bytes), bytes: rest });
            });
            self.cache.mark_dirty(last, self.now);
            self.balance(emit);
        }
    }

    pub(super) fn file(&mut self, file: FileId) -> &mut super::File {
        self.files.entry(file).or_default()
    }

    /// Notes that a file is at least `bytes` long.
    pub(super) fn reach(&mut self, file: FileId, bytes: u64) {
        let file = self.file(file);
        file.bytes = file.bytes.max(bytes);
    }

    fn transfer_direct(
        &mut self,
        writes: bool,
        file: FileId,
        offset: u64,
        bytes: u64,
        user: VirtAddr,
        emit: Emit<'_>,
    ) {
        let IoConfig { page, request_pages, extent_pages, .. } = self.config;
        let extent = |distance: u64| (offset + distance) / page / extent_pages;
        let cut = copy_pieces(user, offset, bytes, page);
        for pieces in cut.chunk_by(|before, behind| extent(before.0) == extent(behind.0)) {
            for request in pieces.chunks(request_pages as usize) {
                let data = request.iter().map(|&(distance, length)| {
                    (Location::User(VirtAddr(user.0 + distance)), length, Some((file, offset + distance)))
                });
                let data: Vec<Data> = data.collect();
                let places: Vec<(Location, bool)> = data.iter().map(|&(at, ..)| (at, writes)).collect();
                self.fault_user(&places, emit);
                self.transfer(writes, data, emit);
            }
        }
    }
}
