//! `DramTiming` holds the distances that commands keep, in cycles of the memory's clock. The names are those of JEDEC
//! (JESD79-2, JESD79-4, JESD79-5).

use binhop_base::{Problem, Result};

/// `DramTiming` holds the distances between commands, in cycles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DramTiming {
    /// The picoseconds of a cycle.
    pub cycle_ps: u64,
    /// CL: from a read to its data.
    pub cl: u64,
    /// CWL: from a write to its data.
    pub cwl: u64,
    /// The cycles that a line occupies the data bus.
    pub burst: u64,
    /// tRCD: from an activate to a read or write of the bank.
    pub rcd: u64,
    /// tRP: from a precharge to an activate of the bank.
    pub rp: u64,
    /// tRAS: from an activate to a precharge of the bank.
    pub ras: u64,
    /// tRC: from an activate to the next one of the bank.
    pub rc: u64,
    /// tRRD_S: between activates of different bank groups of a rank.
    pub rrd_s: u64,
    /// tRRD_L: between activates of one bank group.
    pub rrd_l: u64,
    /// tFAW: the time in which a rank takes four activates at most.
    pub faw: u64,
    /// tCCD_S: between reads, or between writes, of different bank groups of a rank.
    pub ccd_s: u64,
    /// tCCD_L: between reads of one bank group.
    pub ccd_l: u64,
    /// tCCD_L of writes (DDR5: tCCD_L_WR2): between writes of one bank group.
    pub ccd_l_write: u64,
    /// tRTP: from a read to a precharge of the bank.
    pub rtp: u64,
    /// tWR: from the end of written data to a precharge of the bank.
    pub wr: u64,
    /// tWTR_S: from the end of written data to a read of another bank group of the rank.
    pub wtr_s: u64,
    /// tWTR_L: from the end of written data to a read of the bank group.
    pub wtr_l: u64,
    /// The cycles between data of different ranks, or of different directions.
    pub turn: u64,
    /// tREFI: between refreshes of a rank.
    pub refi: u64,
    /// tRFC: from a refresh to the next command of the rank.
    pub rfc: u64,
}

impl DramTiming {
    /// Returns each distance with its name, and the picoseconds of a cycle first.
    #[must_use]
    pub const fn parts(&self) -> [(&'static str, u64); 21] {
        [
            ("cycle-ps", self.cycle_ps),
            ("cl", self.cl),
            ("cwl", self.cwl),
            ("burst", self.burst),
            ("rcd", self.rcd),
            ("rp", self.rp),
            ("ras", self.ras),
            ("rc", self.rc),
            ("rrd-s", self.rrd_s),
            ("rrd-l", self.rrd_l),
            ("faw", self.faw),
            ("ccd-s", self.ccd_s),
            ("ccd-l", self.ccd_l),
            ("ccd-l-write", self.ccd_l_write),
            ("rtp", self.rtp),
            ("wr", self.wr),
            ("wtr-s", self.wtr_s),
            ("wtr-l", self.wtr_l),
            ("turn", self.turn),
            ("refi", self.refi),
            ("rfc", self.rfc),
        ]
    }

    /// The longest distance, in cycles, and the longest cycle, in picoseconds. No memory comes near it, and sums of
    /// distances stay far from the last cycle that the controller counts.
    pub const MOST: u64 = 1_000_000;

    /// Checks that the distances are those of a memory, and agree with each other.
    ///
    /// # Errors
    /// A distance is too long, or contradicts another: the problem names the rule.
    pub fn check(&self) -> Result<()> {
        if let Some((key, value)) = self.parts().into_iter().find(|&(_, value)| value > Self::MOST) {
            let (rule, remedy) = if key == "cycle-ps" {
                (
                    format!("a cycle has at most {} picoseconds", Self::MOST),
                    "give the period of the memory's clock in picoseconds: 3000 at 333 MHz",
                )
            } else {
                (
                    format!("a distance has at most {} cycles", Self::MOST),
                    "give it in cycles of the memory's clock, as the data sheet does",
                )
            };
            return Err(Problem::request(&value.to_string(), &format!("dram.{key}"), &rule, remedy));
        }
        let refuse = |key: &str, value: u64, rule: &str, least: u64| {
            // A distance of 1 is asked for whatever the others are.
            let others = if least > 1 { ", or the others smaller" } else { "" };
            let remedy = format!("make it {least} at least{others}");
            Err(Problem::request(&value.to_string(), &format!("dram.{key}"), rule, &remedy))
        };
        let rules = [
            ("cycle-ps", self.cycle_ps, 1, "a cycle takes time"),
            ("burst", self.burst, 1, "a line occupies the bus for a cycle at least"),
            ("cl", self.cl, 1, "data come a cycle after their read at the earliest"),
            ("cwl", self.cwl, 1, "data are written a cycle after their write at the earliest"),
            ("rcd", self.rcd, 1, "a row is open a cycle after its activate at the earliest"),
            ("rp", self.rp, 1, "a row is closed a cycle after its precharge at the earliest"),
            ("ras", self.ras, self.rcd, "tRAS is tRCD at least, so that an open row can be used"),
            ("rc", self.rc, self.ras + self.rp, "tRC is tRAS + tRP at least"),
            ("rrd-l", self.rrd_l, self.rrd_s, "tRRD_L is tRRD_S at least"),
            ("faw", self.faw, 4 * self.rrd_s, "tFAW is 4 tRRD_S at least: it spans four activates"),
            (
                "ccd-s",
                self.ccd_s,
                self.burst,
                "tCCD_S is a burst at least, because the bus carries one line at a time",
            ),
            ("ccd-l", self.ccd_l, self.ccd_s, "tCCD_L is tCCD_S at least"),
            ("ccd-l-write", self.ccd_l_write, self.ccd_s, "tCCD_L of writes is tCCD_S at least"),
            ("wtr-l", self.wtr_l, self.wtr_s, "tWTR_L is tWTR_S at least"),
            ("rfc", self.rfc, self.rp, "tRFC is tRP at least"),
            (
                "refi",
                self.refi,
                2 * (self.rfc + self.rc),
                "tREFI leaves as much time as a refresh and a row's cycle take",
            ),
        ];
        for (key, value, least, rule) in rules {
            if value < least {
                return refuse(key, value, rule, least);
            }
        }
        Ok(())
    }
}
