//! `figures` lists the counts of device data under the names that results and documentation use.

use binhop_hw::{
    CounterInfo, DeviceDataCounters, DramCounters, DramUseCounters, FateCounters, LineCounters,
    ReferenceCounters, TapClass,
};

use super::{PlacementData, RequestKey};
use crate::results::MetricInfo;

/// `Figure` is a count of one placement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Figure {
    /// The name of the scheme in results; `None` for what the front lets through.
    pub scheme: Option<String>,
    /// The name of the metric.
    pub metric: String,
    /// The unit.
    pub unit: &'static str,
    /// The count.
    pub value: u64,
}

/// The metric of unread lines: the lines that no other fate counts. No counter declares this metric.
const UNREAD: (&str, &str, &str) = (
    "fate.unread",
    "lines",
    "Lines that nobody had read or written again when the trace ended, or when their frame changed hands.",
);
const CYCLES: (&str, &str, &str) = (
    "cycles",
    "cycles",
    "Cycles that all references took, each waiting for the one before of its agent: the processor's plus the devices'. With [dram], without what memory makes them wait.",
);

const DRAM_CYCLES: (&str, &str, &str) =
    ("dram.cycles", "memory cycles", "Cycles of the memory's clock until the last data were on the bus.");
const DRAM_REFERENCE_CYCLES: (&str, &str, &str) = (
    "dram.reference-cycles",
    "memory cycles",
    "Cycles of the memory's clock until the last reference of the processor or a device was complete, by whatever served it. To compare schemes, where one leaves memory idle before the trace ends.",
);

/// The counts of the references below the front, by class. The table says name, unit and meaning.
const CLASS_COUNTS: [(&str, &str, &str); 2] = [
    ("references", "references", "References of the class below the front, one per line."),
    ("sequential", "references", "References to the line behind the last line of the class."),
];

/// The counts of requests.
const REQUEST_COUNTS: [(&str, &str, &str); 4] = [
    ("requests", "requests", "Requests of the device in this direction."),
    ("bytes", "bytes", "Bytes of these requests."),
    ("references", "references", "References of these requests, one per line."),
    (
        "sequential",
        "references",
        "References to the line behind the line that the device last referenced in this direction.",
    ),
];

/// Returns the name of a device, which stands for its number in metrics. Requests for descriptors have another name
/// than requests for data.
#[must_use]
pub fn device_name(number: u32) -> String {
    match number {
        0 => "disk".to_owned(),
        1 => "network".to_owned(),
        2 => "disk-ring".to_owned(),
        3 => "network-ring".to_owned(),
        other => format!("device-{other}"),
    }
}

/// Returns the name of a direction: devices write or read memory.
#[must_use]
pub const fn direction_name(writes: bool) -> &'static str {
    if writes { "write" } else { "read" }
}

/// Returns the figures of a placement: of what the front lets through, then of each scheme.
#[must_use]
pub fn figures(data: &PlacementData) -> Vec<Figure> {
    let mut found = Vec::new();
    for &class in TapClass::ALL {
        let counts = data.characterisation.class(class);
        for ((name, unit, _), value) in CLASS_COUNTS.into_iter().zip([counts.references, counts.sequential]) {
            let metric = format!("front.{}.{name}", class.name());
            found.push(Figure { scheme: None, metric, unit, value });
        }
    }
    for (&RequestKey { device, writes }, counts) in data.characterisation.requests() {
        let values = [counts.requests, counts.bytes, counts.references, counts.sequential];
        for ((name, unit, _), value) in REQUEST_COUNTS.into_iter().zip(values) {
            let metric = format!("{}.{}.{name}", device_name(device), direction_name(writes));
            found.push(Figure { scheme: None, metric, unit, value });
        }
    }
    for scheme in &data.schemes {
        let mut push = |metric: String, unit, value| {
            found.push(Figure { scheme: Some(scheme.name.clone()), metric, unit, value });
        };
        for &class in TapClass::ALL {
            let put = |info: &CounterInfo, _, value| {
                push(format!("{}.{}", class.name(), info.name), info.unit, value);
            };
            scheme.counters[class].each(put);
        }
        let mut put = |info: &'static CounterInfo, _, value| push(info.name.to_owned(), info.unit, value);
        scheme.counters.device_data.each(&mut put);
        scheme.counters.fates.each(&mut put);
        push(UNREAD.0.to_owned(), UNREAD.1, scheme.counters.fates.unread());
        for (cache, counters) in [("last-level", scheme.last_level), ("dma-cache", scheme.dma_cache)] {
            if let Some(counters) = counters {
                counters.each(|info, _, value| push(format!("{cache}.{}", info.name), info.unit, value));
            }
        }
        if let Some(dram) = &scheme.dram {
            for (class, counters) in TapClass::ALL.iter().zip(&dram.classes) {
                counters.each(|info, _, value| {
                    push(format!("dram.{}.{}", class.name(), info.name), info.unit, value);
                });
            }
            dram.commands.each(|info, _, value| push(format!("dram.{}", info.name), info.unit, value));
            push(DRAM_CYCLES.0.to_owned(), DRAM_CYCLES.1, dram.cycles);
            push(DRAM_REFERENCE_CYCLES.0.to_owned(), DRAM_REFERENCE_CYCLES.1, dram.reference_cycles);
        }
        let cycles = scheme.counters.classes.iter().map(|class| class.cycles).sum();
        push(CYCLES.0.to_owned(), CYCLES.1, cycles);
    }
    found
}

/// Returns every metric of device data. CLASS stands for a class of references, DEVICE for a device, and CACHE for
/// `last-level` or `dma-cache`.
#[must_use]
pub fn device_data_metrics() -> Vec<MetricInfo> {
    let of = |prefix: &str, (name, unit, meaning): (&str, &'static str, &'static str)| MetricInfo {
        name: format!("{prefix}{name}"),
        unit,
        meaning,
    };
    let declared = |info: &CounterInfo| (info.name, info.unit, info.meaning);
    let mut metrics = Vec::new();
    metrics.extend(CLASS_COUNTS.map(|counts| of("front.CLASS.", counts)));
    metrics.extend(REQUEST_COUNTS.map(|counts| of("DEVICE.read|write.", counts)));
    metrics.extend(ReferenceCounters::LIST.iter().map(|info| of("CLASS.", declared(info))));
    metrics.extend(DeviceDataCounters::LIST.iter().map(|info| of("", declared(info))));
    metrics.extend(FateCounters::LIST.iter().map(|info| of("", declared(info))));
    metrics.push(of("", UNREAD));
    metrics.extend(LineCounters::LIST.iter().map(|info| of("CACHE.", declared(info))));
    metrics.push(of("", CYCLES));
    metrics.extend(DramUseCounters::LIST.iter().map(|info| of("dram.CLASS.", declared(info))));
    metrics.extend(DramCounters::LIST.iter().map(|info| of("dram.", declared(info))));
    metrics.push(of("", DRAM_CYCLES));
    metrics.push(of("", DRAM_REFERENCE_CYCLES));
    metrics
}
