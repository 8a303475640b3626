//! `dram` declares the keys of the section `[dram]`: memory with a controller behind schemes for device data.

use binhop_base::{Picoseconds, Problem, Result};
use binhop_hw::{AddressMapping, DRAM_PRESETS, DramConfig, DramPreset, PagePolicy};

use super::document::{Located, Value, unknown};
use super::forms::{UpTo, choice};
use super::keys::{At, Form, Key, keys};

choice!(PagePolicy);

keys! {
    /// The keys of `[dram]`.
    DramKeys of "dram" {
        preset: At<String> = "preset", form "\"ddr2-666\", \"ddr4-2400\", \"ddr4-3200\", \"ddr5-4800\" or \"off\"",
            "the memory: its parts and its timing; off: memory has a fixed latency";
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
        organisation: binhop_hw::DramOrganisation { channels: keys.channels.0, ..preset.organisation },
        timing: preset.timing,
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
        None => (preset.timing.cycle_ps + processor / 2) / processor,
    };
    Ok(Some(DramSetup { config, ratio: ratio.max(1) }))
}
