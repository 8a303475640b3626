//! `DRAM_PRESETS` lists memories with the figures of a datasheet.
//!
//! Each preset is one channel of 64 bits (DDR5: of 32 bits) with chips of 8 bits. A figure in nanoseconds becomes
//! cycles by the rule of its standard:
//! - DDR2 rounds up.
//! - DDR4 rounds up, but for a remainder of at most 0.026 cycles: 15 ns are 18.007 cycles of 833 ps, and count as 18.
//! - DDR5 takes 0.3% off, and rounds up: 295 ns are 709.1 cycles of 416 ps, and count as 708.
//!
//! tREFI is rounded down, because it is the longest time between refreshes. DDR5's 3.9 µs are cycles of the nominal
//! clock, 2,400 MHz, which is a little slower than one cycle in 416 ps.

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
        // Micron's sheet allows its part MT47H128M8-3 less: tRAS 40 ns and tRC 55 ns, 14 and 19 cycles.
        source: "JEDEC's DDR2-667D (JESD79-2, 5-5-5), with the parts of Micron's MT47H128M8 (1 Gb, 8 banks), at TB10's 333 MHz",
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
            ccd_l_write: 4,
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
            ccd_l_write: 6,
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
            ccd_l_write: 8,
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
            ccd_l_write: 24,
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

    /// A figure: its name, its picoseconds, and the least cycles that the standard allows.
    type Figure = (&'static str, u64, u64);

    const DDR2_666: &[Figure] = &[
        ("rcd", 15_000, 0),
        ("rp", 15_000, 0),
        ("ras", 45_000, 0),
        ("rc", 60_000, 0),
        ("rrd-s", 7_500, 0),
        ("rrd-l", 7_500, 0),
        ("faw", 37_500, 0),
        ("ccd-s", 0, 4),
        ("ccd-l", 0, 4),
        ("ccd-l-write", 0, 4),
        ("rtp", 7_500, 2),
        ("wr", 15_000, 0),
        ("wtr-s", 7_500, 2),
        ("wtr-l", 7_500, 2),
        ("rfc", 127_500, 0),
    ];

    const DDR4_2400: &[Figure] = &[
        ("rcd", 13_320, 0),
        ("rp", 13_320, 0),
        ("ras", 32_000, 0),
        ("rc", 45_320, 0),
        ("rrd-s", 3_300, 4),
        ("rrd-l", 4_900, 4),
        ("faw", 21_000, 20),
        ("ccd-s", 0, 4),
        ("ccd-l", 5_000, 5),
        ("ccd-l-write", 5_000, 5),
        ("rtp", 7_500, 4),
        ("wr", 15_000, 0),
        ("wtr-s", 2_500, 2),
        ("wtr-l", 7_500, 4),
        ("rfc", 350_000, 0),
    ];

    const DDR4_3200: &[Figure] = &[
        ("rcd", 13_750, 0),
        ("rp", 13_750, 0),
        ("ras", 32_000, 0),
        ("rc", 45_750, 0),
        ("rrd-s", 2_500, 4),
        ("rrd-l", 4_900, 4),
        ("faw", 21_000, 20),
        ("ccd-s", 0, 4),
        ("ccd-l", 5_000, 5),
        ("ccd-l-write", 5_000, 5),
        ("rtp", 7_500, 4),
        ("wr", 15_000, 0),
        ("wtr-s", 2_500, 2),
        ("wtr-l", 7_500, 4),
        ("rfc", 350_000, 0),
    ];

    const DDR5_4800: &[Figure] = &[
        ("rcd", 16_000, 0),
        ("rp", 16_000, 0),
        ("ras", 32_000, 0),
        ("rc", 48_000, 0),
        ("rrd-s", 0, 8),
        ("rrd-l", 5_000, 8),
        ("faw", 13_333, 32),
        ("ccd-s", 0, 8),
        ("ccd-l", 5_000, 8),
        ("ccd-l-write", 10_000, 16),
        ("rtp", 7_500, 12),
        ("wr", 30_000, 0),
        ("wtr-s", 2_500, 4),
        ("wtr-l", 10_000, 16),
        ("rfc", 295_000, 0),
    ];

    #[test]
    fn the_cycles_of_a_preset_are_the_times_of_its_standard() {
        let round_up = |time: u64, cycle: u64| time.div_ceil(cycle);
        let ddr4 = |time: u64, cycle: u64| (time * 1000 / cycle + 974) / 1000;
        let ddr5 = |time: u64, cycle: u64| if time == 0 { 0 } else { (time * 997 / cycle + 1000) / 1000 };
        type Rounding<'a> = &'a dyn Fn(u64, u64) -> u64;
        let all: [(&str, &[Figure], Rounding<'_>, u64); 4] = [
            ("ddr2-666", DDR2_666, &round_up, 7_800_000 / 3000),
            ("ddr4-2400", DDR4_2400, &ddr4, 7_800_000 / 833),
            ("ddr4-3200", DDR4_3200, &ddr4, 7_800_000 / 625),
            ("ddr5-4800", DDR5_4800, &ddr5, 3_900 * 24 / 10),
        ];
        assert_eq!(all.map(|of| of.0).to_vec(), DRAM_PRESETS.iter().map(|of| of.name).collect::<Vec<_>>());
        for (name, figures, rounded, refi) in all {
            let timing = DramPreset::of(name).unwrap().timing;
            let listed = timing.parts();
            for &(figure, time, least) in figures {
                let cycles = listed.iter().find(|part| part.0 == figure).unwrap().1;
                assert_eq!(cycles, rounded(time, timing.cycle_ps).max(least), "{name}: {figure}");
            }
            // The standard states the other distances in cycles.
            let others = ["cycle-ps", "cl", "cwl", "burst", "turn", "refi"];
            assert_eq!(figures.len() + others.len(), listed.len());
            assert_eq!(timing.refi, refi, "{name}: refi");
        }
    }

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
        refuses(|timing| timing.ccd_l_write = 3, "dram.ccd-l-write");
        refuses(|timing| timing.faw = 15, "dram.faw");
        refuses(|timing| timing.wtr_l = 2, "dram.wtr-l");
        refuses(|timing| timing.refi = 900, "dram.refi");
        refuses(|timing| timing.cl = 0, "dram.cl");
    }
}
