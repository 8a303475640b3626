//! `FrontEvent` is one event of what passes below the caches of a machine, devices included.

use binhop_hw::TapEvent;

/// `DeviceRequest` is a device's request: a run of lines that it reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceRequest {
    /// The number of the request, as the trace gives it, or in order of appearance.
    pub number: u64,
    /// The number of the device.
    pub device: u32,
    /// True if the device writes memory; false if it reads memory.
    pub writes: bool,
    /// The bytes of the request.
    pub bytes: u64,
}

/// `FrontEvent` is one event below the caches. Lines are numbers of physical lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrontEvent {
    /// A device begins a request. The events of its lines follow.
    Request(DeviceRequest),
    /// An event of one line.
    Line(TapEvent),
}
