//! `binhop-oracle` has slow, obvious reference models. Only tests depend on it. It shares no model code with
//! the fast models.

pub mod cache;
pub mod cache_tree;
pub mod cachegrind;
pub mod frames;
pub mod machine;
pub mod paging;
pub mod placements;
pub mod scheduler;
pub mod spaces;
