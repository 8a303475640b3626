//! `DramOrganisation` says how much there is of each part of a memory.

/// `DramOrganisation` says how much there is of each part. All numbers are powers of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DramOrganisation {
    /// Channels, each with a controller and a bus of its own.
    pub channels: u32,
    /// Ranks in a channel.
    pub ranks: u32,
    /// Bank groups in a rank; 1 without bank groups.
    pub bank_groups: u32,
    /// Banks in a bank group.
    pub banks: u32,
    /// Rows in a bank.
    pub rows: u32,
    /// Lines of 64 bytes in a row, over all chips of the rank.
    pub lines: u32,
}

impl DramOrganisation {
    /// The bytes of a line.
    pub const LINE: u64 = 64;

    /// Returns the bytes of the whole memory.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        let banks = self.channels as u64 * self.ranks as u64 * self.bank_groups as u64 * self.banks as u64;
        banks * self.rows as u64 * self.lines as u64 * Self::LINE
    }

    /// Returns the banks of a rank.
    #[must_use]
    pub const fn banks_of_rank(&self) -> u32 {
        self.bank_groups * self.banks
    }

    /// Returns each part with its name and number.
    #[must_use]
    pub const fn parts(&self) -> [(&'static str, u32); 6] {
        [
            ("channels", self.channels),
            ("ranks", self.ranks),
            ("bank-groups", self.bank_groups),
            ("banks", self.banks),
            ("rows", self.rows),
            ("lines", self.lines),
        ]
    }
}
