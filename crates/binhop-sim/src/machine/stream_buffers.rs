//! `stream_buffers` declares the keys of a section `[stream-buffers.CACHE]`: the buffers that fetch lines ahead for a
//! cache.

use binhop_base::{Problem, Result};
use binhop_hw::{Next, StreamConfig, TreeConfig};

use super::cache::{Cache, names, no_such_cache, position};
use super::forms::{Named, UpTo};
use super::keys::{At, keys};

keys! {
    /// The keys of one `[stream-buffers.CACHE]`.
    StreamBufferKeys of "stream-buffers" {
        buffers: UpTo<1024, 1> = "buffers", absent "4", "the stream buffers that the cache has";
        depth: UpTo<1024, 1> = "depth", absent "4", "the lines that each buffer holds";
    }
}

/// Gives each cache its stream buffers, and sorts the sections in the order of the caches.
pub(super) fn add_streams(streams: &mut At<Named<StreamBufferKeys>>, caches: &mut [Cache]) -> Result<()> {
    for (name, At { value: keys, place }) in &streams.value.0 {
        let StreamBufferKeys { buffers: UpTo(buffers), depth: UpTo(depth) } = *keys;
        let Some(number) = position(caches, name) else {
            return Err(no_such_cache(name, place, &names(caches), ""));
        };
        caches[number].config.streams = Some(StreamConfig { buffers, depth });
    }
    streams.value.0.sort_by_key(|(name, _)| position(caches, name));
    Ok(())
}

/// Refuses stream buffers above an inclusive cache.
pub(super) fn check_streams(streams: &At<Named<StreamBufferKeys>>, tree: &TreeConfig) -> Result<()> {
    for (name, At { place, .. }) in &streams.value.0 {
        let mut at = tree.caches.iter().find(|cache| cache.name == *name);
        while let Some(Next::Cache(next)) = at.map(|cache| cache.next) {
            let behind = &tree.caches[next];
            if behind.inclusive {
                return Err(Problem::request(
                    name,
                    place,
                    &format!(
                        "an inclusive cache stands behind it ({}), and knows nothing of its stream buffers",
                        behind.name
                    ),
                    "leave the stream buffers out, or inclusive",
                ));
            }
            at = Some(behind);
        }
    }
    Ok(())
}
