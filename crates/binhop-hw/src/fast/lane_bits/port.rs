//! `Port` says which cache of level 1 serves a kind of access, and makes the requests for backs that are not in bits.

use binhop_base::{Agent, Kind, LineAddr};

use super::{LinesOf, Mask, WrittenBack};
use crate::{Origin, Request};

/// `Port` says which cache serves a kind of access, and what this cache asks of the level behind it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Port {
    pub(super) lines_of: LinesOf,
    /// The cache, among the caches of level 1.
    pub(super) front: usize,
    /// True if a victim is written back before the new line is read.
    pub(super) writes_first: bool,
    /// The level that is asked, and the logarithm of the bytes of the lines that it is asked for.
    pub(super) to: u8,
    pub(super) unit: u32,
}

impl Port {
    fn request(self, key: u64, kind: Kind) -> Request {
        let line = self.lines_of.line(key) >> (self.unit - self.lines_of.line_log2);
        Request {
            at: LineAddr { id: self.lines_of.page(key).0, line: line as u32 },
            to: self.to,
            kind,
            origin: Origin::new(Agent::User, self.unit as u8),
            data: self.lines_of.line_log2 as u8,
        }
    }
}

/// Appends the requests of an access to the requests of each lane that makes them: a read, and the lines that are
/// written back.
pub(super) fn send(
    requests: &mut [Vec<Request>],
    port: Port,
    (key, kind, missed): (u64, Kind, Mask),
    written_back: &[WrittenBack],
) {
    let mut to_lanes = |request: Request, mut lanes: Mask| {
        while lanes != 0 {
            requests[lanes.trailing_zeros() as usize].push(request);
            lanes &= lanes - 1;
        }
    };
    let read = port.request(key, kind);
    if !port.writes_first {
        to_lanes(read, missed);
    }
    for &(key, lanes) in written_back {
        to_lanes(port.request(key, Kind::Writeback), lanes);
    }
    if port.writes_first {
        to_lanes(read, missed);
    }
}
