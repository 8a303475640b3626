//! The disk of the path serves requests at once, or at a rate and one after the other.

use super::rings::{DISK, Data};
use super::{IoEvent, IoPlace, MemoryPlace, Server};

impl Server {
    /// Returns whether a page begins an extent: the page before it in the file lies elsewhere on the disk.
    pub(super) fn begins_extent(&self, page: u64) -> bool {
        page.is_multiple_of(self.sizes.extent_pages)
    }

    /// Asks the disk for pages. It serves the request at once, or in its turn.
    pub(super) fn ask_disk(&mut self, file: u64, pages: &[u64]) {
        if self.sizes.disk_rate.is_none() {
            self.transfer_pages(true, file, pages);
        } else if !pages.is_empty() {
            if self.arriving.is_empty() {
                self.disk_began = self.now;
            }
            self.arriving.push((file, pages.to_vec()));
        }
    }

    pub(super) fn serve_first(&mut self) {
        let (file, pages) = self.arriving.remove(0);
        self.transfer_pages(true, file, &pages);
    }

    /// Lets the disk serve requests until it has served the request for a page.
    pub(super) fn wait_for(&mut self, file: u64, page: u64) {
        while self.arriving.iter().any(|(of, pages)| *of == file && pages.contains(&page)) {
            self.disk_began = self.now;
            self.serve_first();
        }
    }

    /// Asks the disk to write pages, which are clean from now on. It serves the request at once, or in its turn.
    pub(super) fn write_pages(&mut self, file: u64, pages: &[u64]) {
        if self.sizes.disk_write_rate.is_none() || pages.is_empty() {
            self.transfer_pages(false, file, pages);
            return;
        }
        self.wait_for_write(|of, page| of == file && pages.contains(&page));
        for &page in pages {
            let place = self.position(file, page).expect("the page is cached");
            self.cached[place].dirty = None;
        }
        if self.leaving.is_empty() {
            self.writes_began = self.now;
        }
        self.leaving.push((file, pages.to_vec()));
    }

    /// Lets the disk serve writes until it has served the writes of all pages that `chosen` selects.
    pub(super) fn wait_for_write(&mut self, chosen: impl Fn(u64, u64) -> bool) {
        while self.leaving.iter().any(|(file, pages)| pages.iter().any(|&page| chosen(*file, page))) {
            self.writes_began = self.now;
            self.serve_first_write();
        }
    }

    pub(super) fn serve_first_write(&mut self) {
        let (file, pages) = self.leaving.remove(0);
        let size = self.sizes.page;
        let data =
            pages.iter().map(|&page| (IoPlace::File(file, page * size), size, Some((file, page * size))));
        self.disk(false, &data.collect::<Vec<_>>());
    }

    fn transfer_pages(&mut self, reads_file: bool, file: u64, pages: &[u64]) {
        if pages.is_empty() {
            return;
        }
        let size = self.sizes.page;
        let data: Vec<_> = pages
            .iter()
            .map(|&page| (IoPlace::File(file, page * size), size, Some((file, page * size))))
            .collect();
        for &page in pages {
            let place = self.position(file, page).expect("the page is cached");
            self.cached[place].dirty = None;
        }
        self.disk(reads_file, &data);
    }

    pub(super) fn disk(&mut self, writes: bool, data: &[Data]) {
        let pages: Vec<MemoryPlace> = data.iter().filter_map(|&(at, ..)| self.page_at(at)).collect();
        self.make_room(&pages);
        let last = self.request(DISK, writes, true, data);
        self.events.push(IoEvent::Interrupt(DISK));
        self.events.push(IoEvent::Driver(false, DISK, last));
    }
}
