//! `placements` and `pages` make the tables with details of lanes by page, if the options ask for them: every placement
//! in order, and the pages whose lines missed again.

use std::sync::Arc;

use arrow_array::builder::{StringBuilder, UInt32Builder, UInt64Builder};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{Field, Schema};
use binhop_base::{FrameNo, PageId};
use binhop_os::{PageRequest, Placed, Spaces};
use binhop_trace::Meta;

use super::segments::SegmentNames;

/// `Logged` is one placement of a lane. Its place in the list is the ordinal of the fault.
#[derive(Clone, Debug)]
pub(crate) struct Logged {
    pub(crate) request: PageRequest,
    pub(crate) placed: Placed,
}

/// `Repeats` are the repeated misses of a lane's watched cache.
pub(crate) struct Repeats<'a> {
    pub(crate) seed: u64,
    /// For each page, the demand misses on lines that were in the cache before.
    pub(crate) misses: &'a [u64],
    /// The bins of the cache; 1 if frames do not divide the cache.
    pub(crate) bins: u64,
    /// Returns the frame in which a page was last.
    pub(crate) frame_of: &'a dyn Fn(PageId) -> Option<FrameNo>,
}

/// Makes the table of the lanes' placements, in order: one row for each placement.
pub(crate) fn placements(lanes: &[(u64, &[Logged])]) -> RecordBatch {
    let (mut seed, mut fault) = (UInt64Builder::new(), UInt64Builder::new());
    let (mut asid, mut segment) = (UInt32Builder::new(), UInt32Builder::new());
    let (mut page_no, mut page) = (UInt64Builder::new(), UInt32Builder::new());
    let (mut frame, mut evicted) = (UInt64Builder::new(), UInt32Builder::new());
    for (number, log) in lanes {
        for (ordinal, Logged { request, placed }) in log.iter().enumerate() {
            seed.append_value(*number);
            fault.append_value(ordinal as u64);
            asid.append_value(request.asid.0);
            page_no.append_value(request.page_no.0);
            page.append_value(request.page.0);
            segment.append_value(request.segment.0);
            frame.append_value(placed.frame.0);
            evicted.append_option(placed.evicted.map(|page| page.0));
        }
    }
    table(vec![
        ("seed", Arc::new(seed.finish()), false),
        ("fault", Arc::new(fault.finish()), false),
        ("asid", Arc::new(asid.finish()), false),
        ("page_no", Arc::new(page_no.finish()), false),
        ("page", Arc::new(page.finish()), false),
        ("segment", Arc::new(segment.finish()), false),
        ("frame", Arc::new(frame.finish()), false),
        ("evicted", Arc::new(evicted.finish()), true),
    ])
}

/// Makes the table of pages whose lines missed again: one row for each lane and page that had such misses. A
/// page is named by the address space and the virtual page at which it was touched first.
pub(crate) fn pages(lanes: &[Repeats<'_>], spaces: &Spaces, meta: &Meta) -> RecordBatch {
    let (mut seed, mut page) = (UInt64Builder::new(), UInt32Builder::new());
    let (mut asid, mut page_no) = (UInt32Builder::new(), UInt64Builder::new());
    let mut segment = StringBuilder::new();
    let (mut frame, mut bin) = (UInt64Builder::new(), UInt64Builder::new());
    let mut misses = UInt64Builder::new();
    let names = SegmentNames::new(meta);
    for lane in lanes {
        for (number, &count) in lane.misses.iter().enumerate().filter(|(_, count)| **count > 0) {
            let id = PageId(number as u32);
            let first = spaces.mappings_of(id).last();
            let at = (lane.frame_of)(id);
            seed.append_value(lane.seed);
            page.append_value(id.0);
            asid.append_option(first.and_then(|mapping| spaces.asid_of(mapping)).map(|asid| asid.0));
            page_no.append_value(spaces.global_page(id).0);
            segment.append_value(names.of(spaces, id));
            frame.append_option(at.map(|frame| frame.0));
            bin.append_option(at.map(|frame| frame.0 & (lane.bins - 1)));
            misses.append_value(count);
        }
    }
    table(vec![
        ("seed", Arc::new(seed.finish()), false),
        ("page", Arc::new(page.finish()), false),
        ("asid", Arc::new(asid.finish()), true),
        ("page_no", Arc::new(page_no.finish()), false),
        ("segment", Arc::new(segment.finish()), false),
        ("frame", Arc::new(frame.finish()), true),
        ("bin", Arc::new(bin.finish()), true),
        ("misses", Arc::new(misses.finish()), false),
    ])
}

fn table(columns: Vec<(&str, ArrayRef, bool)>) -> RecordBatch {
    let field = |(name, array, nullable): &(&str, ArrayRef, bool)| {
        Field::new(*name, array.data_type().clone(), *nullable)
    };
    let schema = Schema::new(columns.iter().map(field).collect::<Vec<_>>());
    let arrays = columns.into_iter().map(|(_, array, _)| array).collect();
    RecordBatch::try_new(Arc::new(schema), arrays).expect("columns of one table agree in length and type")
}
