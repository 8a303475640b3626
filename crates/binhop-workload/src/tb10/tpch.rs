//! tpch answers a query of a decision-support database (TB10 §4.1: TPC-H in a database of 10 GB).
//!
//! The query sums the revenue of line items by customer and by part. The table of line items is read from disk, 128 KiB
//! at a time, into buffers that are used in turn. These reads bypass the page cache. A block of 8 KiB is scanned as a
//! whole: rows that pass the filter on the ship date go to a small list. Then each row of the list finds its order in a
//! hash table, whose entry names the customer, and is added to the sums of the customer and of the part. The table is
//! clustered by ship date, so neighbouring rows belong to unrelated orders. After each 32 reads, the sums found in
//! between are written to a temporary file.
//!
//! Sizes: a row has 128 bytes; a bucket of the hash table has 4 entries of 32 bytes, two lines of 64 bytes; a sum has a
//! line of its own. Orders, customers and parts take 304 MiB, more than any last level of the document. They are a
//! fraction of the benchmark's orders, customers and parts, as one partition of a database holds. The table of line
//! items has 7.2 GB and is read again from its start after that.

use super::{FileInfo, linux};
use crate::address_space::{Image, TEXT};
use crate::cpu::Cpu;
use crate::data_rng::DataRng;
use crate::program::{Program, Status};

pub(crate) const IMAGE: Image =
    Image { name: "tpch", segment: 32, text: 128 << 10, data: 64 << 10, initialised: 8 << 10 };

const LINE_ITEMS: FileInfo = FileInfo { id: 1, path: "/database/lineitem", bytes: 7_200 << 20, direct: true };
const TEMPORARY: FileInfo = FileInfo { id: 2, path: "/database/temp", bytes: 0, direct: true };
pub(crate) const FILES: &[FileInfo] = &[LINE_ITEMS, TEMPORARY];

/// The bytes of a read, and the buffers for reads.
const READ: u64 = 128 << 10;
const BUFFERS: u64 = 4;
const BLOCK: u64 = 8 << 10;
const ROW: u64 = 128;
const ROWS: usize = (BLOCK / ROW) as usize;
/// The orders, a power of two, and the entries of a bucket.
const ORDERS: u64 = 1 << 22;
const ENTRIES: u64 = 4;
const ENTRY: u64 = 32;
const CUSTOMERS: u64 = 1 << 20;
const PARTS: u64 = 7 << 18;
const SUM: u64 = 64;
/// The reads between two writes to the temporary file, and the bytes of such a write.
const READS: u64 = 32;
const SPILL: u64 = 19 << 10;

const SCAN: u64 = TEXT + 0x2000;
const PROBE: u64 = TEXT + 0x3000;
const ADD: u64 = TEXT + 0x4000;
const FETCH: u64 = TEXT + 0x5000;
const WRITE: u64 = TEXT + 0x6000;
/// The list of rows that passed the filter.
const LIST: u64 = crate::address_space::DATA + 0x4000;

pub(crate) fn start(draws: DataRng, cpu: &mut Cpu) -> Box<dyn Program> {
    Box::new(Query::new(draws, cpu))
}

/// `LineItem` is a row of the table.
#[derive(Clone, Copy, Debug, Default)]
struct LineItem {
    order: u32,
    part: u32,
    /// The day of shipment, from 0 to 2,525 (the benchmark covers 7 years).
    shipped: u32,
    price: u32,
    /// Hundredths.
    discount: u32,
}

/// The last day of shipment that passes the filter: 97% of the rows pass, as in the benchmark's first query.
const LAST_DAY: u32 = 2_450;

struct Query {
    draws: DataRng,
    buffers: u64,
    orders: u64,
    customers: u64,
    parts: u64,
    spill: u64,
    offset: u64,
    written: u64,
    /// The reads so far, and the blocks of the present buffer that are scanned.
    reads: u64,
    block: u64,
    by_customer: Vec<u64>,
    by_part: Vec<u64>,
    passed: Vec<LineItem>,
}

impl Query {
    fn new(draws: DataRng, cpu: &mut Cpu) -> Self {
        // A transfer that bypasses the page cache begins at a page. The heap begins at a page, and each part of the
        // heap is a number of pages.
        Self {
            draws,
            buffers: cpu.sbrk(BUFFERS * READ),
            orders: cpu.sbrk(ORDERS * ENTRY),
            customers: cpu.sbrk(CUSTOMERS * SUM),
            parts: cpu.sbrk(PARTS * SUM),
            spill: cpu.sbrk(SPILL.next_multiple_of(crate::address_space::PAGE)),
            offset: 0,
            written: 0,
            reads: 0,
            block: 0,
            by_customer: vec![0; CUSTOMERS as usize],
            by_part: vec![0; PARTS as usize],
            passed: Vec::with_capacity(ROWS),
        }
    }

    /// Draws a row of the table.
    fn draw(&mut self) -> LineItem {
        let draws = &mut self.draws;
        LineItem {
            order: draws.below(ORDERS) as u32,
            part: draws.below(PARTS) as u32,
            shipped: draws.below(2_526) as u32,
            price: 90_000 + draws.below(10_000_000) as u32,
            discount: draws.below(11) as u32,
        }
    }

    /// Reads the next part of the table into the next buffer.
    fn read(&mut self, cpu: &mut Cpu) {
        cpu.jump(FETCH);
        cpu.run(40);
        let buffer = self.buffers + self.reads % BUFFERS * READ;
        cpu.syscall(linux::PREAD, buffer, READ as u32, Some((LINE_ITEMS.id, self.offset)));
        self.offset = (self.offset + READ) % LINE_ITEMS.bytes;
        self.reads += 1;
    }

    /// Scans a block: the rows that pass the filter go to the list.
    fn scan(&mut self, cpu: &mut Cpu, block: u64) {
        self.passed.clear();
        for row in 0..ROWS {
            let item = self.draw();
            let at = block + ROW * row as u64;
            cpu.jump(SCAN);
            cpu.run(4);
            cpu.load(at + 16, 4);
            cpu.run(3);
            if item.shipped > LAST_DAY {
                continue;
            }
            let to = LIST + 32 * self.passed.len() as u64;
            cpu.jump(SCAN + 0x40);
            for (from, size, field) in [(0, 8, 0), (8, 8, 8), (72, 8, 16), (80, 8, 24)] {
                cpu.load(at + from, size);
                cpu.run(1);
                cpu.store(to + field, size);
                cpu.run(1);
            }
            self.passed.push(item);
        }
    }

    /// Returns the customer of an order, with the references of the search.
    fn find(&self, cpu: &mut Cpu, order: u32) -> usize {
        cpu.jump(PROBE);
        cpu.run(9);
        let number = hash(order);
        let (bucket, slot) = (number / ENTRIES, number % ENTRIES);
        for entry in 0..=slot {
            cpu.jump(PROBE + 0x40);
            cpu.run(2);
            cpu.load(self.orders + (bucket * ENTRIES + entry) * ENTRY, 8);
            cpu.run(2);
        }
        cpu.load(self.orders + number * ENTRY + 8, 8);
        cpu.run(2);
        customer(order)
    }

    /// Adds a revenue to a sum.
    fn add(cpu: &mut Cpu, at: u64, sum: &mut u64, revenue: u64) {
        cpu.jump(ADD);
        cpu.run(4);
        cpu.load(at, 8);
        cpu.run(2);
        cpu.store(at, 8);
        cpu.run(2);
        *sum += revenue;
    }

    /// Sums up the rows of the list.
    fn sum_up(&mut self, cpu: &mut Cpu) {
        for (entry, item) in std::mem::take(&mut self.passed).into_iter().enumerate() {
            let at = LIST + 32 * entry as u64;
            cpu.jump(PROBE - 0x40);
            cpu.load(at, 8);
            cpu.run(3);
            let customer = self.find(cpu, item.order);
            cpu.load(at + 16, 8);
            cpu.run(1);
            cpu.load(at + 24, 8);
            cpu.run(6);
            let revenue = u64::from(item.price) * u64::from(100 - item.discount) / 100;
            let sum = &mut self.by_customer[customer];
            Self::add(cpu, self.customers + SUM * customer as u64, sum, revenue);
            let part = item.part as usize;
            Self::add(cpu, self.parts + SUM * part as u64, &mut self.by_part[part], revenue);
        }
    }

    /// Writes the sums that were found since the last write.
    fn write_sums(&mut self, cpu: &mut Cpu) {
        for word in 0..SPILL / 8 {
            cpu.jump(WRITE);
            cpu.run(3);
            cpu.store(self.spill + 8 * word, 8);
            cpu.run(2);
        }
        let file = Some((TEMPORARY.id, self.written));
        cpu.syscall(linux::PWRITE, self.spill, SPILL as u32, file);
        self.written += SPILL;
    }
}

impl Program for Query {
    fn step(&mut self, cpu: &mut Cpu) -> Status {
        if self.block == 0 {
            if self.reads > 0 && self.reads.is_multiple_of(READS) {
                self.write_sums(cpu);
            }
            self.read(cpu);
        }
        let buffer = self.buffers + (self.reads - 1) % BUFFERS * READ;
        self.scan(cpu, buffer + self.block * BLOCK);
        self.sum_up(cpu);
        self.block = (self.block + 1) % (READ / BLOCK);
        Status::Ready
    }
}

/// Returns the place of an order in the hash table. Each order has a place of its own, because the factor is odd.
fn hash(order: u32) -> u64 {
    u64::from(order).wrapping_mul(0x9e37_79b1) % ORDERS
}

/// Returns the customer of an order.
fn customer(order: u32) -> usize {
    (u64::from(order).wrapping_mul(0x85eb_ca6b) >> 7) as usize % CUSTOMERS as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address_space::AddressSpace;

    #[test]
    fn both_groupings_have_the_revenue_of_the_rows_that_pass() {
        let mut cpu = Cpu::new(AddressSpace::new(IMAGE, 0));
        let mut query = Query::new(DataRng::new(3, 0), &mut cpu);
        let mut draws = query.draws.clone();
        let blocks = 3 * READ / BLOCK;
        for _ in 0..blocks {
            cpu.rows.clear();
            query.step(&mut cpu);
            cpu.finish_step();
        }
        let mut expected = 0;
        for _ in 0..blocks * ROWS as u64 {
            std::mem::swap(&mut draws, &mut query.draws);
            let item = query.draw();
            std::mem::swap(&mut draws, &mut query.draws);
            if item.shipped <= LAST_DAY {
                expected += u64::from(item.price) * u64::from(100 - item.discount) / 100;
            }
        }
        assert_eq!(query.by_customer.iter().sum::<u64>(), expected);
        assert_eq!(query.by_part.iter().sum::<u64>(), expected);
        assert!(expected > 0);
    }

    #[test]
    fn every_order_has_a_place_of_its_own() {
        let mut taken = vec![false; ORDERS as usize];
        for order in 0..ORDERS as u32 {
            assert!(!std::mem::replace(&mut taken[hash(order) as usize], true), "{order}");
        }
    }
}
