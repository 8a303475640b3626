//! Rings of descriptors connect driver and device: through them the two tell each other about requests.

use super::{IoEvent, IoPlace, Server};

pub(super) const DISK: u8 = 0;
pub(super) const RECEIVE: u8 = 1;
pub(super) const SEND: u8 = 2;

/// A piece of memory that a request transfers: the first byte, the length, the file and its byte.
pub(super) type Data = (IoPlace, u64, Option<(u64, u64)>);

impl Server {
    pub(super) fn request(&mut self, ring: u8, writes: bool, posts: bool, data: &[Data]) -> u32 {
        let number = ring as usize;
        let first = self.slots[number];
        let slots: Vec<u32> = (0..data.len() as u32).map(|slot| (first + slot) % self.sizes.ring).collect();
        let last = slots[slots.len() - 1];
        self.slots[number] = (last + 1) % self.sizes.ring;
        let request = self.requests[number];
        self.requests[number] += 1;
        if posts {
            self.events.extend(slots.iter().map(|&slot| IoEvent::Driver(true, ring, slot)));
        }
        self.serve_request(ring, request, writes, &slots, data);
        last
    }

    /// Lets a device serve a request.
    pub(super) fn serve_request(
        &mut self,
        ring: u8,
        request: u64,
        writes: bool,
        slots: &[u32],
        data: &[Data],
    ) {
        let descriptor = |slot: u32, writes: bool, bytes: u64| IoEvent::Device {
            ring,
            request,
            writes,
            at: IoPlace::Descriptor(ring, slot),
            bytes,
            of: None,
        };
        // The device fetches neighbours within a line of four descriptors at once.
        let mut fetches: Vec<Vec<u32>> = Vec::new();
        for &slot in slots {
            match fetches.last_mut() {
                Some(fetch) if fetch[0] / 4 == slot / 4 && fetch[fetch.len() - 1] + 1 == slot => {
                    fetch.push(slot);
                }
                _ => fetches.push(vec![slot]),
            }
        }
        for fetch in fetches {
            self.events.push(descriptor(fetch[0], false, 16 * fetch.len() as u64));
        }
        for &(at, bytes, of) in data {
            self.events.push(IoEvent::Device { ring, request, writes, at, bytes, of });
        }
        self.events.push(descriptor(slots[slots.len() - 1], true, 16));
    }
}
