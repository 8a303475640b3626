//! `RequestCounts` counts the requests of one device in one direction.
//!
//! A request may consist of several pieces of memory, each with a descriptor of its own. Pieces that follow each other
//! with one number are one request.

use std::collections::BTreeMap;

use super::DeviceRequest;

/// `RequestKey` names a device and a direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequestKey {
    /// The number of the device.
    pub device: u32,
    /// True if the device writes memory.
    pub writes: bool,
}

/// `RequestCounts` counts requests and their references.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestCounts {
    /// The requests.
    pub requests: u64,
    /// The bytes of all requests.
    pub bytes: u64,
    /// The references: one for each line.
    pub references: u64,
    /// The references to the line behind the line that the device has last referenced in this direction.
    pub sequential: u64,
    /// The sizes of the requests that are complete: see [`RequestCounts::sizes`].
    complete: BTreeMap<u32, u64>,
    /// The number and the bytes so far of the request that came last.
    open: Option<(u64, u64)>,
    last: Option<u64>,
}

impl RequestCounts {
    /// Returns the requests by size: the class of n has the requests of 2ⁿ bytes and more, and of less than 2ⁿ⁺¹.
    #[must_use]
    pub fn sizes(&self) -> BTreeMap<u32, u64> {
        let mut sizes = self.complete.clone();
        if let Some((_, bytes)) = self.open {
            *sizes.entry(class_of(bytes)).or_default() += 1;
        }
        sizes
    }
}

/// Returns the class of a size.
fn class_of(bytes: u64) -> u32 {
    bytes.max(1).ilog2()
}

/// `Requests` counts the requests of all devices.
#[derive(Clone, Debug, Default)]
pub(super) struct Requests {
    counts: BTreeMap<RequestKey, RequestCounts>,
}

impl Requests {
    pub(super) fn begin(&mut self, request: &DeviceRequest) {
        let key = RequestKey { device: request.device, writes: request.writes };
        let counts = self.counts.entry(key).or_default();
        counts.bytes += request.bytes;
        match &mut counts.open {
            Some((number, bytes)) if *number == request.number => *bytes += request.bytes,
            open => {
                counts.requests += 1;
                if let Some((_, bytes)) = open.replace((request.number, request.bytes)) {
                    *counts.complete.entry(class_of(bytes)).or_default() += 1;
                }
            }
        }
    }

    /// Takes in a reference of a request that has begun.
    pub(super) fn reference(&mut self, key: RequestKey, line: u64) {
        let counts = self.counts.get_mut(&key).expect("a request begins before its references");
        counts.references += 1;
        counts.sequential += u64::from(follows(counts.last, line));
        counts.last = Some(line);
    }

    pub(super) const fn counts(&self) -> &BTreeMap<RequestKey, RequestCounts> {
        &self.counts
    }
}

/// Returns whether a line is the line behind the last line (TB10 §2.2).
pub(super) fn follows(last: Option<u64>, line: u64) -> bool {
    last.is_some_and(|last| last.checked_add(1) == Some(line))
}
