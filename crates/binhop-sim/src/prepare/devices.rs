//! This part of preparation takes in the requests of devices.
//!
//! # Rules
//! - A request names a segment and a byte in it, or a virtual address of the address space that runs
//!   ([`RUNNING_SPACE`]). A physical address is accepted only where physical = virtual.
//! - A virtual address lies in memory that somebody has mapped or referenced before. Where the address space has mapped
//!   nothing, every address is memory, and [`Seen::outside_of_devices`](super::Seen) counts the pages that a device is
//!   the first to reference. Every address is memory where physical = virtual, too.
//! - A request for a segment reaches it through a shared map that still leads there: a map of the kernel if there is
//!   one, or else a map of a process.
//! - A device that reads or writes a page references the page, as a load or a store of the processor does: the page
//!   is placed if it is not in memory, and it becomes the page used last.
//! - Each page of a request is an occasion of its own, in order of the request's bytes.

use std::collections::BTreeMap;

use binhop_base::{Asid, Kind, PageNo, Problem, Result, VirtAddr};
use binhop_os::MapFlags;
use binhop_trace::{EventBatch, Op};

use super::Prepare;
use crate::events::EventPlace;
use crate::io_path::{HALF, RUNNING_SPACE};
use crate::occasion::Occasion;

/// `SharedMap` is a shared map of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SharedMap {
    asid: Asid,
    start: u64,
    bytes: u64,
}

/// `MapList` lists where the trace has mapped segments. Maps that have ended may still stand in the list.
#[derive(Debug, Default)]
struct MapList(BTreeMap<(u64, u64), Vec<SharedMap>>);

impl MapList {
    /// Adds a map. It replaces a map of the same place, but no longer map: a page that is mapped again by itself may be
    /// the first page of a map whose other pages still stand.
    fn add(&mut self, (segment, first): (u64, u64), map: SharedMap) {
        let maps = self.0.entry((segment, first)).or_default();
        let is_other = |before: &SharedMap| (before.asid, before.start) != (map.asid, map.start);
        maps.retain(|before| is_other(before) || before.bytes > map.bytes);
        maps.push(map);
    }

    /// Returns the places at which a byte of a segment was mapped, in order of preference: first the map that begins
    /// nearest to the byte; among maps that begin at the same byte, the latest map first.
    fn places(&self, segment: u64, byte: u64) -> impl Iterator<Item = (Asid, VirtAddr)> {
        let before = self.0.range((segment, 0)..=(segment, byte)).rev();
        before.flat_map(move |(&(_, first), maps)| {
            let holds = move |map: &&SharedMap| byte - first < map.bytes;
            maps.iter().rev().filter(holds).map(move |map| (map.asid, VirtAddr(map.start + (byte - first))))
        })
    }
}

/// `SharedMaps` lists the maps in the kernel's half, and the maps of processes.
#[derive(Debug, Default)]
pub(super) struct SharedMaps {
    kernel: MapList,
    processes: MapList,
}

impl SharedMaps {
    /// Notes a map row of an address space.
    fn note(&mut self, asid: Asid, batch: &EventBatch, row: usize, trace_page: u64) {
        let Some(segment) = batch.arg0(row).filter(|_| MapFlags::from(batch.size()[row]).shared()) else {
            return;
        };
        let bytes = u64::from(batch.count()[row]) * trace_page;
        let map = SharedMap { asid, start: batch.addr()[row], bytes };
        let list = if map.start >= HALF { &mut self.kernel } else { &mut self.processes };
        list.add((segment, batch.arg1(row).unwrap_or(0)), map);
    }

    /// Returns the places at which a byte of a segment was mapped, in order of preference. The kernel's places come
    /// first: a device's page has the address, and so the color, that the kernel gives it.
    fn places(&self, segment: u64, byte: u64) -> impl Iterator<Item = (Asid, VirtAddr)> {
        self.kernel.places(segment, byte).chain(self.processes.places(segment, byte))
    }
}

impl Prepare {
    /// Notes where a map row puts a segment, if devices act.
    pub(super) fn note_shared_map(&mut self, batch: &EventBatch, row: usize) {
        if let (Some(maps), Some(Op::Map)) = (&mut self.shared_maps, Op::from_code(batch.op()[row])) {
            maps.note(self.running.asid, batch, row, self.trace_page);
        }
    }

    /// Takes in a request of a device.
    pub(super) fn device_request(&mut self, batch: &EventBatch, row: usize) -> Result<()> {
        let writes = batch.op()[row] == Op::DmaWrite as u8;
        let (first, bytes) = (batch.addr()[row], u64::from(batch.size()[row]));
        let (device, segment) = (batch.count()[row], batch.arg1(row));
        let request = batch.arg0(row).unwrap_or(self.device_requests);
        self.device_requests += 1;
        if bytes == 0 {
            return Err(self.refused_request(
                row,
                "0 B",
                "a device's request moves at least one byte",
                "leave it out",
            ));
        }
        if first.checked_add(bytes - 1).is_none() {
            let rule = "a request ends below 2⁶⁴";
            return Err(self.refused_request(row, &format!("{first:#x}"), rule, "give the right buffer"));
        }
        let (page, mut done) = (self.page.bytes(), 0);
        while done < bytes {
            let (asid, at) = self.device_address(first + done, segment, row)?;
            let offset = at.0 & (page - 1);
            let piece = (bytes - done).min(page - offset);
            let kind = if writes { Kind::Store } else { Kind::Load };
            let page_no = PageNo(at.0 >> self.page.log2());
            let is_known = self.spaces.existing_page(asid, page_no).is_some();
            let outside_before = self.seen.outside;
            let runs = std::mem::replace(&mut self.running.asid, asid);
            self.clock += 1;
            let reached = self.reach(self.data, at.0 >> self.line_log2[self.data], kind);
            self.running.asid = runs;
            if !is_known && self.seen.outside > outside_before {
                if self.spaces.maps_anything(asid, page_no) {
                    return Err(self.refused_request(
                        row,
                        &format!("{:#x}", at.0),
                        "a device reads and writes memory that somebody has mapped, or referenced before",
                        "give the right buffer, or map the memory before the request",
                    ));
                }
                self.seen.outside_of_devices += 1;
            }
            self.occasion(Occasion::Device {
                device,
                writes,
                request,
                mapping: reached?,
                offset,
                bytes: piece,
                total: (done == 0).then_some(bytes),
            });
            done += piece;
        }
        Ok(())
    }

    /// Returns the address space and the virtual address at which a device's byte lies.
    fn device_address(&self, byte: u64, segment: Option<u64>, row: usize) -> Result<(Asid, VirtAddr)> {
        let identity = self.safe.is_none();
        match (segment, &self.shared_maps) {
            (Some(RUNNING_SPACE), _) => Ok((self.running.asid, VirtAddr(byte))),
            (None, _) if identity => Ok((self.running.asid, VirtAddr(byte))),
            (None, _) => Err(self.refused_request(
                row,
                &format!("{byte:#x}"),
                "without a segment (arg1) a device's address is physical, and this machine chooses the frames itself",
                "name the segment and the byte in it, or take --set placement.policy=identity",
            )),
            (Some(segment), maps) => {
                let leads = |&(asid, at): &(Asid, VirtAddr)| {
                    identity || self.spaces.leads_to(asid, at, segment, byte)
                };
                let found = maps.as_ref().and_then(|maps| maps.places(segment, byte).find(leads));
                found.ok_or_else(|| {
                    self.refused_request(
                        row,
                        &format!("byte {byte} of segment {segment}"),
                        "a device reads and writes memory that somebody has mapped, shared",
                        "map the segment before the request (a map row with the flag for shared memory)",
                    )
                })
            }
        }
    }

    fn refused_request(&self, row: usize, value: &str, rule: &str, remedy: &str) -> Box<Problem> {
        let place = EventPlace { trace: &self.place, row: self.rows_before + row as u64 };
        Problem::request(value, &format!("{}: row {}: device", place.trace, place.row), rule, remedy)
    }
}
