//! `AddressMapping` finds channel, rank, bank, row and column of a line.

use binhop_base::{Problem, Result};

use super::DramOrganisation;

/// `DramAddress` is the place of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DramAddress {
    /// The channel.
    pub channel: u32,
    /// The rank in the channel.
    pub rank: u32,
    /// The bank group in the rank.
    pub bank_group: u32,
    /// The bank in its group.
    pub bank: u32,
    /// The row in the bank.
    pub row: u32,
    /// The line in the row.
    pub column: u32,
}

/// The parts, as a mapping names them.
const PARTS: [&str; 6] = ["channel", "rank", "group", "bank", "row", "column"];

/// `AddressMapping` is an order of the parts, from the highest bits of a line's number to the lowest. Lines beyond the
/// memory's end begin anew at its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressMapping {
    /// The places in `PARTS`, the lowest bits first.
    order: [u8; 6],
    /// True if the lowest bits of the row are folded into the bank and its group by exclusive or.
    hashed: bool,
}

impl AddressMapping {
    /// Rows, ranks, banks, groups, columns, channels: neighbouring lines share a row.
    pub const ROW_FIRST: &'static str = "row-rank-bank-group-column-channel";

    /// Reads an order, such as `row-rank-bank-group-column-channel`, with `+hash` behind it if the bank is hashed.
    ///
    /// # Errors
    /// The order does not name every part once. Then some bits of the address would choose nothing, or two things.
    pub fn parse(text: &str, place: &str) -> Result<Self> {
        let (order, hashed) = match text.strip_suffix("+hash") {
            Some(order) => (order, true),
            None => (text, false),
        };
        let refuse = |rule: &str| {
            let remedy = format!("write an order like {}", Self::ROW_FIRST);
            Err(Problem::request(text, place, rule, &remedy))
        };
        let mut found = Vec::new();
        for word in order.split('-') {
            let Some(part) = PARTS.iter().position(|part| *part == word) else {
                return refuse("a mapping is an order of channel, rank, group, bank, row and column");
            };
            if found.contains(&(part as u8)) {
                return refuse(
                    "a mapping names each part once, because a bit of the address chooses in one part",
                );
            }
            found.push(part as u8);
        }
        found.reverse();
        match <[u8; 6]>::try_from(found) {
            Ok(order) => Ok(Self { order, hashed }),
            Err(_) => refuse("a mapping names every part, so that it covers all bits of the address"),
        }
    }

    /// Returns the mapping as it is written.
    #[must_use]
    pub fn name(&self) -> String {
        let parts: Vec<&str> = self.order.iter().rev().map(|&part| PARTS[part as usize]).collect();
        format!("{}{}", parts.join("-"), if self.hashed { "+hash" } else { "" })
    }

    /// Returns the place of a line.
    #[must_use]
    #[inline]
    pub fn address(&self, line: u64, organisation: &DramOrganisation) -> DramAddress {
        let DramOrganisation { channels, ranks, bank_groups, banks, rows, lines } = *organisation;
        let sizes = [channels, ranks, bank_groups, banks, rows, lines];
        let mut found = [0; 6];
        let mut rest = line;
        for &part in &self.order {
            let log2 = sizes[part as usize].trailing_zeros();
            found[part as usize] = (rest & ((1 << log2) - 1)) as u32;
            rest >>= log2;
        }
        let [channel, rank, mut bank_group, mut bank, row, column] = found;
        if self.hashed {
            bank_group ^= row & (bank_groups - 1);
            bank ^= (row >> bank_groups.trailing_zeros()) & (banks - 1);
        }
        DramAddress { channel, rank, bank_group, bank, row, column }
    }
}

/// `BankLocator` finds channel, bank and row of a line, as a mapping does. It computes its shifts once.
#[derive(Clone, Copy, Debug)]
pub(super) struct BankLocator {
    /// Shift and mask of each part, in the order of `PARTS`.
    parts: [(u32, u32); 5],
    /// The bits of group and bank below the rank, and of the bank below the group.
    rank_shift: u32,
    group_shift: u32,
    /// The bits of the row that are folded into the group; the bits above them are folded into the bank.
    folded: (u32, u32, u32),
}

impl BankLocator {
    pub(super) fn new(mapping: &AddressMapping, organisation: &DramOrganisation) -> Self {
        let DramOrganisation { channels, ranks, bank_groups, banks, rows, lines } = *organisation;
        let sizes = [channels, ranks, bank_groups, banks, rows, lines];
        let (mut parts, mut shift) = ([(0, 0); 5], 0);
        for &part in &mapping.order {
            if let Some(of_part) = parts.get_mut(part as usize) {
                // A line has fewer than 63 bits, so all bits above them are 0.
                *of_part = (shift.min(u64::BITS - 1), sizes[part as usize] - 1);
            }
            shift += sizes[part as usize].trailing_zeros();
        }
        let (group_bits, bank_bits) = (bank_groups.trailing_zeros(), banks.trailing_zeros());
        let (groups, banks) = if mapping.hashed { (bank_groups - 1, banks - 1) } else { (0, 0) };
        Self {
            parts,
            rank_shift: group_bits + bank_bits,
            group_shift: bank_bits,
            folded: (groups, group_bits, banks),
        }
    }

    #[inline]
    fn part(&self, part: usize, line: u64) -> u32 {
        let (shift, mask) = self.parts[part];
        (line >> shift) as u32 & mask
    }

    /// Returns the channel of a line.
    #[inline]
    pub(super) fn channel(&self, line: u64) -> usize {
        self.part(0, line) as usize
    }

    /// Returns the bank of a line, counted through the ranks of its channel, and the row.
    #[inline]
    pub(super) fn bank_and_row(&self, line: u64) -> (u32, u32) {
        let row = self.part(4, line);
        let (groups, group_bits, banks) = self.folded;
        let group = self.part(2, line) ^ row & groups;
        let bank = self.part(3, line) ^ (row >> group_bits) & banks;
        (self.part(1, line) << self.rank_shift | group << self.group_shift | bank, row)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const SMALL: DramOrganisation =
        DramOrganisation { channels: 2, ranks: 2, bank_groups: 2, banks: 2, rows: 4, lines: 8 };

    #[test]
    fn every_line_has_a_place_of_its_own() {
        for text in ["row-rank-bank-group-column-channel", "channel-row-column-rank-group-bank+hash"] {
            let mapping = AddressMapping::parse(text, "dram.mapping").unwrap();
            assert_eq!(mapping.name(), text);
            let places: BTreeSet<_> = (0..512).map(|line| mapping.address(line, &SMALL)).collect();
            assert_eq!(places.len(), 512);
        }
        for text in ["row-rank-bank-group-column-channel", "channel-row-column-rank-group-bank+hash"] {
            let mapping = AddressMapping::parse(text, "dram.mapping").unwrap();
            let locator = BankLocator::new(&mapping, &SMALL);
            for line in 0..2048 {
                let at = mapping.address(line, &SMALL);
                let bank = (at.rank * SMALL.bank_groups + at.bank_group) * SMALL.banks + at.bank;
                assert_eq!(locator.channel(line), at.channel as usize);
                assert_eq!(locator.bank_and_row(line), (bank, at.row));
            }
        }
        let mapping = AddressMapping::parse(AddressMapping::ROW_FIRST, "").unwrap();
        let place = mapping.address(2 * 8 * 2 * 2 + 17, &SMALL);
        assert_eq!((place.channel, place.column, place.bank_group), (1, 0, 1));
        assert_eq!((place.bank, place.rank, place.row), (0, 1, 0));
    }

    #[test]
    fn an_order_that_does_not_cover_the_address_is_refused() {
        let refused = |text: &str| AddressMapping::parse(text, "dram.mapping").unwrap_err().rule;
        assert!(refused("row-rank-bank-group-column").contains("covers all bits"));
        assert!(refused("row-row-rank-bank-group-column-channel").contains("each part once"));
        assert!(refused("row-rank-bank-group-col-channel").contains("order of"));
    }
}
