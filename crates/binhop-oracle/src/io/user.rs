//! This part of the slow path lets the user's buffers fault where they lie in mapped files.

use super::{IoPlace, MemoryPlace, Server, UserPlace};

impl Server {
    fn user_page(&self, at: IoPlace) -> Option<(u64, UserPlace)> {
        let IoPlace::User(byte) = at else { return None };
        let number = byte / self.sizes.page;
        self.named.get(&number).map(|&named| (number, named))
    }

    /// Returns whether a byte of the user's memory lies in a mapped file.
    pub(super) fn is_mapped(&self, byte: u64) -> bool {
        matches!(self.user_page(IoPlace::User(byte)), Some((_, UserPlace::Mapped { .. })))
    }

    /// Returns whether the kernel's access to a piece of the user's memory faults.
    pub(super) fn must_fault(&self, at: IoPlace, stores: bool) -> bool {
        match self.user_page(at) {
            Some((_, UserPlace::Mapped { file, page, entered, copy })) => {
                let here = entered && self.position(file, page).is_some();
                !here || (stores && copy.is_none() && !self.is_dirty(file, page))
            }
            _ => false,
        }
    }

    /// Lets the pages of the user fault that a step reads, or stores into (true). The step's pages of files stay in the
    /// cache, or are read again.
    pub(super) fn fault_user(&mut self, places: &[(IoPlace, bool)]) {
        let size = self.sizes.page;
        let of_file = |&(at, _): &(IoPlace, bool)| match at {
            IoPlace::File(file, byte) => Some((file, byte / size)),
            _ => None,
        };
        let mut kept: Vec<(u64, u64)> = places.iter().filter_map(of_file).collect();
        kept.retain(|&(file, page)| self.position(file, page).is_some());
        let mut again = false;
        loop {
            let faults = places.iter().any(|&(at, stores)| self.must_fault(at, stores));
            let has_lost = kept.iter().any(|&(file, page)| self.position(file, page).is_none());
            let must_go_on = faults || (again && has_lost);
            if !must_go_on {
                break;
            }
            for &(file, page) in &kept {
                self.keep(file, page);
            }
            for &(at, stores) in places {
                if self.must_fault(at, stores) {
                    self.fault_at(at, stores, again);
                }
            }
            again = true;
        }
        // A store gives the process a page of its own.
        for &(at, stores) in places {
            if let Some((number, UserPlace::Mapped { copy: Some(copy), .. })) = self.user_page(at)
                && stores
            {
                self.named.insert(number, UserPlace::Own(copy));
            }
        }
    }

    fn fault_at(&mut self, at: IoPlace, stores: bool, again: bool) {
        let Some((number, UserPlace::Mapped { file, page, copy, .. })) = self.user_page(at) else { return };
        let dirties = stores && copy.is_none();
        if again {
            self.fault_again(file, page, dirties);
        } else {
            self.fault(file, page, dirties);
        }
        let entered = match copy {
            Some(copy) if stores => UserPlace::Own(copy),
            _ => UserPlace::Mapped { file, page, entered: true, copy },
        };
        self.named.insert(number, entered);
    }

    /// Notes that a page has left the cache, and so all page tables.
    pub(super) fn leave_tables(&mut self, left: MemoryPlace) {
        for named in self.named.values_mut() {
            if let UserPlace::Mapped { file, page, entered, .. } = named
                && MemoryPlace::File(*file, *page) == left
            {
                *entered = false;
            }
        }
    }
}
