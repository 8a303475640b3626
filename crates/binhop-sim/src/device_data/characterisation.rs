//! `Characterisation` describes the references below a front: their shares, requests and reuse distances (TB10 §2,
//! Tables 1 and 2, Figures 3 to 6 and 15).

use std::collections::BTreeMap;

use binhop_hw::{TapClass, TapEvent};

use super::flow::{FlowDistances, LineUser};
use super::requests::{Requests, follows};
use super::{DeviceRequest, FlowHistogram, FlowKey, FrontEvent, RequestCounts, RequestKey};

/// `ClassCounts` counts the references of one class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassCounts {
    /// The references: one for each line.
    pub references: u64,
    /// The references to the line behind the last line of the class.
    pub sequential: u64,
}

/// `Characterisation` holds what is known of the references below one front.
#[derive(Debug, Default)]
pub struct Characterisation {
    classes: [ClassCounts; TapClass::ALL.len()],
    last: [Option<u64>; TapClass::ALL.len()],
    requests: Requests,
    /// The request that is under way.
    under_way: Option<DeviceRequest>,
    distances: FlowDistances,
}

impl Characterisation {
    /// Takes in events, in order.
    pub fn add(&mut self, events: &[FrontEvent]) {
        for event in events {
            match event {
                FrontEvent::Request(request) => {
                    self.requests.begin(request);
                    self.under_way = Some(*request);
                }
                FrontEvent::Line(event) => self.add_line(event),
            }
        }
    }

    fn add_line(&mut self, event: &TapEvent) {
        let Some(class) = event.class() else { return };
        let line = event.line();
        let (counts, last) = (&mut self.classes[class as usize], &mut self.last[class as usize]);
        counts.references += 1;
        counts.sequential += u64::from(follows(*last, line));
        *last = Some(line);
        let device = self.under_way.map_or(0, |request| request.device);
        let user = match class {
            TapClass::CpuRead => LineUser::CpuReads,
            TapClass::CpuWrite => LineUser::CpuWrites,
            TapClass::DmaRead => LineUser::DeviceReads(device),
            TapClass::DmaWrite => LineUser::DeviceWrites(device),
        };
        if class.is_of_a_device() {
            self.requests.reference(RequestKey { device, writes: class == TapClass::DmaWrite }, line);
        }
        self.distances.reference(line, user);
    }

    /// Returns the counts of a class.
    #[must_use]
    pub const fn class(&self, class: TapClass) -> ClassCounts {
        self.classes[class as usize]
    }

    /// Returns the counts of requests.
    #[must_use]
    pub const fn requests(&self) -> &BTreeMap<RequestKey, RequestCounts> {
        self.requests.counts()
    }

    /// Returns the reuse distances of each flow.
    #[must_use]
    pub const fn distances(&self) -> &BTreeMap<FlowKey, FlowHistogram> {
        self.distances.histograms()
    }
}
