//! `Evictors` records the last life whose accesses evicted each line of a cache.

use binhop_base::LineAddr;
use binhop_hw::{Next, Tree};

/// `Evictors` records the last life whose accesses evicted each line of a cache.
///
/// A cache behind another cache may lack a line that a private cache brings in, because the shared cache before it
/// still has the line. Then only the last eviction tells why the shared cache behind lacks the line.
#[derive(Debug)]
pub(super) struct Evictors {
    page_lines_log2: u32,
    /// For each line the number of a life; 0 if the line was never evicted.
    lives: Vec<u32>,
}

impl Evictors {
    pub(super) fn of(tree: &Tree, cache: usize) -> Option<Self> {
        let config = tree.config();
        let page_lines_log2 = config.page.log2() - config.caches[cache].line.log2();
        Self::serve(tree, cache).then(|| Self { page_lines_log2, lives: Vec::new() })
    }

    /// Returns whether a cache of a tree needs evictors.
    fn serve(tree: &Tree, cache: usize) -> bool {
        let config = tree.config();
        let asked = config.caches.iter().any(|above| above.next == Next::Cache(cache));
        asked || !(cache == config.fetch || cache == config.data)
    }

    /// Returns the bytes that the evictors of all caches of a tree keep of a page.
    pub(super) fn bytes_of_page(tree: &Tree) -> u64 {
        let config = tree.config();
        let lines = |cache: usize| 1u64 << (config.page.log2() - config.caches[cache].line.log2());
        let kept = (0..config.caches.len()).filter(|&cache| Self::serve(tree, cache));
        kept.map(|cache| lines(cache) * size_of::<u32>() as u64).sum()
    }

    fn place(&self, at: LineAddr) -> usize {
        (at.id as usize) << self.page_lines_log2 | at.line as usize
    }

    pub(super) fn of_line(&self, at: LineAddr) -> u32 {
        self.lives.get(self.place(at)).copied().unwrap_or(0)
    }

    pub(super) fn note(&mut self, at: LineAddr, life: u32) {
        let place = self.place(at);
        if self.lives.len() <= place {
            self.lives.resize(((at.id as usize) + 1) << self.page_lines_log2, 0);
        }
        self.lives[place] = life;
    }
}
