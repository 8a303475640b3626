//! `SchemeKind` is the one list of the schemes. The parser, the help, the documentation and the tests walk it.

use binhop_base::{Problem, Result};

use crate::choice::choices;

choices! {
    /// `SchemeKind` says what a machine does with device data.
    SchemeKind {
        Off = "off", "Device data are only in memory; a reference of a device invalidates the line in the last-level cache, which writes it back first if it is dirty.";
        SnoopingCache = "snooping-cache", "Device data are only in memory; a write of a device invalidates the line in the last-level cache, and a read makes it write a dirty line back (the baseline).";
        SharedCache = "shared-cache", "References of devices are served by the last-level cache like the processor's, and bring lines into it.";
        PrefetchHint = "prefetch-hint", "Device data are written to memory, and then prefetched into the last-level cache.";
        Ddc = "ddc", "Device data have a DMA cache of their own beside the last-level cache.";
        Pbdc = "pbdc", "Some ways of the last-level cache serve as the DMA cache.";
        Ddio = "ddio", "Writes of devices update lines of the last-level cache in place, and bring other lines into a few of its ways.";
        Flush = "flush", "The pages of a device's transfer are flushed from every cache, and withheld until the transfer ends; device data are only in memory. Only for caches with virtual tags, which have no other scheme.";
    }
}

impl SchemeKind {
    /// Returns the scheme with a name that a user wrote. `place` names the place of the text, for the error.
    ///
    /// # Errors
    /// No scheme has this name.
    pub fn parse(text: &str, place: &str) -> Result<Self> {
        Self::from_name(text).ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|kind| kind.name()).collect();
            let remedy = format!("write one of: {}", names.join(", "));
            Problem::request(text, place, "must be the name of a scheme for device data", &remedy)
        })
    }

    /// Returns whether the scheme is one of caches with virtual tags. The other schemes find the lines of a device's
    /// physical address in the caches, which needs physical tags.
    #[must_use]
    pub const fn is_for_virtual_tags(self) -> bool {
        matches!(self, Self::Flush)
    }

    /// Returns whether the scheme has a choice between write-back and write-through of device data.
    #[must_use]
    pub const fn has_write_policy(self) -> bool {
        matches!(self, Self::SharedCache | Self::Ddc | Self::Pbdc)
    }
}
