//! This part of preparation serves a steered source: it emits a block after each piece, because the source then asks
//! for the state of the lane.

use binhop_base::{Asid, Result};

use super::{EmitBlock, Prepare};

impl Prepare {
    /// Returns the address space that runs.
    pub(crate) fn running(&self) -> Asid {
        self.running.asid
    }

    /// Emits what was prepared since the last block, if there is anything. Pieces are short, so the next block gets no
    /// room in advance.
    pub(crate) fn flush_piece(&mut self, emit: EmitBlock<'_>) -> Result<()> {
        if self.rows.is_empty() && self.controls.is_empty() && self.mappings.is_empty() {
            return Ok(());
        }
        self.flush_leaving(Vec::new(), emit)
    }
}
