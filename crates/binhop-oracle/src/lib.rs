//! `binhop-oracle` holds slow, obvious reference models. Only tests depend on this crate, which shares no model
//! code with the fast models. [`cases`](cases::cases) says how many cases a property draws.

pub mod cache;
pub mod cache_tree;
pub mod cachegrind;
pub mod cases;
pub mod disjunct;
pub mod dma;
pub mod dma_parts;
pub mod frames;
pub mod io;
pub mod machine;
pub mod page_table;
pub mod paging;
pub mod placements;
pub mod protection;
pub mod reuse;
pub mod scheduler;
pub mod segments;
pub mod softvm;
pub mod spaces;
pub mod synonyms;
pub mod tlb;
