//! `DeviceUnit` reads and writes memory for devices, behind the processor's back.
//!
//! # Rules
//! - Before a device reads, every cache passes its dirty copies of the bytes down, and keeps them clean.
//! - Before a device writes, every cache invalidates its copies. A dirty line that the device overwrites as a whole is
//!   discarded; a dirty line of which other bytes remain is written back first.
//! - Where a cache has virtual tags, a device does not find its lines there. So the page is flushed before the device
//!   reads or writes it: every line leaves every cache, and dirty lines are written back (JM97 §4.3). The page is
//!   withheld until the transfer ends: the flush and the transfer are one occasion, and no reference comes between
//!   them.
//! - A store of the processor that bypasses the caches flushes no page.
//! - The transfer itself is one access to memory for each line that it touches, in the longest lines of the machine's
//!   caches. The processor does not wait. Where other caches have shorter lines, the rest of the first and the last of
//!   these lines is cleaned, too, or written back and invalidated, so that no cache holds a part of a line of the
//!   transfer that memory does not have.
//!
//! These rules hold above every scheme for device data; the schemes themselves stand in [`binhop_hw::Scheme`].

use std::sync::Arc;

use binhop_base::{Agent, Kind, Result};
use binhop_hw::DirtyData;

use super::{Injector, Unit, Units};
use crate::io_path::NON_TEMPORAL;
use crate::machine::Machine;
use crate::occasion::{Occasion, OccasionKind, Subscription, TouchedLines};

/// `DeviceUnit` is the devices of one lane.
struct DeviceUnit {
    /// Logarithm of the bytes that one access to memory moves.
    unit: u8,
    /// True if a cache has lines that are shorter.
    has_parts: bool,
    /// True if a cache has virtual tags.
    flushes_pages: bool,
    page: u64,
}

/// Makes the unit that acts as the devices of any machine.
pub(crate) fn device_units() -> Units {
    let subscription =
        Subscription::new(0, &[Agent::Device]).at(OccasionKind::Device, TouchedLines::EVERYTHING);
    let make = |machine: &Machine, _| -> Box<dyn Unit> {
        let longest = machine.longest_line();
        Box::new(DeviceUnit {
            unit: longest.log2() as u8,
            has_parts: machine.tree().config().caches.iter().any(|cache| cache.line != longest),
            flushes_pages: machine.has_virtual_tags(),
            page: machine.memory().page.bytes(),
        })
    };
    Units::new(subscription, Arc::new(make))
}

impl Unit for DeviceUnit {
    fn act(&mut self, occasion: &Occasion, injector: &mut Injector<'_>) -> Result<()> {
        let Occasion::Device { device, writes, mapping, offset, bytes, .. } = *occasion else {
            unreachable!("devices act at their own requests")
        };
        let (data, kind) =
            if writes { (DirtyData::Discard, Kind::Write) } else { (DirtyData::Clean, Kind::Load) };
        if self.flushes_pages && device != NON_TEMPORAL {
            injector.invalidate(Agent::Device, mapping, 0..self.page, DirtyData::WriteBack)?;
        } else {
            let transfer = offset..offset + bytes;
            if self.has_parts {
                let mask = (1 << self.unit) - 1;
                let lines = offset & !mask..(((transfer.end - 1) | mask) + 1).min(self.page);
                let rest = if writes { DirtyData::WriteBack } else { DirtyData::Clean };
                for bytes in [lines.start..transfer.start, transfer.end..lines.end] {
                    if !bytes.is_empty() {
                        injector.invalidate(Agent::Device, mapping, bytes, rest)?;
                    }
                }
            }
            injector.invalidate(Agent::Device, mapping, transfer, data)?;
        }
        for line in offset >> self.unit..=(offset + bytes - 1) >> self.unit {
            injector.ask_memory(Agent::Device, kind, mapping, line << self.unit, self.unit)?;
        }
        Ok(())
    }
}
