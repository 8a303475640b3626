//! This part of the slow path serves calls on files: calls through the page cache, direct transfers, and changes of
//! a file's length.

use super::rings::Data;
use super::{IoEvent, IoPlace, MemoryPlace, Server};

impl Server {
    /// Reads from a file.
    pub fn read(&mut self, file: u64, offset: u64, bytes: u64, user: u64) {
        if bytes == 0 {
            return;
        }
        self.reach(file, offset + bytes);
        let last = (offset + bytes - 1) / self.sizes.page;
        for (start, length) in self.parts(offset, bytes) {
            let page = start / self.sizes.page;
            self.bring(file, page, last - page + 1);
            let made = self.events.len();
            self.copy(IoPlace::File(file, start), user + start - offset, length, false);
            self.admit(made);
        }
        self.readers.entry(file).or_default().last = Some(last);
    }

    /// Writes to a file.
    pub fn write(&mut self, file: u64, offset: u64, bytes: u64, user: u64) {
        for (start, length) in self.parts(offset, bytes) {
            let from = user + start - offset;
            let size = self.sizes.page;
            if (from..from + length).any(|byte| self.is_mapped(byte)) {
                self.write_mapped(file, start, length, from);
                continue;
            }
            self.prepare(file, start, length);
            self.reach(file, start + length);
            let made = self.events.len();
            self.copy(IoPlace::File(file, start), from, length, true);
            self.admit(made);
            self.soil(file, start / size);
        }
        self.flush_some();
    }

    /// Writes to a page of a file from a buffer that lies in a mapped file, one page of the buffer after the other. The
    /// page of the buffer faults before the page of the file is made ready.
    fn write_mapped(&mut self, file: u64, start: u64, length: u64, user: u64) {
        let page = start / self.sizes.page;
        let mut ready = false;
        for (from, bytes) in self.parts(user, length) {
            let target = start + from - user;
            loop {
                self.fault_user(&[(IoPlace::User(from), false)]);
                if ready && self.position(file, page).is_some() {
                    self.keep(file, page);
                } else {
                    self.prepare(file, target, start + length - target);
                }
                ready = true;
                if !self.must_fault(IoPlace::User(from), false) {
                    break;
                }
            }
            self.reach(file, target + bytes);
            self.put(IoEvent::Copy(IoPlace::User(from), IoPlace::File(file, target), bytes));
            self.soil(file, page);
        }
    }

    /// Makes a page ready for a write of some of its bytes.
    pub(super) fn prepare(&mut self, file: u64, start: u64, length: u64) {
        let size = self.sizes.page;
        let page = start / size;
        let end = *self.files.entry(file).or_default();
        let exist = (page * size..page * size + size).filter(|&byte| byte < end);
        let kept = exist.filter(|byte| !(start..start + length).contains(byte)).count();
        if self.position(file, page).is_some() || kept > 0 {
            self.bring_one(file, page);
        } else {
            self.looked_up[1] += 1;
            self.join(file, page);
            let before = start - page * size;
            let behind = size - before - length;
            if before > 0 {
                self.put(IoEvent::Zero(IoPlace::File(file, page * size), before));
            }
            if behind > 0 {
                self.put(IoEvent::Zero(IoPlace::File(file, start + length), behind));
            }
        }
    }

    /// Copies between two files.
    pub fn copy_file(&mut self, (from, offset): (u64, u64), (to, to_offset): (u64, u64), bytes: u64) {
        if bytes == 0 {
            return;
        }
        let size = self.sizes.page;
        self.reach(from, offset + bytes);
        let last = (offset + bytes - 1) / size;
        let mut pieces: Vec<(u64, u64)> = Vec::new();
        for byte in 0..bytes {
            match pieces.last_mut() {
                Some(piece)
                    if !(offset + byte).is_multiple_of(size) && !(to_offset + byte).is_multiple_of(size) =>
                {
                    piece.1 += 1;
                }
                _ => pieces.push((byte, 1)),
            }
        }
        // Each write moves 16 pages of the source.
        let write = |byte: u64| ((offset + byte) / size - offset / size) / 16;
        for (number, &(byte, length)) in pieces.iter().enumerate() {
            let page = (offset + byte) / size;
            if byte == 0 || (offset + byte).is_multiple_of(size) {
                self.bring(from, page, last - page + 1);
            } else {
                self.keep(from, page);
            }
            let target = to_offset + byte;
            // The bytes of this page that the call writes before the flusher works.
            let group = pieces.iter().filter(|&&(other, _)| write(other) == write(byte));
            let in_page = group.filter(|&&(other, _)| (to_offset + other) / size == target / size);
            let is_first = in_page.clone().next() == Some(&(byte, length));
            let whole = in_page.filter(|&&(other, _)| other >= byte).map(|&(_, length)| length).sum();
            let mut ready = !is_first;
            loop {
                self.touch(from, page);
                if ready && self.position(to, target / size).is_some() {
                    self.keep(to, target / size);
                } else {
                    self.prepare(to, target, whole);
                }
                ready = true;
                if self.position(from, page).is_some() {
                    break;
                }
                self.bring_one(from, page);
            }
            self.reach(to, to_offset + byte + length);
            self.put(IoEvent::Copy(
                IoPlace::File(from, offset + byte),
                IoPlace::File(to, to_offset + byte),
                length,
            ));
            self.soil(to, (to_offset + byte) / size);
            if pieces.get(number + 1).is_none_or(|&(next, _)| write(next) != write(byte)) {
                self.flush_some();
            }
        }
        self.readers.entry(from).or_default().last = Some(last);
    }

    /// Sends a part of a file from the page cache.
    pub fn send_file(&mut self, file: u64, offset: u64, bytes: u64) {
        if bytes == 0 {
            return;
        }
        self.reach(file, offset + bytes);
        let last = (offset + bytes - 1) / self.sizes.page;
        for (start, length) in self.parts(offset, bytes) {
            let page = start / self.sizes.page;
            self.bring(file, page, last - page + 1);
            self.send_where_it_lies(IoPlace::File(file, start), length, Some((file, start)));
        }
        self.readers.entry(file).or_default().last = Some(last);
    }

    /// Touches a page of a mapped file.
    pub fn fault(&mut self, file: u64, page: u64, writes: bool) {
        self.bring_mapped(file, page, writes, true);
    }

    /// Touches a page that was reclaimed to make room for another page of the same reference.
    pub fn fault_again(&mut self, file: u64, page: u64, writes: bool) {
        self.bring_mapped(file, page, writes, false);
    }

    fn bring_mapped(&mut self, file: u64, page: u64, writes: bool, ahead: bool) {
        let bytes = if self.known.contains(&file) { 1 } else { self.sizes.page };
        self.reach(file, page * self.sizes.page + bytes);
        self.mapped.insert(MemoryPlace::File(file, page));
        if ahead {
            self.bring(file, page, 1);
        } else {
            self.bring_one(file, page);
        }
        self.readers.entry(file).or_default().last = Some(page);
        if writes {
            self.soil(file, page);
            self.stored.get_or_insert(self.now);
        }
    }

    /// Maps the first bytes of a file.
    pub fn reach_mapped(&mut self, file: u64, bytes: u64) {
        if !self.known.contains(&file) {
            self.reach(file, bytes);
        }
    }

    /// Returns whether a page is in the cache and dirty.
    #[must_use]
    pub fn has_dirty(&self, file: u64, page: u64) -> bool {
        self.is_dirty(file, page)
    }

    /// Reads from the disk directly, or writes to the disk directly.
    pub fn direct(&mut self, writes_file: bool, file: u64, offset: u64, bytes: u64, user: u64) {
        if bytes == 0 {
            return;
        }
        let size = self.sizes.page;
        self.reach(file, offset + bytes);
        let pages: Vec<u64> = (0..bytes).map(|byte| (offset + byte) / size).collect();
        self.flush_pages(file, |page| pages.contains(&page));
        for &page in &pages {
            if !writes_file {
                self.wait_for_write(|of, written| of == file && written == page);
            }
        }
        if writes_file {
            for page in unique(&pages) {
                self.drop_page(file, page);
            }
        }
        // Each byte has a page on both sides. Where the page of either side changes, a new piece begins.
        let mut pieces: Vec<(u64, u64)> = Vec::new();
        for byte in 0..bytes {
            let begins =
                byte == 0 || (offset + byte).is_multiple_of(size) || (user + byte).is_multiple_of(size);
            if begins {
                pieces.push((byte, 0));
            }
            pieces.last_mut().expect("the first byte begins a piece").1 += 1;
        }
        let mut request: Vec<Data> = Vec::new();
        for (byte, length) in pieces {
            let at = offset + byte;
            let new_extent = at.is_multiple_of(size) && self.begins_extent(at / size);
            if !request.is_empty() && (new_extent || request.len() == self.sizes.request_pages) {
                self.disk_and_user(!writes_file, &std::mem::take(&mut request));
            }
            request.push((IoPlace::User(user + byte), length, Some((file, at))));
        }
        self.disk_and_user(!writes_file, &request);
        if writes_file {
            for page in unique(&pages) {
                self.drop_page(file, page);
            }
        }
    }

    /// Transfers between the disk and the user's memory. All pages of the user have faulted before.
    fn disk_and_user(&mut self, writes: bool, data: &[Data]) {
        let places: Vec<(IoPlace, bool)> = data.iter().map(|&(at, ..)| (at, writes)).collect();
        self.fault_user(&places);
        self.disk(writes, data);
    }

    /// Writes a file's dirty pages.
    pub fn sync_file(&mut self, file: u64) {
        self.flush_pages(file, |_| true);
        self.wait_for_write(|of, _| of == file);
    }

    /// Writes the dirty pages of a range of a file.
    pub fn sync_range(&mut self, file: u64, offset: u64, bytes: u64) {
        let pages: Vec<u64> = (0..bytes).map(|byte| (offset + byte) / self.sizes.page).collect();
        self.flush_pages(file, |page| pages.contains(&page));
        self.wait_for_write(|of, page| of == file && pages.contains(&page));
    }

    /// Writes all dirty pages.
    pub fn sync(&mut self) {
        while let Some(page) = self.oldest_dirty() {
            self.flush_around(page.file, page.page);
        }
        self.wait_for_write(|_, _| true);
    }

    /// Changes a file's size.
    pub fn truncate(&mut self, file: u64, bytes: u64) {
        let size = self.sizes.page;
        let before = self.files.insert(file, bytes).unwrap_or_default();
        let mut gone: Vec<u64> =
            self.cached.iter().filter(|p| p.file == file && p.page * size >= bytes).map(|p| p.page).collect();
        gone.sort_unstable();
        for page in gone {
            self.drop_page(file, page);
        }
        let page = bytes / size;
        let cut = (bytes..page * size + size).filter(|&byte| byte < before).count() as u64;
        if !bytes.is_multiple_of(size) && cut > 0 {
            self.bring_one(file, page);
            self.put(IoEvent::Zero(IoPlace::File(file, bytes), cut));
            self.soil(file, page);
            self.flush_some();
        }
    }

    pub(super) fn reach(&mut self, file: u64, bytes: u64) {
        let size = self.files.entry(file).or_default();
        *size = bytes.max(*size);
    }
}

fn unique(pages: &[u64]) -> Vec<u64> {
    let mut pages = pages.to_vec();
    pages.dedup();
    pages
}
