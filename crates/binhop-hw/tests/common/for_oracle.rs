//! Translations of the fast model's descriptions and lines for the oracle. The tests of other crates also use this
//! file.

use binhop_hw::{CacheConfig, Next, Resident, TreeConfig};
use binhop_oracle::cache::{Config, Name, WriteBuffer};

/// Returns the caches of a tree as the oracle describes them.
pub fn configs(config: &TreeConfig) -> Vec<Config> {
    let of = |cache: &CacheConfig| Config {
        sets: cache.sets(),
        ways: cache.ways as usize,
        line: cache.line.bytes(),
        index: cache.index.name(),
        hashed: cache.hashed,
        tag: cache.tag.name(),
        write: cache.write.name(),
        allocate: cache.allocate,
        replacement: cache.replacement.name(),
        writeback_order: cache.writeback_order.name(),
        inclusive: cache.inclusive,
        write_buffer: cache.write_buffer.map(|buffer| WriteBuffer {
            entries: buffer.entries as usize,
            drain: buffer.drain_cycles,
            merge: buffer.merge,
            stalls: buffer.stalls,
        }),
        streams: cache.streams.map(|streams| (streams.buffers as usize, streams.depth.into())),
        cost: cache.cost,
        next: match cache.next {
            Next::Cache(next) => Some(next),
            Next::Memory => None,
        },
    };
    config.caches.iter().map(of).collect()
}

/// Returns a line of a cache as the oracle holds it: its name, its first byte in the page, and true if it is dirty.
pub fn line(cache: &CacheConfig, line: Resident) -> (Name, u64, bool) {
    let id = line.at.id;
    let name = if cache.keyed_by_mapping() { Name::Mapping(id) } else { Name::Page(id) };
    (name, u64::from(line.at.line) << cache.line.log2(), line.dirty)
}
