//! Read-ahead decides which pages are read beside the page that a call needs.

use super::Server;

/// `Reader` is what read-ahead knows of a file.
#[derive(Clone, Debug, Default)]
pub(super) struct Reader {
    /// The pages of the present window.
    pub(super) window: Vec<u64>,
    /// The marker: a call that finds this page in the cache asks for the next window.
    pub(super) marker: Option<u64>,
    pub(super) last: Option<u64>,
}

impl Server {
    /// Brings a page in, with read-ahead.
    pub(super) fn bring(&mut self, file: u64, page: u64, needed: u64) {
        let most = self.sizes.read_ahead;
        let mut reader = self.readers.remove(&file).unwrap_or_default();
        let cached = self.position(file, page).is_some();
        self.looked_up[usize::from(!cached)] += 1;
        let end = reader.window.last().map(|last| last + 1);
        let grown = |pages: u64| match pages {
            pages if pages < most / 16 => 4 * pages,
            pages if pages <= most / 2 => 2 * pages,
            _ => most,
        };
        let mut asked: Vec<u64> = Vec::new();
        if cached {
            self.wait_for(file, page);
            self.touch(file, page);
        }
        let next = if cached { reader.marker == Some(page) } else { page != 0 && end == Some(page) };
        let follows = reader.last.is_some_and(|last| page == last || page == last + 1);
        if next {
            let first = end.expect("a window was read");
            let size = grown(reader.window.len() as u64).min(most);
            reader.window = (first..first + size).collect();
            reader.marker = Some(first);
        } else if !cached && (page == 0 || needed > most || follows) {
            let rounded = needed.next_power_of_two();
            let size = match rounded {
                _ if needed >= most => most,
                rounded if rounded <= most / 32 => 4 * rounded,
                rounded if rounded <= most / 4 => 2 * rounded,
                rounded => rounded,
            };
            let size = size.min(most);
            reader.window = (page..page + size).collect();
            reader.marker = Some(if size > needed { page + needed } else { page });
        } else if !cached {
            asked = (page..page + needed.min(most)).collect();
        }
        if asked.is_empty() && (next || !cached) {
            if reader.marker == Some(page) && reader.window[0] == page {
                let size = reader.window.len() as u64;
                let more = grown(size).min(most);
                let all = if size + more <= most { size + more } else { most };
                let ahead = if size + more <= most { more } else { most / 2 };
                reader.window = (page..page + all).collect();
                reader.marker = (ahead > 0).then(|| page + all - ahead);
            }
            asked.clone_from(&reader.window);
        }
        self.readers.insert(file, reader);
        self.fetch(file, asked);
        self.wait_for(file, page);
        if self.position(file, page).is_none() {
            self.bring_one(file, page);
        }
    }
}
