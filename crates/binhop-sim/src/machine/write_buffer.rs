//! `write_buffer` declares the keys of a section `[write-buffer.CACHE]`: the buffer behind a write-through cache.

use binhop_base::{Problem, Result};
use binhop_hw::{WriteBufferConfig, WritePolicy};

use super::cache::{Cache, names, no_such_cache, position};
use super::forms::{Deferred, Named, UpTo};
use super::keys::{At, keys};

keys! {
    /// The keys of one `[write-buffer.CACHE]`.
    WriteBufferKeys of "write-buffer" {
        entries: At<UpTo<{ 1 << 20 }>> = "entries", form "a whole number", "the writes that the buffer holds";
        drain: At<UpTo<{ 1 << 30 }>> = "drain", form "cycles", "the cycles in which one entry drains";
        merge: bool = "merge", absent "false",
            "whether a write takes no entry if a write to the same line waits, whose drain has not begun";
        stalls: bool = "stalls", absent "true", "whether the processor waits while the buffer is full";
    }
}

/// Gives each cache its buffer, and sorts the buffers in the order of the caches.
pub(super) fn add_buffers(
    buffers: &mut Deferred<Named<WriteBufferKeys>>,
    caches: &mut [Cache],
) -> Result<()> {
    // Names are checked before keys are read: a mistyped name makes a section of its own, which lacks keys.
    for (name, place) in buffers.entries() {
        if position(caches, name).is_none() {
            return Err(no_such_cache(name, place, &names(caches), ""));
        }
    }
    let buffers = buffers.read_now()?;
    for (name, At { value: keys, place }) in &buffers.0 {
        let behind = position(caches, name).expect("buffers have the names of caches");
        let WriteBufferKeys { entries, drain, merge, stalls } = keys;
        if entries.value.0 == 0 {
            return Err(Problem::request(
                "0",
                &entries.place,
                "a write buffer holds at least one write",
                "give it an entry, or leave the buffer out",
            ));
        }
        let config = &mut caches[behind].config;
        if config.write != WritePolicy::Through {
            return Err(Problem::request(
                name,
                place,
                "a write buffer stands behind a write-through cache",
                &format!("add write = \"through\" to [cache.{name}], or leave the buffer out"),
            ));
        }
        config.write_buffer = Some(WriteBufferConfig {
            entries: entries.value.0,
            drain_cycles: drain.value.0.into(),
            merge: *merge,
            stalls: *stalls,
        });
    }
    buffers.0.sort_by_key(|(name, _)| position(caches, name));
    Ok(())
}
