//! `segments` reads and checks the keys `segment-ids` and `shared-segments` of `[translation]`: the segments that a
//! user gives to regions of address spaces (JM97 §3.2).

use std::collections::{BTreeMap, BTreeSet};

use binhop_base::escape::quoted;
use binhop_base::{Asid, Bytes, Problem, Result, counted};
use binhop_hw::{TagBy, TreeConfig};
use binhop_os::page_table::REGION_LOG2;

use super::document::{Located, Value};
use super::keys::{At, Form, Key, Resolved};

/// The number of segments in the global space: an id has 24 bits (JM97 §4.2).
const IDS: u32 = 1 << 24;

/// `StatedRegion` is a region to which the user gives a segment id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct StatedRegion {
    asid: Asid,
    /// The number of the region within the address space.
    region: u64,
    id: u32,
}

impl StatedRegion {
    /// Reads a region in the form `SPACE:ADDRESS=ID`.
    fn read(text: &str) -> Option<Self> {
        let (place, id) = text.split_once('=')?;
        let (asid, address) = place.split_once(':')?;
        let address = number(address.trim())?;
        let of_region = address.is_multiple_of(1 << REGION_LOG2);
        let id = id.trim().parse().ok().filter(|&id| id < IDS)?;
        let region = address >> REGION_LOG2;
        of_region.then_some(Self { asid: Asid(asid.trim().parse().ok()?), region, id })
    }

    fn address(self) -> u64 {
        self.region << REGION_LOG2
    }
}

/// Reads a decimal or hexadecimal number.
fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// `SegmentIds` are the regions with segment ids, as a description states them.
#[derive(Clone, Debug)]
pub(super) struct SegmentIds(Vec<StatedRegion>);

impl Form for SegmentIds {
    fn form() -> String {
        "SPACE:ADDRESS=ID for each region, with commas between them".to_string()
    }

    fn read(located: Located, key: &Key) -> Result<Self> {
        let Value::Text(text) = &located.value else { return Err(key.wrong_form(&located)) };
        let read = |text: &str| {
            StatedRegion::read(text).ok_or_else(|| {
                let rule = format!(
                    "a region is given as SPACE:ADDRESS=ID: the number of its address space, its first address, a \
                     multiple of 256MiB, and an id below {IDS}"
                );
                Problem::request(&quoted(text.trim()), &located.place, &rule, "write it like \"1:0x30000000=7\"")
            })
        };
        text.split(',').map(read).collect::<Result<_>>().map(Self)
    }

    fn write(&self, name: &str, resolved: &mut Resolved<'_>) {
        let shown = |at: &StatedRegion| format!("{}:{:#x}={}", at.asid, at.address(), at.id);
        resolved.line(name, &quoted(&self.0.iter().map(shown).collect::<Vec<_>>().join(", ")));
    }
}

/// `SharedIds` are the ids that several regions may have, as a description states them.
#[derive(Clone, Debug)]
pub(super) struct SharedIds(Vec<u32>);

impl Form for SharedIds {
    fn form() -> String {
        "ids with commas between them".to_string()
    }

    fn read(located: Located, key: &Key) -> Result<Self> {
        let text = match &located.value {
            Value::Text(text) => text.clone(),
            Value::Integer(id) => id.to_string(),
            _ => return Err(key.wrong_form(&located)),
        };
        let ids = text.split(',').map(|id| id.trim().parse().map_err(|_| key.wrong_form(&located)));
        ids.collect::<Result<_>>().map(Self)
    }

    fn write(&self, name: &str, resolved: &mut Resolved<'_>) {
        let ids: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        resolved.line(name, &quoted(&ids.join(", ")));
    }
}

/// `StatedSegments` are the segment ids that a machine's user gives to regions of address spaces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatedSegments {
    ids: BTreeMap<(Asid, u64), u32>,
    /// The ids that several regions may have.
    shared: BTreeSet<u32>,
}

impl StatedSegments {
    /// Returns the id of a region, by the region's number within its address space.
    #[must_use]
    pub fn id_of(&self, asid: Asid, region: u64) -> Option<u32> {
        self.ids.get(&(asid, region)).copied()
    }

    /// Returns whether no region has an id.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Returns the address space, the number and the id of every region that has an id.
    pub fn regions(&self) -> impl Iterator<Item = (Asid, u64, u32)> {
        self.ids.iter().map(|(&(asid, region), &id)| (asid, region, id))
    }

    /// Returns every id that a region has.
    pub fn ids(&self) -> impl Iterator<Item = u32> {
        self.ids.values().copied()
    }
}

/// `SegmentLimits` are what limits the ids of a machine.
pub(super) struct SegmentLimits<'a> {
    pub(super) tree: &'a TreeConfig,
    /// The segments for which the page table has room, if software translates at cache misses.
    pub(super) room: Option<u32>,
    /// True if physical = virtual.
    pub(super) identity: bool,
}

/// Checks the keys. Returns the ids, and a note if they have no effect.
pub(super) fn check_segments(
    ids: Option<&At<SegmentIds>>,
    shared: Option<&At<SharedIds>>,
    limits: &SegmentLimits<'_>,
) -> Result<(StatedSegments, Option<String>)> {
    let mut stated = BTreeMap::new();
    let mut first_of: BTreeMap<u32, StatedRegion> = BTreeMap::new();
    let declared: BTreeSet<u32> = shared.iter().flat_map(|at| at.value.0.iter().copied()).collect();
    for at in ids.iter().flat_map(|ids| &ids.value.0) {
        let refused = |value: &str, rule: &str, remedy: &str| {
            let place = ids.map_or("", |at| &at.place);
            Err(Problem::request(value, place, rule, remedy))
        };
        let StatedRegion { asid, region, id } = *at;
        let in_words = |at: &StatedRegion| format!("region {:#x} of address space {}", at.address(), at.asid);
        if limits.identity {
            return refused(
                &format!("segment id {id}"),
                "with placement identity, physical = virtual: address spaces share no memory",
                "leave segment-ids out, or take another placement.policy",
            );
        }
        if limits.tree.page.log2() > REGION_LOG2 {
            return refused(
                &format!("segment id {id}"),
                &format!(
                    "a region has 256MiB, and a page of {} lies in several regions",
                    Bytes(limits.tree.page.bytes())
                ),
                "leave segment-ids out, or take pages of at most 256MiB",
            );
        }
        if let Some(room) = limits.room.filter(|&room| id >= room) {
            return refused(
                &format!("segment id {id} of {}", in_words(at)),
                &format!(
                    "segments are numbered from 0, and the disjunct table has room for {}",
                    counted(room.into(), ["segment", "segments"])
                ),
                "take a smaller id, or raise translation.segments",
            );
        }
        if let Some(before) = stated.insert((asid, region), id) {
            return refused(
                &format!("segment ids {before} and {id} of {}", in_words(at)),
                "a region has one segment id",
                "leave one of the two ids out",
            );
        }
        let first = first_of.entry(id).or_insert(*at);
        if first != at && !declared.contains(&id) {
            return refused(
                &format!("segment id {id} of {}, and of {}", in_words(first), in_words(at)),
                "regions that have one segment id share their memory (JM97 §3.2), so the id must be declared shared",
                &format!(
                    "give one of the regions another id, or declare translation.shared-segments = \"{id}\""
                ),
            );
        }
    }
    if let Some((id, place)) =
        declared.iter().find(|&id| !first_of.contains_key(id)).and_then(|id| Some((id, &shared?.place)))
    {
        return Err(Problem::request(
            &format!("segment id {id}"),
            place,
            "an id that is declared shared is the id of a region",
            &format!(
                "give regions the id, like translation.segment-ids = \"1:0x30000000={id}\", or leave it out"
            ),
        ));
    }
    let is_global = limits.tree.caches.iter().any(|cache| cache.tag == TagBy::Global);
    let unused = ids.filter(|_| !is_global && limits.room.is_none());
    let note = unused.map(|at| {
        format!(
            "{}: segment ids have no effect: no cache has global tags, and no software translates at cache misses",
            at.place
        )
    });
    Ok((StatedSegments { ids: stated, shared: declared }, note))
}
