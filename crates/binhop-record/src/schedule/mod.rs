//! The order between processes: who runs next, and for how long.

pub mod calls;
