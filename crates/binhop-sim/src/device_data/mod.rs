//! `device_data` follows device data below a front: how they flow, where they die, and how each scheme serves them.
//!
//! [`compare_schemes`] is the entry. A front ([`Machine::front`](crate::Machine::front)) simulates the private caches
//! of a machine, once for each placement. What it lets through ([`FrontEvent`]) goes to one [`Characterisation`] and to
//! every scheme ([`SchemeSetup`]), each of which simulates the last level of its machine. Nothing flows back to the
//! front, so one front serves all schemes. [`dram_stream`] passes on the requests that the memory behind a scheme gets.
//!
//! The metrics are declared in `figures`, once for documentation and results.

mod characterisation;
mod compare;
mod dram_stream;
mod figures;
mod flow;
mod requests;
mod scheme_memory;

pub use crate::front_event::{DeviceRequest, FrontEvent};
pub use crate::machine::SchemeSetup;
pub use characterisation::{Characterisation, ClassCounts};
pub use compare::{ComparedSchemes, PlacementData, SchemeData, compare_schemes};
pub use dram_stream::dram_stream;
pub use figures::{Figure, device_data_metrics, device_name, direction_name, figures};
pub use flow::{DataFlow, FlowHistogram, FlowKey, FlowStream};
pub use requests::{RequestCounts, RequestKey};
pub use scheme_memory::DramData;
