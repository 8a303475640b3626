//! `Counting` is an allocator that counts bytes, for tests that bound memory. The counts are exact where one test at a
//! time works, on one thread.
#![allow(dead_code, missing_docs, unreachable_pub)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// `Counting` counts the bytes held now, the most bytes held, and all bytes ever requested.
struct Counting;

static HELD: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);
static ASKED: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call goes to the system's allocator unchanged, and only sums are kept beside it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ASKED.fetch_add(layout.size(), SeqCst);
        PEAK.fetch_max(HELD.fetch_add(layout.size(), SeqCst) + layout.size(), SeqCst);
        // SAFETY: the caller's promises are those that the system's allocator asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), SeqCst);
        // SAFETY: the caller gives the promises that the system's allocator asks for.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The lock admits one test at a time.
static TURN: Mutex<()> = Mutex::new(());

/// Waits until no other test counts memory.
pub fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the bytes that are held now.
pub fn held() -> usize {
    HELD.load(SeqCst)
}

/// `Cost` is the memory that some work took.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// All bytes ever requested, which also count wasted work.
    pub asked: usize,
    /// The most bytes that were held at once, beyond those held before.
    pub peak: usize,
}

pub fn cost(work: impl FnOnce()) -> Cost {
    let (held, asked) = (held(), ASKED.load(SeqCst));
    PEAK.store(held, SeqCst);
    work();
    Cost { asked: ASKED.load(SeqCst) - asked, peak: PEAK.load(SeqCst) - held }
}
