//! `dram` declares the keys of the section `[dram]`: memory with a controller behind schemes for device data.

use binhop_base::{Picoseconds, Problem, Result};
use binhop_hw::{
    AddressMapping, DRAM_PRESETS, DramConfig, DramOrganisation, DramPreset, DramTiming, PagePolicy,
};

use super::document::{Located, Value, unknown};
use super::forms::{UpTo, choice};
use super::keys::{At, Form, Key, keys};

choice!(PagePolicy);

/// The form of a time. Sums of such times stay far from the last cycle that the controller counts.
type MemoryCycles<const LEAST: u32> = UpTo<{ DramTiming::MOST as u32 }, LEAST>;

keys! {
    /// The keys of `[dram]`.
    DramKeys of "dram" {
        preset: At<String> = "preset", form "\"ddr2-666\", \"ddr4-2400\", \"ddr4-3200\", \"ddr5-4800\" or \"off\"",
            "the memory: its parts and times, which the keys from ranks on change; off: a fixed latency, and no other key counts";
        channels: UpTo<64, 1> = "channels", absent "1", "the channels, each with a controller; a power of two";
        mapping: Option<At<String>> = "mapping", form "an order of channel, rank, group, bank, row and column",
            absent "row-rank-bank-group-column-channel",
            "the bits of an address that choose each part, highest first; +hash behind it hashes the bank";
        queue: UpTo<64, 1> = "queue", absent "32", "the requests that wait in each queue: of reads, and of writes";
        drain_high: Option<At<UpTo<64, 1>>> = "drain-high", absent "three quarters of the queue",
            "the waiting writes at which writes go first";
        drain_low: Option<At<UpTo<64>>> = "drain-low", absent "a quarter of the queue",
            "the waiting writes down to which writes go first";
        pages: PagePolicy = "pages", absent "open", "the rule that closes rows";
        ratio: Option<At<UpTo<1000, 1>>> = "ratio", absent "from cycle-time; without it, a processor of 2 GHz",
            "the cycles of the processor in a cycle of the memory";
        ranks: Option<At<UpTo<8, 1>>> = "ranks", absent "the preset's", "the ranks in a channel; a power of two";
        bank_groups: Option<At<UpTo<8, 1>>> = "bank-groups", absent "the preset's",
            "the bank groups in a rank; 1: no groups; a power of two";
        banks: Option<At<UpTo<64, 1>>> = "banks", absent "the preset's",
            "the banks in a bank group; a channel has at most 64 banks; a power of two";
        rows: Option<At<UpTo<16_777_216, 1>>> = "rows", absent "the preset's", "the rows in a bank; a power of two";
        lines: Option<At<UpTo<1024, 1>>> = "lines", absent "the preset's",
            "the 64-byte lines in a row; a power of two";
        cycle_ps: Option<At<MemoryCycles<1>>> = "cycle-ps", absent "the preset's",
            "a cycle of the memory's clock, in picoseconds; the times below are in these cycles";
        cl: Option<At<MemoryCycles<1>>> = "cl", absent "the preset's", "the time from a read to its data (CL)";
        cwl: Option<At<MemoryCycles<1>>> = "cwl", absent "the preset's", "the time from a write to its data (CWL)";
        burst: Option<At<MemoryCycles<1>>> = "burst", absent "the preset's", "the time of a line on the bus (BL / 2)";
        rcd: Option<At<MemoryCycles<1>>> = "rcd", absent "the preset's",
            "the least time from an activate to a transfer of the bank (tRCD)";
        rp: Option<At<MemoryCycles<1>>> = "rp", absent "the preset's",
            "the least time from a precharge to an activate of the bank (tRP)";
        ras: Option<At<MemoryCycles<0>>> = "ras", absent "the preset's",
            "the least time from an activate to a precharge of the bank (tRAS)";
        rc: Option<At<MemoryCycles<0>>> = "rc", absent "the preset's",
            "the least time from an activate to the next activate of the bank (tRC)";
        rrd_s: Option<At<MemoryCycles<0>>> = "rrd-s", absent "the preset's",
            "the least time between activates of different bank groups of a rank (tRRD_S)";
        rrd_l: Option<At<MemoryCycles<0>>> = "rrd-l", absent "the preset's",
            "the least time between activates of a bank group (tRRD_L)";
        faw: Option<At<MemoryCycles<0>>> = "faw", absent "the preset's",
            "the time in which a rank takes at most four activates (tFAW)";
        ccd_s: Option<At<MemoryCycles<0>>> = "ccd-s", absent "the preset's",
            "the least time between transfers of one direction in different bank groups of a rank (tCCD_S)";
        ccd_l: Option<At<MemoryCycles<0>>> = "ccd-l", absent "the preset's",
            "the least time between reads of a bank group (tCCD_L)";
        ccd_l_write: Option<At<MemoryCycles<0>>> = "ccd-l-write", absent "the preset's",
            "the least time between writes of a bank group (tCCD_L; in DDR5 tCCD_L_WR2)";
        rtp: Option<At<MemoryCycles<0>>> = "rtp", absent "the preset's",
            "the least time from a read to a precharge of the bank (tRTP)";
        wr: Option<At<MemoryCycles<0>>> = "wr", absent "the preset's",
            "the least time from the end of written data to a precharge of the bank (tWR)";
        wtr_s: Option<At<MemoryCycles<0>>> = "wtr-s", absent "the preset's",
            "the least time from the end of written data to a read of another bank group of the rank (tWTR_S)";
        wtr_l: Option<At<MemoryCycles<0>>> = "wtr-l", absent "the preset's",
            "the least time from the end of written data to a read of the bank group (tWTR_L)";
        turn: Option<At<MemoryCycles<0>>> = "turn", absent "the preset's",
            "the cycles between data of different ranks, or of different directions";
        refi: Option<At<MemoryCycles<0>>> = "refi", absent "the preset's", "the time between refreshes of a rank (tREFI)";
        rfc: Option<At<MemoryCycles<0>>> = "rfc", absent "the preset's",
            "the least time from a refresh to the next command of the rank (tRFC)";
    }
}

/// The length of a cycle of TB10's processor (Table 4), in picoseconds.
const PROCESSOR_CYCLE: u64 = 500;

/// `DramSetup` is a memory with its clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DramSetup {
    /// The memory and its controller.
    pub config: DramConfig,
    /// The cycles of the processor in a cycle of the memory.
    pub ratio: u64,
}

/// The key that stands for a section `[dram]` that is given without a machine.
const SECTION: Key = Key {
    section: "",
    name: "dram",
    form: DramKeys::form,
    default: "",
    meaning: "memory with a controller",
    keys: DramKeys::KEYS,
};

impl DramSetup {
    /// Reads the keys of a section `[dram]` outside a machine, each with its value as a user writes it. `place` is the
    /// name of the description in errors.
    ///
    /// # Errors
    /// A key or a value is refused as in a machine, or the memory is switched off.
    pub fn of_keys(keys: &[(String, String)], place: &str) -> Result<Self> {
        let entry = |(name, text): &(String, String)| {
            (name.clone(), Located { place: format!("{place}: {name}"), value: Value::typed(text) })
        };
        let value = Value::Table(keys.iter().map(entry).collect());
        let keys = DramKeys::read(Located { place: place.to_string(), value }, &SECTION)?;
        check_dram(&keys, None, place)?.ok_or_else(|| {
            let rule = "memory of fixed latency has no controller that serves requests";
            let names: Vec<&str> = DRAM_PRESETS.iter().map(|preset| preset.name).collect();
            Problem::request(OFF, &keys.preset.place, rule, &format!("take one of {}", names.join(", ")))
        })
    }
}

/// The preset of a machine whose memory has a fixed latency.
const OFF: &str = "off";

/// Returns the parts of the memory: each as its key states it, or as the preset has it.
fn organisation(keys: &DramKeys, preset: &DramOrganisation) -> DramOrganisation {
    fn part<const MOST: u32>(given: &Option<At<UpTo<MOST, 1>>>, preset: u32) -> u32 {
        given.as_ref().map_or(preset, |at| at.value.0)
    }
    DramOrganisation {
        channels: keys.channels.0,
        ranks: part(&keys.ranks, preset.ranks),
        bank_groups: part(&keys.bank_groups, preset.bank_groups),
        banks: part(&keys.banks, preset.banks),
        rows: part(&keys.rows, preset.rows),
        lines: part(&keys.lines, preset.lines),
    }
}

/// Returns the times of the memory: each as its key states it, or as the preset has it.
fn timing(keys: &DramKeys, preset: &DramTiming) -> DramTiming {
    fn time<const LEAST: u32>(given: &Option<At<MemoryCycles<LEAST>>>, preset: u64) -> u64 {
        given.as_ref().map_or(preset, |at| at.value.0.into())
    }
    DramTiming {
        cycle_ps: time(&keys.cycle_ps, preset.cycle_ps),
        cl: time(&keys.cl, preset.cl),
        cwl: time(&keys.cwl, preset.cwl),
        burst: time(&keys.burst, preset.burst),
        rcd: time(&keys.rcd, preset.rcd),
        rp: time(&keys.rp, preset.rp),
        ras: time(&keys.ras, preset.ras),
        rc: time(&keys.rc, preset.rc),
        rrd_s: time(&keys.rrd_s, preset.rrd_s),
        rrd_l: time(&keys.rrd_l, preset.rrd_l),
        faw: time(&keys.faw, preset.faw),
        ccd_s: time(&keys.ccd_s, preset.ccd_s),
        ccd_l: time(&keys.ccd_l, preset.ccd_l),
        ccd_l_write: time(&keys.ccd_l_write, preset.ccd_l_write),
        rtp: time(&keys.rtp, preset.rtp),
        wr: time(&keys.wr, preset.wr),
        wtr_s: time(&keys.wtr_s, preset.wtr_s),
        wtr_l: time(&keys.wtr_l, preset.wtr_l),
        turn: time(&keys.turn, preset.turn),
        refi: time(&keys.refi, preset.refi),
        rfc: time(&keys.rfc, preset.rfc),
    }
}

/// Checks the section of a machine at `machine`. Returns `None` if the section is switched off.
pub(super) fn check_dram(
    keys: &DramKeys,
    cycle_time: Option<Picoseconds>,
    machine: &str,
) -> Result<Option<DramSetup>> {
    if keys.preset.value == OFF {
        return Ok(None);
    }
    let Some(preset) = DramPreset::of(&keys.preset.value) else {
        let names = DRAM_PRESETS.iter().map(|preset| preset.name).chain([OFF]);
        return Err(unknown(&keys.preset.value, &keys.preset.place, "preset is one of", names));
    };
    let mapping = match &keys.mapping {
        Some(at) => AddressMapping::parse(&at.value, &at.place)?,
        None => AddressMapping::parse(AddressMapping::ROW_FIRST, machine)?,
    };
    let queue = keys.queue.0;
    let high = keys.drain_high.as_ref().map_or((queue * 3 / 4).max(1), |at| at.value.0);
    let low = keys.drain_low.as_ref().map_or((queue / 4).min(high.saturating_sub(1)), |at| at.value.0);
    let config = DramConfig {
        organisation: organisation(keys, &preset.organisation),
        timing: timing(keys, &preset.timing),
        mapping,
        queue,
        drain_high: high,
        drain_low: low,
        pages: keys.pages,
    };
    config.check().map_err(|mut problem| {
        problem.place = format!("{machine}: {}", problem.place);
        problem
    })?;
    let processor = cycle_time.map_or(PROCESSOR_CYCLE, |time| time.0).max(1);
    let ratio = match &keys.ratio {
        Some(at) => u64::from(at.value.0),
        None => (config.timing.cycle_ps + processor / 2) / processor,
    };
    Ok(Some(DramSetup { config, ratio: ratio.max(1) }))
}
