//! `DRAM_PRESETS` lists memories with the figures of a datasheet.
//!
//! Figures in nanoseconds are rounded up to cycles. Each preset is one channel of 64 bits (DDR5: one channel of 32 bits) with
//! chips of 8 bits.

use super::{DramOrganisation, DramTiming};

/// `DramPreset` is a memory with a name.
#[derive(Clone, Copy, Debug)]
pub struct DramPreset {
    /// The name.
    pub name: &'static str,
    /// The part that the figures are from.
    pub source: &'static str,
    /// The parts.
    pub organisation: DramOrganisation,
    /// The distances between commands.
    pub timing: DramTiming,
}

impl DramPreset {
    /// Returns the preset of a name.
    #[must_use]
    pub fn of(name: &str) -> Option<&'static Self> {
        DRAM_PRESETS.iter().find(|preset| preset.name == name)
    }
}

/// Every preset.
pub const DRAM_PRESETS: &[DramPreset] = &[
    DramPreset {
        name: "ddr2-666",
        source: "Micron MT47H128M8-3 (1 Gb, 8 banks, DDR2-667, 5-5-5), at TB10's 333 MHz",
        organisation: DramOrganisation {
            channels: 1,
            ranks: 2,
            bank_groups: 1,
            banks: 8,
            rows: 1 << 14,
            lines: 128,
        },
        timing: DramTiming {
            cycle_ps: 3000,
            cl: 5,
            cwl: 4,
            burst: 4,
            rcd: 5,
            rp: 5,
            ras: 15,
            rc: 20,
            rrd_s: 3,
            rrd_l: 3,
            faw: 13,
            ccd_s: 4,
            ccd_l: 4,
            rtp: 3,
            wr: 5,
            wtr_s: 3,
            wtr_l: 3,
            turn: 2,
            refi: 2600,
            rfc: 43,
        },
    },
    DramPreset {
        name: "ddr4-2400",
        source: "Micron MT40A1G8-083E (8 Gb, DDR4-2400, 16-16-16)",
        organisation: DramOrganisation {
            channels: 1,
            ranks: 1,
            bank_groups: 4,
            banks: 4,
            rows: 1 << 16,
            lines: 128,
        },
        timing: DramTiming {
            cycle_ps: 833,
            cl: 16,
            cwl: 12,
            burst: 4,
            rcd: 16,
            rp: 16,
            ras: 39,
            rc: 55,
            rrd_s: 4,
            rrd_l: 6,
            faw: 26,
            ccd_s: 4,
            ccd_l: 6,
            rtp: 9,
            wr: 18,
            wtr_s: 3,
            wtr_l: 9,
            turn: 2,
            refi: 9363,
            rfc: 421,
        },
    },
    DramPreset {
        name: "ddr4-3200",
        source: "Micron MT40A1G8-062E (8 Gb, DDR4-3200, 22-22-22)",
        organisation: DramOrganisation {
            channels: 1,
            ranks: 1,
            bank_groups: 4,
            banks: 4,
            rows: 1 << 16,
            lines: 128,
        },
        timing: DramTiming {
            cycle_ps: 625,
            cl: 22,
            cwl: 16,
            burst: 4,
            rcd: 22,
            rp: 22,
            ras: 52,
            rc: 74,
            rrd_s: 4,
            rrd_l: 8,
            faw: 34,
            ccd_s: 4,
            ccd_l: 8,
            rtp: 12,
            wr: 24,
            wtr_s: 4,
            wtr_l: 12,
            turn: 2,
            refi: 12480,
            rfc: 560,
        },
    },
    DramPreset {
        name: "ddr5-4800",
        source: "Micron MT60B2G8-48B (16 Gb, DDR5-4800, 40-39-39)",
        organisation: DramOrganisation {
            channels: 1,
            ranks: 1,
            bank_groups: 8,
            banks: 4,
            rows: 1 << 16,
            lines: 64,
        },
        timing: DramTiming {
            cycle_ps: 416,
            cl: 40,
            cwl: 38,
            burst: 8,
            rcd: 39,
            rp: 39,
            ras: 77,
            rc: 116,
            rrd_s: 8,
            rrd_l: 12,
            faw: 32,
            ccd_s: 8,
            ccd_l: 12,
            rtp: 18,
            wr: 72,
            wtr_s: 6,
            wtr_l: 24,
            turn: 2,
            refi: 9360,
            rfc: 708,
        },
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_is_one_that_can_be_built() {
        for preset in DRAM_PRESETS {
            preset.timing.check().unwrap();
            assert!(preset.organisation.parts().iter().all(|(_, number)| number.is_power_of_two()));
            assert_eq!(DramPreset::of(preset.name).unwrap().source, preset.source);
        }
        assert_eq!(DramPreset::of("ddr2-666").unwrap().organisation.bytes(), 2 << 30);
        assert_eq!(DramPreset::of("ddr4-2400").unwrap().organisation.bytes(), 8 << 30);
    }

    #[test]
    fn distances_that_contradict_each_other_are_refused_with_their_rule() {
        let refuses = |change: fn(&mut DramTiming), place: &str| {
            let mut timing = DramPreset::of("ddr4-2400").unwrap().timing;
            change(&mut timing);
            let problem = timing.check().unwrap_err();
            assert_eq!(problem.place, place, "{problem}");
        };
        refuses(|timing| timing.rc = 54, "dram.rc");
        refuses(|timing| timing.ras = 15, "dram.ras");
        refuses(|timing| timing.ccd_s = 3, "dram.ccd-s");
        refuses(|timing| timing.faw = 15, "dram.faw");
        refuses(|timing| timing.wtr_l = 2, "dram.wtr-l");
        refuses(|timing| timing.refi = 900, "dram.refi");
        refuses(|timing| timing.cl = 0, "dram.cl");
    }
}
