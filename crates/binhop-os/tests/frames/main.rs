//! `Frames` agrees with a plain list of frames, and keeps the rules of KH90 §4.1.2 and of wired frames.
#![allow(clippy::unwrap_used)] // helpers of tests are tests

mod harness;
mod list;
mod lru;
mod policies;
mod wired;
