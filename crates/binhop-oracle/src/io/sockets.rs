//! This part of the slow path serves calls on sockets, and the packets that arrive and leave.

use std::collections::BTreeSet;

use super::queues::Byte;
use super::rings::{Data, RECEIVE, SEND};
use super::{IoEvent, IoPlace, Server};

/// A packet that waits: its request, its slots, what it sends, its buffers.
pub(super) type Packet = (u64, Vec<u32>, Vec<Data>, Vec<u32>);

impl Server {
    /// Sends bytes of a page from where they lie, behind all packets that wait.
    pub(super) fn send_where_it_lies(&mut self, at: IoPlace, length: u64, of: Option<(u64, u64)>) {
        let made = self.events.len();
        while !self.sending.is_empty() {
            self.sends_began = self.now;
            self.send_first();
        }
        self.admit(made);
        if let IoPlace::File(file, byte) = at
            && self.position(file, byte / self.sizes.page).is_none()
        {
            self.bring_one(file, byte / self.sizes.page);
        }
        let made = self.events.len();
        let mut sent = 0;
        while sent < length {
            let mut done = Vec::new();
            for _ in 0..self.sizes.coalesce {
                let packet = (length - sent).min(self.sizes.packet);
                if packet > 0 {
                    let of = of.map(|(file, byte)| (file, byte + sent));
                    done.push(self.request(SEND, false, true, &[(at.behind(sent), packet, of)]));
                }
                sent += packet;
            }
            self.events.push(IoEvent::Interrupt(SEND));
            self.events.extend(done.into_iter().map(|slot| IoEvent::Driver(false, SEND, slot)));
        }
        self.admit(made);
    }

    /// Lets packets arrive.
    pub fn arrive(&mut self, socket: u64, bytes: u64) {
        let made = self.events.len();
        self.let_arrive(socket, bytes);
        self.admit(made);
    }

    fn let_arrive(&mut self, socket: u64, bytes: u64) {
        if bytes > 0 && self.posted.is_empty() {
            for slot in 0..self.sizes.ring {
                let buffer = self.take(0);
                self.posted.push(buffer);
                self.events.push(IoEvent::Driver(true, RECEIVE, slot));
            }
        }
        let mut left = bytes;
        while left > 0 {
            // The packets of this interrupt, which bring in what is left.
            let mut lengths = Vec::new();
            while lengths.len() < self.sizes.coalesce && left > 0 {
                let needed = left.min(self.sizes.packet);
                left -= needed;
                lengths.push(if self.sizes.backlog > 0 { self.sizes.packet } else { needed });
            }
            let packets = lengths.len();
            for &length in &lengths[self.waiting_packets().min(packets)..] {
                self.packet_arrives(length);
            }
            self.backlog_arrives();
            self.events.push(IoEvent::Interrupt(RECEIVE));
            for _ in 0..packets {
                let first = self.unseen[0].0;
                while self.unseen.first().is_some_and(|&(packet, ..)| packet == first) {
                    let (_, slot, length) = self.unseen.remove(0);
                    self.events.push(IoEvent::Driver(false, RECEIVE, slot));
                    let buffer = self.posted[slot as usize];
                    self.posted[slot as usize] = self.take(0);
                    self.events.push(IoEvent::Driver(true, RECEIVE, slot));
                    let run = self.new_run();
                    let byte = |byte| Byte { at: IoPlace::Packet(buffer, byte), run, grows: false };
                    self.sockets.entry(socket).or_default().extend((0..length).map(byte));
                }
            }
        }
        if bytes > 0 {
            self.backlog_arrives();
        }
    }

    /// Returns the number of packets in the receive ring that the driver has not seen.
    fn waiting_packets(&self) -> usize {
        self.unseen.iter().map(|&(packet, ..)| packet).collect::<BTreeSet<_>>().len()
    }

    fn backlog_arrives(&mut self) {
        while self.waiting_packets() < self.sizes.backlog {
            self.packet_arrives(self.sizes.packet);
        }
    }

    fn packet_arrives(&mut self, packet: u64) {
        let number = self.requests[RECEIVE as usize];
        let mut data = Vec::new();
        let mut rest = packet;
        let mut slot = self.slots[RECEIVE as usize];
        while rest > 0 {
            let length = rest.min(self.sizes.buffer);
            rest -= length;
            data.push((IoPlace::Packet(self.posted[slot as usize], 0), length, None));
            self.unseen.push((number, slot, length));
            slot = (slot + 1) % self.sizes.ring;
        }
        self.request(RECEIVE, true, false, &data);
    }

    /// Receives from a socket.
    pub fn receive(&mut self, socket: u64, bytes: u64, user: u64) {
        self.arrive_for(socket, bytes);
        let run = self.take_bytes(true, socket, bytes);
        self.drain(run, user);
    }

    pub(super) fn arrive_for(&mut self, socket: u64, bytes: u64) {
        let waiting = self.sockets.entry(socket).or_default().len() as u64;
        self.arrive(socket, bytes.saturating_sub(waiting));
    }

    /// Sends to the network.
    pub fn send(&mut self, bytes: u64, user: u64) {
        let made = self.events.len();
        self.let_send(bytes, user);
        self.admit(made);
    }

    fn let_send(&mut self, bytes: u64, user: u64) {
        if self.sizes.send_rate.is_some() {
            self.send_later(bytes, user);
            return;
        }
        let mut sent = 0;
        while sent < bytes {
            let mut done = Vec::new();
            for _ in 0..self.sizes.coalesce {
                let packet = (bytes - sent).min(self.sizes.packet);
                let mut data = Vec::new();
                let mut taken = Vec::new();
                let mut part = 0;
                while part < packet {
                    let length = (packet - part).min(self.sizes.buffer);
                    let buffer = self.take(0);
                    self.copy(IoPlace::Packet(buffer, 0), user + sent + part, length, true);
                    data.push((IoPlace::Packet(buffer, 0), length, None));
                    taken.push(buffer);
                    part += length;
                }
                if packet > 0 {
                    done.push((self.request(SEND, false, true, &data), taken));
                }
                sent += packet;
            }
            self.events.push(IoEvent::Interrupt(SEND));
            for (slot, taken) in done {
                self.events.push(IoEvent::Driver(false, SEND, slot));
                self.free[0].extend(taken);
            }
        }
    }

    /// Puts packets into the send ring.
    fn send_later(&mut self, bytes: u64, user: u64) {
        // The first byte of each packet, and the byte behind its last byte.
        let firsts = (0..bytes).step_by(self.sizes.packet as usize);
        let all: Vec<(u64, u64)> =
            firsts.map(|first| (first, bytes.min(first + self.sizes.packet))).collect();
        for together in all.chunks(self.sizes.coalesce) {
            let needed: usize =
                together.iter().map(|&(first, end)| (end - first).div_ceil(self.sizes.buffer) as usize).sum();
            let taken = |server: &Self| -> usize {
                server.sending.iter().flatten().map(|packet| packet.1.len()).sum()
            };
            while taken(self) + needed > self.sizes.ring as usize {
                self.sends_began = self.now;
                self.send_first();
            }
            let mut packets: Vec<Packet> = Vec::new();
            for &(first, end) in together {
                let (mut data, mut buffers, mut slots) = (Vec::new(), Vec::new(), Vec::new());
                for part in (first..end).step_by(self.sizes.buffer as usize) {
                    let length = (end - part).min(self.sizes.buffer);
                    let buffer = self.take(0);
                    self.copy(IoPlace::Packet(buffer, 0), user + part, length, true);
                    data.push((IoPlace::Packet(buffer, 0), length, None));
                    buffers.push(buffer);
                    slots.push(self.slots[SEND as usize]);
                    self.slots[SEND as usize] = (self.slots[SEND as usize] + 1) % self.sizes.ring;
                }
                self.events.extend(slots.iter().map(|&slot| IoEvent::Driver(true, SEND, slot)));
                packets.push((self.requests[SEND as usize], slots, data, buffers));
                self.requests[SEND as usize] += 1;
            }
            if self.sending.is_empty() {
                self.sends_began = self.now;
            }
            self.sending.push(packets);
        }
    }

    /// Lets the card send the packets up to the next interrupt.
    pub(super) fn send_first(&mut self) {
        let packets = self.sending.remove(0);
        for (number, slots, data, _) in &packets {
            self.serve_request(SEND, *number, false, slots, data);
        }
        self.events.push(IoEvent::Interrupt(SEND));
        for (_, slots, _, buffers) in packets {
            self.events.push(IoEvent::Driver(false, SEND, slots[slots.len() - 1]));
            self.free[0].extend(buffers);
        }
    }

    /// Closes a socket.
    pub fn close_socket(&mut self, socket: u64) {
        let all: Vec<Byte> = self.sockets.remove(&socket).unwrap_or_default().into();
        self.free_in_order(&all);
    }
}
