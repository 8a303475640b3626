//! `touched_units` lists what a trace touches, in order. The oracle's address spaces find the pages.

use binhop_base::{Asid, Kind, PageId, PageNo};
use binhop_oracle::spaces::Spaces;
use binhop_trace::event::map_flags;
use binhop_trace::{EventBatch, Op};

const PAGE: u64 = 4096;

/// `TouchedUnit` is one touch of a unit: of a page, or of a line of a page.
#[derive(Clone, Copy, Debug)]
pub struct TouchedUnit {
    pub asid: Asid,
    pub kind: Kind,
    pub page: PageId,
    /// True at the first touch of the page.
    pub new_page: bool,
    /// The number of the unit in the address space.
    pub unit: u64,
    /// The instructions of a fetch run beyond its units, at the last unit of the run.
    pub repeated: u64,
}

/// Returns the touches of the references up to `length`. Units are powers of two of bytes, at most a page.
pub fn touched_units(events: &EventBatch, page: u64, unit: u64, length: u64) -> Vec<TouchedUnit> {
    let mut spaces = Spaces::new(page, PAGE, 8 << 20);
    let (mut running, mut touched) = (0, Vec::new());
    let mut references = 0;
    for row in 0..events.len() {
        let (addr, size, count) = (events.addr()[row], events.size()[row], events.count()[row]);
        let op = Op::from_code(events.op()[row]).unwrap();
        references += match op {
            Op::Fetch => u64::from(count),
            op => u64::from(op.is_reference()),
        };
        if references > length {
            break;
        }
        let units = addr / unit..=(addr + u64::from(size.max(1)) - 1) / unit;
        let mut touch = |spaces: &mut Spaces, kind| {
            let asid = Asid(running);
            for number in units.clone() {
                let found = spaces.touch(asid, PageNo(number * unit / page), kind == Kind::Store);
                let (page, new_page) = (found.page, found.new_page);
                touched.push(TouchedUnit { asid, kind, page, new_page, unit: number, repeated: 0 });
            }
        };
        match op {
            Op::Fetch => {
                touch(&mut spaces, Kind::Fetch);
                let touches = units.clone().count() as u64;
                touched.last_mut().unwrap().repeated = u64::from(count).saturating_sub(touches);
            }
            Op::Load => touch(&mut spaces, Kind::Load),
            Op::Store => touch(&mut spaces, Kind::Store),
            Op::Modify => {
                touch(&mut spaces, Kind::Load);
                touch(&mut spaces, Kind::Store);
            }
            Op::Switch => running = addr as u32,
            Op::Map => {
                let shared = size & map_flags::SHARED != 0;
                let segment = events.arg0(row).map(|name| (name, events.arg1(row).unwrap()));
                spaces.map(Asid(running), addr, u64::from(count), (shared, false), segment);
            }
            Op::Unmap => spaces.unmap(Asid(running), addr, u64::from(count)),
            Op::Fork => spaces.fork(Asid(addr as u32), Asid(events.arg0(row).unwrap() as u32)),
            Op::Exec | Op::Exit => spaces.end(Asid(addr as u32)),
            _ => {}
        }
    }
    touched
}
