//! Device data below the caches: what passes there ([`FrontEvent`]).

mod front_event;

pub use front_event::{DeviceRequest, FrontEvent};
