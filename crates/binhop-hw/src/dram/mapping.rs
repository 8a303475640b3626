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
