//! `Ring` is a ring of descriptors, through which driver and device tell each other about requests (TB10 §2.1).
//! `Network` is the card with its two rings.

use alloc::{collections::VecDeque, vec, vec::Vec};
use core::num::NonZeroU64;

use binhop_base::VirtAddr;

use super::copies::{Side, copy, pieces};
use super::disk_queue::end_of;
use super::queues::{Buffers, Held, Queue, Waiting};
use super::{BufferPool, Emit, FileId, IoConfig, IoCounts, IoStep, Location, RingId};

/// The most descriptors that a device fetches at once: a line of 64 bytes holds four.
const DESCRIPTORS_OF_A_FETCH: u32 = 4;

/// `Data` is a piece of memory that a request transfers: its first byte, its length, and the file and byte of a file's
/// data.
pub(super) type Data = (Location, u64, Option<(FileId, u64)>);

/// `Ring` is a ring of descriptors, which are used in turn.
#[derive(Debug)]
pub(super) struct Ring {
    id: RingId,
    slots: u32,
    next: u32,
    /// The number of requests so far.
    requests: u64,
}

impl Ring {
    pub(super) const fn new(id: RingId, slots: u32) -> Self {
        Self { id, slots, next: 0, requests: 0 }
    }

    /// Makes a request to the disk, with a descriptor for each piece, and waits until it is done.
    pub(super) fn transfer(&mut self, writes: bool, data: Vec<Data>, counts: &mut IoCounts, emit: Emit<'_>) {
        let last = self.request(writes, true, &data, emit);
        counts.disk_requests += 1;
        counts.interrupts += 1;
        emit(IoStep::Interrupt(self.id));
        emit(IoStep::ReadDescriptor(self.id, last));
    }

    /// Makes a request up to the moment at which the device has marked it as done, and returns the slot of its last
    /// descriptor. `posts` says that the driver writes the descriptors now.
    fn request(&mut self, writes: bool, posts: bool, data: &[Data], emit: Emit<'_>) -> u32 {
        let request = self.number(data.to_vec());
        if posts {
            self.describe(&request, emit);
        }
        self.serve(writes, &request, emit)
    }

    /// Gives a request its number and its slots.
    fn number(&mut self, data: Vec<Data>) -> Request {
        let slots = data.iter().map(|_| self.take_slot()).collect();
        self.requests += 1;
        Request { number: self.requests - 1, slots, data }
    }

    /// Lets the driver write the descriptors of a request.
    fn describe(&self, request: &Request, emit: Emit<'_>) {
        request.slots.iter().for_each(|&slot| emit(IoStep::WriteDescriptor(self.id, slot)));
    }

    /// Lets the device serve a request, and returns the slot of its last descriptor.
    fn serve(&self, writes: bool, request: &Request, emit: Emit<'_>) -> u32 {
        let Request { number: request, slots, data } = request;
        let (ring, request) = (self.id, *request);
        for run in slots.chunk_by(|&before, &slot| before + 1 == slot && slot % DESCRIPTORS_OF_A_FETCH != 0) {
            let (at, bytes) = (Location::Descriptor(ring, run[0]), IoConfig::DESCRIPTOR * run.len() as u64);
            emit(IoStep::Transfer { ring, request, writes: false, at, bytes, of: None });
        }
        for &(at, bytes, of) in data {
            emit(IoStep::Transfer { ring, request, writes, at, bytes, of });
        }
        let last = *slots.last().expect("a request has data");
        let (at, bytes) = (Location::Descriptor(ring, last), IoConfig::DESCRIPTOR);
        emit(IoStep::Transfer { ring, request, writes: true, at, bytes, of: None });
        last
    }

    fn take_slot(&mut self) -> u32 {
        let slot = self.next;
        self.next = (slot + 1) % self.slots;
        slot
    }
}

/// `Request` is a request with a descriptor for each piece of memory.
#[derive(Debug)]
struct Request {
    number: u64,
    slots: Vec<u32>,
    data: Vec<Data>,
}

/// `Outgoing` holds the packets that are sent between two interrupts, each with its buffers.
#[derive(Debug, Default)]
struct Outgoing(Vec<(Request, Vec<u32>)>);

impl Outgoing {
    fn slots(&self) -> usize {
        self.0.iter().map(|(request, _)| request.slots.len()).sum()
    }

    fn bytes(&self) -> u64 {
        self.0.iter().flat_map(|(request, _)| &request.data).map(|&(_, bytes, _)| bytes).sum()
    }
}

/// `Arrived` is a packet in the receive ring: the slot and the bytes of each of its buffers.
type Arrived = Vec<(u32, u64)>;

/// `Network` is the network card: a ring for each direction, and the buffers of packets.
#[derive(Debug)]
pub(super) struct Network {
    receive: Ring,
    send: Ring,
    /// The buffer behind each slot of the receive ring. It is empty until the first packet arrives.
    posted: Vec<u32>,
    /// The packets that have arrived and that the driver has not seen, oldest first.
    arrived: VecDeque<Arrived>,
    /// The packets that wait for the card, oldest first.
    outgoing: VecDeque<Outgoing>,
    /// The time in instructions at which the card began with the oldest packets.
    begun: u64,
    pub(super) buffers: Buffers,
}

impl Network {
    pub(super) fn new(slots: u32) -> Self {
        Self {
            receive: Ring::new(RingId::Receive, slots),
            send: Ring::new(RingId::Send, slots),
            posted: Vec::new(),
            arrived: VecDeque::new(),
            outgoing: VecDeque::new(),
            begun: 0,
            buffers: Buffers::default(),
        }
    }

    /// Hands packets with `bytes` to a socket's queue. Packets that have not arrived arrive now, and then more
    /// packets, until the backlog waits in the ring again.
    pub(super) fn arrive(
        &mut self,
        bytes: u64,
        queue: &mut Queue,
        config: &IoConfig,
        counts: &mut IoCounts,
        emit: Emit<'_>,
    ) {
        if bytes == 0 {
            return;
        }
        if self.posted.is_empty() {
            for slot in 0..self.receive.slots {
                self.posted.push(self.buffers.take());
                emit(IoStep::WriteDescriptor(RingId::Receive, slot));
            }
        }
        let backlog = config.backlog as usize;
        let mut packets: Vec<u64> = pieces(0, bytes, config.packet).map(|(_, length)| length).collect();
        if backlog > 0 {
            packets.fill(config.packet);
        }
        for batch in packets.chunks(config.coalesce as usize) {
            // With a backlog, all packets have one length. Without a backlog, no packet has arrived before.
            while self.arrived.len() < batch.len() {
                let packet = batch[self.arrived.len()];
                self.fill(packet, config, counts, emit);
            }
            self.fill_backlog(config, counts, emit);
            counts.packets_received += batch.len() as u64;
            counts.interrupts += 1;
            emit(IoStep::Interrupt(RingId::Receive));
            for (slot, length) in self.arrived.drain(..batch.len()).flatten() {
                emit(IoStep::ReadDescriptor(RingId::Receive, slot));
                let fresh = self.buffers.take();
                let buffer = core::mem::replace(&mut self.posted[slot as usize], fresh);
                queue.append(Waiting::new(Held::Buffer(BufferPool::Packets, buffer), 0, length));
                emit(IoStep::WriteDescriptor(RingId::Receive, slot));
            }
        }
        self.fill_backlog(config, counts, emit);
    }

    /// Lets packets arrive until the backlog waits in the receive ring.
    fn fill_backlog(&mut self, config: &IoConfig, counts: &mut IoCounts, emit: Emit<'_>) {
        while self.arrived.len() < config.backlog as usize {
            self.fill(config.packet, config, counts, emit);
        }
    }

    /// Lets a packet arrive in the next slots of the receive ring.
    fn fill(&mut self, packet: u64, config: &IoConfig, counts: &mut IoCounts, emit: Emit<'_>) {
        counts.packets_arrived += 1;
        let first = self.receive.next;
        let mut data: Vec<Data> = vec![];
        let mut filled: Arrived = vec![];
        for (part, (_, length)) in pieces(0, packet, config.buffer).enumerate() {
            let slot = (first + part as u32) % self.receive.slots;
            let at = Location::Buffer(BufferPool::Packets, self.posted[slot as usize], 0);
            data.push((at, length, None));
            filled.push((slot, length));
        }
        self.receive.request(true, false, &data, emit);
        self.arrived.push_back(filled);
    }

    /// Returns the time at which the card has sent the oldest packets that wait.
    pub(super) fn due(&self, rate: NonZeroU64) -> Option<u64> {
        self.outgoing.front().map(|first| end_of(self.begun, first.bytes(), rate))
    }

    /// Returns the number of packets that wait to be sent.
    pub(super) fn waiting(&self) -> u64 {
        self.outgoing.iter().map(|sent| sent.0.len() as u64).sum()
    }

    /// Sends the oldest packets that wait, and begins with the next ones at the time `now`.
    pub(super) fn send_first(&mut self, now: u64, counts: &mut IoCounts, emit: Emit<'_>) {
        let Some(first) = self.outgoing.pop_front() else { return };
        self.begun = now;
        for (request, _) in &first.0 {
            self.send.serve(false, request, emit);
        }
        self.end_sending(first, counts, emit);
    }

    /// Lets the card interrupt, and frees the buffers of the packets that were sent.
    fn end_sending(&mut self, sent: Outgoing, counts: &mut IoCounts, emit: Emit<'_>) {
        counts.packets_sent += sent.0.len() as u64;
        counts.interrupts += 1;
        emit(IoStep::Interrupt(RingId::Send));
        for (request, taken) in sent.0 {
            let last = *request.slots.last().expect("a request has data");
            emit(IoStep::ReadDescriptor(RingId::Send, last));
            taken.into_iter().for_each(|buffer| self.buffers.free(buffer));
        }
    }

    /// Sends all packets that wait.
    pub(super) fn send_all(&mut self, now: u64, counts: &mut IoCounts, emit: Emit<'_>) {
        while !self.outgoing.is_empty() {
            self.send_first(now, counts, emit);
        }
    }

    /// Sends a piece of a page from where it lies. No other packet may wait.
    pub(super) fn send_in_place(
        &mut self,
        (at, bytes, of): Data,
        config: &IoConfig,
        counts: &mut IoCounts,
        emit: Emit<'_>,
    ) {
        debug_assert!(self.outgoing.is_empty(), "packets are sent in order");
        let packets: Vec<(u64, u64)> = pieces(0, bytes, config.packet).collect();
        for batch in packets.chunks(config.coalesce as usize) {
            let mut sent: Vec<u32> = vec![];
            for &(start, packet) in batch {
                let data = (at.behind(start), packet, of.map(|(file, byte)| (file, byte + start)));
                sent.push(self.send.request(false, true, &[data], emit));
            }
            counts.packets_sent += batch.len() as u64;
            counts.interrupts += 1;
            emit(IoStep::Interrupt(RingId::Send));
            for last in sent {
                emit(IoStep::ReadDescriptor(RingId::Send, last));
            }
        }
    }

    /// Sends `bytes` of the user's memory: at once, or at the rate of the card.
    pub(super) fn send(
        &mut self,
        (bytes, user): (u64, VirtAddr),
        now: u64,
        config: &IoConfig,
        counts: &mut IoCounts,
        emit: Emit<'_>,
    ) {
        let packets: Vec<(u64, u64)> = pieces(0, bytes, config.packet).collect();
        for batch in packets.chunks(config.coalesce as usize) {
            let needed: u64 = batch.iter().map(|&(_, packet)| packet.div_ceil(config.buffer)).sum();
            while self.outgoing.iter().map(Outgoing::slots).sum::<usize>() as u64 + needed
                > config.ring.into()
            {
                self.send_first(now, counts, emit);
            }
            let mut sent = Outgoing::default();
            for &(start, packet) in batch {
                let mut data: Vec<Data> = vec![];
                let mut taken: Vec<u32> = vec![];
                for (part, length) in pieces(0, packet, config.buffer) {
                    let buffer = self.buffers.take();
                    let at = Location::Buffer(BufferPool::Packets, buffer, 0);
                    let from = VirtAddr(user.0 + start + part);
                    copy(at, Side::To, from, length, config.page, emit);
                    data.push((at, length, None));
                    taken.push(buffer);
                }
                let request = self.send.number(data);
                self.send.describe(&request, emit);
                if config.send_rate.is_none() {
                    self.send.serve(false, &request, emit);
                }
                sent.0.push((request, taken));
            }
            if config.send_rate.is_none() {
                self.end_sending(sent, counts, emit);
                continue;
            }
            if self.outgoing.is_empty() {
                self.begun = now;
            }
            self.outgoing.push_back(sent);
        }
    }
}
