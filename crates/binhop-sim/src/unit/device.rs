//! `DeviceUnit` reads and writes memory for devices, behind the processor's back.
//!
//! # Rules
//! - Before a device reads, every cache passes its dirty copies of the bytes down, and keeps them clean.
//! - Before a device writes, every cache gives up its copies. A dirty line that the device overwrites as a whole is
//!   discarded; a dirty line of which other bytes remain is written back first.
//! - The transfer itself is one access to memory for each line that it touches, in the longest lines of the machine's
//!   caches. The processor does not wait.
//!
//! These rules hold above every scheme for device data; the schemes themselves stand in [`binhop_hw::Scheme`].

use std::sync::Arc;

use binhop_base::{Agent, Kind, Result};
use binhop_hw::DirtyData;

use super::{Injector, Unit, Units};
use crate::machine::Machine;
use crate::occasion::{Occasion, OccasionKind, Subscription, TouchedLines};

/// `DeviceUnit` is the devices of one lane.
struct DeviceUnit {
    /// Logarithm of the bytes that one access to memory moves.
    unit: u8,
}

/// Makes the unit that acts as the devices of any machine.
pub(crate) fn device_units() -> Units {
    let subscription =
        Subscription::new(0, &[Agent::Device]).at(OccasionKind::Device, TouchedLines::EVERYTHING);
    let make = |machine: &Machine, _| -> Box<dyn Unit> {
        let lines = machine.tree().config().caches.iter().map(|cache| cache.line.log2());
        Box::new(DeviceUnit { unit: lines.max().expect("a machine has a cache") as u8 })
    };
    Units::new(subscription, Arc::new(make))
}

impl Unit for DeviceUnit {
    fn act(&mut self, occasion: &Occasion, injector: &mut Injector<'_>) -> Result<()> {
        let Occasion::Device { writes, mapping, offset, bytes, .. } = *occasion else {
            unreachable!("devices act at their own requests")
        };
        let (data, kind) =
            if writes { (DirtyData::Discard, Kind::Write) } else { (DirtyData::Clean, Kind::Load) };
        injector.invalidate(Agent::Device, mapping, offset..offset + bytes, data)?;
        for line in offset >> self.unit..=(offset + bytes - 1) >> self.unit {
            injector.ask_memory(Agent::Device, kind, mapping, line << self.unit, self.unit)?;
        }
        Ok(())
    }
}
