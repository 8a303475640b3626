//! `SegmentNames` names the memory in which a page lies: `heap`, `stack`, `libc.so.6`, `.data of app`.
//!
//! Rules
//! - A file is named without its directories. If the trace maps another file of the same name, each of these files is
//!   named by its path.
//! - A page of a file's mapping has the file's name (`.text of app` if the trace knows that it is text). A private
//!   copy of such a page, made by a write, is `.data of app`. Anonymous memory directly behind a file's private
//!   writable mapping is `.bss of app`.
//! - A segment without a file has the trace's name for it: `heap`, `stack`, `data`, `shared memory`. If the trace has
//!   no name, the flags of the segment's first map decide: `stack` if it grows, `text` if it is executed,
//!   else `data`.
//! - Other anonymous memory is `stack` if it grows, else `anonymous memory`.
//! - A page outside every map is `outside every map`. If a trace has no maps at all, it is
//!   `memory (no maps)`: the trace does not say what the page is.

use std::collections::BTreeMap;

use binhop_base::PageId;
use binhop_os::{Owner, PageOrigin, SegmentId, Spaces};
use binhop_trace::Meta;
use binhop_trace::source::SegmentMeta;

/// `SegmentNames` finds the names of a trace's segments.
pub(crate) struct SegmentNames<'a> {
    meta: &'a Meta,
    /// The path for each name without directories; `None` if several paths have that name.
    paths: BTreeMap<&'a str, Option<&'a str>>,
}

fn last_part(path: &str) -> &str {
    path.trim_end_matches('/').rsplit('/').next().unwrap_or(path)
}

impl<'a> SegmentNames<'a> {
    pub(crate) fn new(meta: &'a Meta) -> Self {
        let mut paths: BTreeMap<&str, Option<&str>> = BTreeMap::new();
        for path in meta.segments.values().filter_map(|segment| segment.file.as_deref()) {
            let known = paths.entry(last_part(path)).or_insert(Some(path));
            if *known != Some(path) {
                *known = None;
            }
        }
        Self { meta, paths }
    }

    /// Returns the name of the memory that a page lies in.
    pub(crate) fn of(&self, spaces: &Spaces, page: PageId) -> String {
        match spaces.origin_of(page) {
            PageOrigin::Segment(segment) => self.of_segment(spaces, segment),
            PageOrigin::Copy(segment) => match self.file(spaces, segment) {
                Some(file) => format!(".data of {file}"),
                None => self.of_segment(spaces, segment),
            },
            PageOrigin::Behind(segment) => match self.file(spaces, segment) {
                Some(file) => format!(".bss of {file}"),
                None => "anonymous memory".to_owned(),
            },
            PageOrigin::Stack => "stack".to_owned(),
            PageOrigin::Anonymous => "anonymous memory".to_owned(),
            PageOrigin::Outside if spaces.has_maps() => "outside every map".to_owned(),
            PageOrigin::Outside => "memory (no maps)".to_owned(),
        }
    }

    fn of_segment(&self, spaces: &Spaces, segment: SegmentId) -> String {
        let flags = spaces.flags_of(segment);
        match (
            self.file(spaces, segment),
            self.known(spaces, segment).and_then(|known| known.kind.as_deref()),
        ) {
            (Some(file), Some("text")) => format!(".text of {file}"),
            (Some(file), _) => file.to_owned(),
            (None, Some(kind)) => kind.to_owned(),
            (None, None) => match spaces.owner_of(segment) {
                Owner::Memory => "memory",
                Owner::Kernel => "kernel",
                Owner::Anonymous => "shared memory",
                Owner::Named(_) | Owner::Space(_) if flags.grows() => "stack",
                Owner::Named(_) | Owner::Space(_) if flags.exec() => "text",
                Owner::Named(_) | Owner::Space(_) => "data",
            }
            .to_owned(),
        }
    }

    fn known(&self, spaces: &Spaces, segment: SegmentId) -> Option<&'a SegmentMeta> {
        match spaces.owner_of(segment) {
            Owner::Named(name) => self.meta.segments.get(&name),
            Owner::Space(_) | Owner::Anonymous | Owner::Kernel | Owner::Memory => None,
        }
    }

    fn file(&self, spaces: &Spaces, segment: SegmentId) -> Option<&'a str> {
        let path = self.known(spaces, segment)?.file.as_deref()?;
        let name = last_part(path);
        Some(if self.paths.get(name) == Some(&Some(path)) { name } else { path })
    }
}

#[cfg(test)]
mod tests {
    use binhop_base::{Asid, Bytes, PageNo, PowerOfTwo, VirtAddr};
    use binhop_os::MapFlags;

    use super::*;

    const READ: u32 = 1;
    const WRITE: u32 = 2;
    const EXEC: u32 = 4;
    const SHARED: u32 = 8;
    const GROWS: u32 = 16;

    /// Returns metadata with these segments, numbered from 1.
    fn meta(segments: &[(Option<&str>, Option<&str>)]) -> Meta {
        let segment = |&(file, kind): &(Option<&str>, Option<&str>)| SegmentMeta {
            file: file.map(str::to_owned),
            kind: kind.map(str::to_owned),
        };
        Meta { segments: (1..).zip(segments.iter().map(segment)).collect(), ..Meta::default() }
    }

    /// Returns the name of a page that asid 0 touches.
    fn name(spaces: &mut Spaces, meta: &Meta, page: u64, write: bool) -> String {
        let touch = spaces.touch(Asid(0), PageNo(page), write).unwrap();
        SegmentNames::new(meta).of(spaces, touch.page)
    }

    fn spaces(maps: &[(u64, u64, u32, Option<u64>)]) -> Spaces {
        let mut spaces = Spaces::new(PowerOfTwo::from_log2(12), Bytes(4096));
        for &(page, pages, flags, segment) in maps {
            let start = VirtAddr(page << 12);
            spaces.map(Asid(0), start, pages, MapFlags::from(flags), segment, 0).unwrap();
        }
        spaces
    }

    #[test]
    fn a_page_is_called_by_what_it_is() {
        let meta = meta(&[
            (Some("/usr/bin/app"), Some("file")),
            (Some("/lib/libc.so.6"), Some("library")),
            (None, Some("heap")),
            (None, Some("stack")),
            (Some("lin"), Some("text")),
        ]);
        let mut spaces = spaces(&[
            (0x10, 4, READ | EXEC, Some(1)),
            (0x14, 4, READ | WRITE, Some(1)),
            (0x18, 2, READ | WRITE, None),
            (0x1a, 8, READ | WRITE, Some(3)),
            (0x30, 4, READ | EXEC, Some(2)),
            (0x34, 2, READ | WRITE, None),
            (0x40, 2, READ | WRITE, None),
            (0x50, 2, READ | WRITE | SHARED, None),
            (0x60, 2, READ | WRITE | GROWS, Some(4)),
            (0x70, 2, READ | WRITE | GROWS, None),
            (0x80, 1, READ | EXEC, Some(5)),
            (0x82, 1, READ | EXEC, Some(6)),
            (0x84, 1, READ | WRITE | GROWS, Some(7)),
            (0x86, 1, READ | WRITE, Some(8)),
        ]);
        for (page, write, expected) in [
            (0x10, false, "app"),
            (0x14, false, "app"),
            (0x15, true, ".data of app"),
            (0x18, true, ".bss of app"),
            (0x1a, true, "heap"),
            (0x1b, false, "heap"),
            (0x30, false, "libc.so.6"),
            (0x34, true, "anonymous memory"),
            (0x40, true, "anonymous memory"),
            (0x50, true, "shared memory"),
            (0x60, true, "stack"),
            (0x71, true, "stack"),
            (0x80, false, ".text of lin"),
            (0x82, false, "text"),
            (0x84, true, "stack"),
            (0x86, true, "data"),
            (0x90, true, "outside every map"),
        ] {
            assert_eq!(name(&mut spaces, &meta, page, write), expected, "page {page:#x}");
        }
        // A child's copy of a copy keeps the name of the first copy.
        spaces.fork(Asid(1), Asid(0)).unwrap();
        let copy = spaces.touch(Asid(1), PageNo(0x15), true).unwrap();
        assert!(copy.new_page);
        assert_eq!(SegmentNames::new(&meta).of(&spaces, copy.page), ".data of app");
    }

    #[test]
    fn files_of_one_name_are_told_apart_by_their_paths() {
        let meta = meta(&[(Some("/a/tool"), None), (Some("/b/tool"), None), (Some("/b/other"), None)]);
        let mut spaces = spaces(&[(1, 1, READ, Some(1)), (2, 1, READ, Some(2)), (3, 1, READ, Some(3))]);
        assert_eq!(name(&mut spaces, &meta, 1, false), "/a/tool");
        assert_eq!(name(&mut spaces, &meta, 2, true), ".data of /b/tool");
        assert_eq!(name(&mut spaces, &meta, 3, false), "other");
    }

    #[test]
    fn without_maps_nothing_is_said_of_memory_but_that() {
        let mut spaces = spaces(&[]);
        assert_eq!(name(&mut spaces, &Meta::default(), 7, true), "memory (no maps)");
    }
}
