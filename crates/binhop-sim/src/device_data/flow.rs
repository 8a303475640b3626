//! `DataFlow` says who produced the data of a reference and who consumes them, and `FlowDistances` counts the reuse
//! distances of each flow.
//!
//! # Rules (TB10 §2.2; ours where the document is silent)
//! - The reuse distance of a reference is the number of other lines referenced since the last reference to its line.
//! - The last reference to the line and this reference decide the flow. A device has written the line and the processor
//!   reads it: the flow is [`DataFlow::Dpcc`]. The processor has referenced the line and a device reads it:
//!   [`DataFlow::Cpdc`]. Every other reference of the processor has the flow [`DataFlow::Cpu`], also if a device has
//!   read the line last, and every other reference of a device has the flow [`DataFlow::Device`].
//! - *Together*, all references are one stream. *Separated*, references of devices and reads of I/O data by the
//!   processor are a stream, and all other references of the processor are a stream. A line becomes I/O data when a
//!   device writes it, and is I/O data until the processor writes it.
//! - A line that the front passes down because a device is about to read it counts as a write of the processor. So data
//!   that were still in the front have short distances.

use std::collections::BTreeMap;

use crate::reuse::ReuseStack;

/// `DataFlow` says who produced data and who consumes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DataFlow {
    /// A device produced the data, and the processor consumes them.
    Dpcc,
    /// The processor produced the data, and a device consumes them.
    Cpdc,
    /// The processor consumes data that no device has written since the last reference, or writes them.
    Cpu,
    /// A device reads what a device has referenced, or writes over any data.
    Device,
}

impl DataFlow {
    /// Every flow.
    pub const ALL: &'static [Self] = &[Self::Dpcc, Self::Cpdc, Self::Cpu, Self::Device];

    /// Returns the name of the flow.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Dpcc => "dpcc",
            Self::Cpdc => "cpdc",
            Self::Cpu => "cpu",
            Self::Device => "device",
        }
    }
}

/// `FlowStream` is the stream of references in which distances are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FlowStream {
    /// All references.
    Together,
    /// Either the references to I/O data and of devices, or the other references of the processor.
    Separated,
}

impl FlowStream {
    /// Returns the name of the stream.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Together => "together",
            Self::Separated => "separated",
        }
    }
}

/// `FlowKey` names a histogram of distances.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FlowKey {
    /// The stream.
    pub stream: FlowStream,
    /// The flow.
    pub flow: DataFlow,
    /// The number of the device that produced or consumed the data; `None` for [`DataFlow::Cpu`].
    pub device: Option<u32>,
}

/// The classes of a histogram: distance 0, and a class for each power of two below 2³².
const CLASSES: usize = 33;

/// `FlowHistogram` counts references by the class of their distance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowHistogram {
    first: u64,
    classes: [u64; CLASSES],
}

impl Default for FlowHistogram {
    fn default() -> Self {
        Self { first: 0, classes: [0; CLASSES] }
    }
}

impl FlowHistogram {
    /// Returns the number of references to lines that the stream had never referenced before.
    #[must_use]
    pub const fn first(&self) -> u64 {
        self.first
    }

    /// Returns the classes that are not empty: the least distance of the class, and its references. The class of
    /// distance d > 0 ends before 2d.
    pub fn classes(&self) -> impl Iterator<Item = (u64, u64)> {
        let least = |class: usize| if class == 0 { 0 } else { 1 << (class - 1) };
        let all = self.classes.iter().enumerate().map(move |(class, &count)| (least(class), count));
        all.filter(|&(_, count)| count > 0)
    }

    fn add(&mut self, distance: Option<u32>) {
        match distance {
            None => self.first += 1,
            Some(distance) => self.classes[(u32::BITS - distance.leading_zeros()) as usize] += 1,
        }
    }
}

/// `LineUser` is who references a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineUser {
    /// The processor reads.
    CpuReads,
    /// The processor writes.
    CpuWrites,
    /// A device reads. The number is the device's.
    DeviceReads(u32),
    /// A device writes. The number is the device's.
    DeviceWrites(u32),
}

/// `FlowDistances` measures the distances of all flows.
#[derive(Debug, Default)]
pub(super) struct FlowDistances {
    lines: LineNumbers,
    /// The last user of each line, and whether the line is I/O data.
    last: Vec<Option<(LineUser, bool)>>,
    together: ReuseStack,
    io: ReuseStack,
    cpu: ReuseStack,
    histograms: BTreeMap<FlowKey, FlowHistogram>,
}

impl FlowDistances {
    /// Takes in a reference to a line.
    pub(super) fn reference(&mut self, line: u64, user: LineUser) {
        let unit = self.lines.of(line);
        if unit as usize >= self.last.len() {
            self.last.resize((unit as usize + 1).next_power_of_two(), None);
        }
        let before = self.last[unit as usize];
        let was_io = before.is_some_and(|(_, is_io)| is_io);
        let (flow, device) = match (before.map(|(user, _)| user), user) {
            (Some(LineUser::DeviceWrites(device)), LineUser::CpuReads) => (DataFlow::Dpcc, Some(device)),
            (_, LineUser::CpuReads | LineUser::CpuWrites) => (DataFlow::Cpu, None),
            (Some(LineUser::CpuReads | LineUser::CpuWrites) | None, LineUser::DeviceReads(device)) => {
                (DataFlow::Cpdc, Some(device))
            }
            (_, LineUser::DeviceReads(device) | LineUser::DeviceWrites(device)) => {
                (DataFlow::Device, Some(device))
            }
        };
        let is_io = match user {
            LineUser::DeviceWrites(_) => true,
            LineUser::CpuWrites => false,
            LineUser::CpuReads | LineUser::DeviceReads(_) => was_io,
        };
        let in_io = is_io || matches!(user, LineUser::DeviceReads(_));
        let separated = if in_io { &mut self.io } else { &mut self.cpu };
        let distances = [
            (FlowStream::Together, self.together.touch(unit)),
            (FlowStream::Separated, separated.touch(unit)),
        ];
        for (stream, distance) in distances {
            self.histograms.entry(FlowKey { stream, flow, device }).or_default().add(distance);
        }
        self.last[unit as usize] = Some((user, is_io));
    }

    /// Returns the histograms.
    pub(super) const fn histograms(&self) -> &BTreeMap<FlowKey, FlowHistogram> {
        &self.histograms
    }
}

/// The lines of a chunk.
const CHUNK_LOG2: u32 = 6;
/// The chunks that are found in a flat array: the lower 16 GiB of memory with lines of 64 bytes.
const FLAT_CHUNKS: u64 = 1 << 22;
const ABSENT: u32 = u32::MAX;

/// `LineNumbers` gives physical lines small numbers. Lines of one chunk get neighbouring numbers.
#[derive(Debug, Default)]
struct LineNumbers {
    /// The number of each chunk.
    flat: Vec<u32>,
    /// The numbers of the chunks from [`FLAT_CHUNKS`] on.
    far: BTreeMap<u64, u32>,
    chunks: u32,
}

impl LineNumbers {
    fn of(&mut self, line: u64) -> u32 {
        let chunk = line >> CHUNK_LOG2;
        let number = if chunk < FLAT_CHUNKS {
            let chunk = chunk as usize;
            if chunk >= self.flat.len() {
                self.flat.resize((chunk + 1).next_power_of_two(), ABSENT);
            }
            &mut self.flat[chunk]
        } else {
            self.far.entry(chunk).or_insert(ABSENT)
        };
        if *number == ABSENT {
            *number = self.chunks;
            self.chunks += 1;
        }
        (*number << CHUNK_LOG2) | (line as u32 & ((1 << CHUNK_LOG2) - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_near_and_far_get_numbers_of_their_own() {
        let mut numbers = LineNumbers::default();
        let lines = [0, 1, 63, 64, 1 << 50, (1 << 50) + 1, FLAT_CHUNKS << CHUNK_LOG2];
        let given: Vec<u32> = lines.iter().map(|&line| numbers.of(line)).collect();
        assert_eq!(given, [0, 1, 63, 64, 128, 129, 192]);
        assert_eq!(numbers.of(63), 63);
    }
}
