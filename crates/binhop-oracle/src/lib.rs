//! Slow, obvious reference models. Only tests depend on this crate; it shares no model code with the fast ones.

pub mod spaces;
