//! This file cuts copies between the kernel and the user at the ends of pages.

use alloc::vec::Vec;

use binhop_base::VirtAddr;

use super::{Emit, IoPath, IoStep, Location};

/// Returns the pieces of `bytes` from `start` that lie in one page each: the first byte and the length.
pub(super) fn pieces(start: u64, bytes: u64, page: u64) -> impl Iterator<Item = (u64, u64)> {
    let end = start.checked_add(bytes).filter(|&end| end <= IoPath::LARGEST);
    let end = end.expect("the caller refuses ranges that are too long");
    let mut next = start;
    core::iter::from_fn(move || {
        let first = next;
        next = end.min(first / page * page + page);
        (first < end).then_some((first, next - first))
    })
}

/// Returns the pieces of a copy between the user's memory from `user` on and another memory from its byte `start`
/// on. The pieces are cut at the pages of both memories. Each piece is its distance from the start of the copy and
/// its length.
pub(super) fn copy_pieces(user: VirtAddr, start: u64, bytes: u64, page: u64) -> Vec<(u64, u64)> {
    let mut cuts: Vec<u64> = pieces(start, bytes, page).map(|(first, _)| first - start).collect();
    cuts.extend(pieces(user.0, bytes, page).map(|(first, _)| first - user.0));
    cuts.sort_unstable();
    cuts.dedup();
    cuts.push(bytes);
    cuts.windows(2).map(|pair| (pair[0], pair[1] - pair[0])).collect()
}

/// `Side` says on which side of a copy the kernel's memory is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    From,
    To,
}

/// Copies between a piece of kernel memory that lies in one page and the user's memory, cut at the pages of both.
pub(super) fn copy(kernel: Location, side: Side, user: VirtAddr, bytes: u64, page: u64, emit: Emit<'_>) {
    for (start, length) in pieces(user.0, bytes, page) {
        let theirs = Location::User(VirtAddr(start));
        let ours = kernel.behind(start - user.0);
        let (from, to) = if side == Side::From { (ours, theirs) } else { (theirs, ours) };
        emit(IoStep::Copy { from, to, bytes: length });
    }
}

impl Location {
    /// Returns the byte that lies `bytes` behind this one.
    pub(super) fn behind(self, bytes: u64) -> Self {
        match self {
            Self::User(user) => Self::User(VirtAddr(user.0 + bytes)),
            Self::File(file, byte) => Self::File(file, byte + bytes),
            Self::Buffer(pool, number, byte) => Self::Buffer(pool, number, byte + bytes),
            Self::Descriptor(..) => unreachable!("descriptors are not copied"),
        }
    }
}
