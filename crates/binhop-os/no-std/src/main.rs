//! This program places pages with nothing but `core`, `alloc` and a heap of one fixed array, as a kernel
//! would.
//!
//! If any crate below linked the standard library, there would be two panic handlers and no program.
//! The program ends with 0 if the frames keep their invariants.
#![no_std]
#![no_main]

use core::alloc::{GlobalAlloc, Layout};
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicUsize, Ordering};

use binhop_base::{Asid, Bytes, PageNo, PowerOfTwo, Result};
use binhop_os::placement::{self, Policy, Settings};
use binhop_os::{PageRequest, Recency, Spaces};

const SIZE: usize = 16 << 20;

/// `Heap` hands out the array from its start and takes nothing back.
#[repr(align(4096))]
struct Heap(UnsafeCell<[u8; SIZE]>, AtomicUsize);

// SAFETY: every byte is handed out once; the counter is atomic.
unsafe impl Sync for Heap {}

// SAFETY: the ranges are disjoint, aligned and inside the array, or the answer is null.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let reserve = |used: usize| {
            let start = used.checked_next_multiple_of(layout.align())?;
            start.checked_add(layout.size()).filter(|&end| end <= SIZE)
        };
        match self.1.fetch_update(Ordering::Relaxed, Ordering::Relaxed, reserve) {
            // SAFETY: the end lies inside the array, and so does what precedes it.
            Ok(used) => unsafe { self.0.get().cast::<u8>().add(used.next_multiple_of(layout.align())) },
            Err(_) => core::ptr::null_mut(),
        }
    }

    unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}
}

#[global_allocator]
static HEAP: Heap = Heap(UnsafeCell::new([0; SIZE]), AtomicUsize::new(0));

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {
        core::hint::spin_loop();
    }
}

// The C library starts the program and copies memory.
#[link(name = "c")]
unsafe extern "C" {}

/// The precompiled `alloc` names this function for unwinding, which never happens here.
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}

/// The precompiled `alloc` names this function for unwinding, too.
#[unsafe(no_mangle)]
extern "C" fn _Unwind_Resume() -> ! {
    loop {
        core::hint::spin_loop();
    }
}

/// Runs two address spaces, a fork, and more pages than frames. Returns the number of faults.
fn run(policy: &Policy) -> Result<u64> {
    let mut spaces = Spaces::new(PowerOfTwo::from_log2(12), Bytes(4096));
    let mut recency = Recency::new();
    let settings = Settings { bins: PowerOfTwo::from_log2(4), colors: 16, ..Settings::new(64, 8) };
    let mut frames = policy.frames(&settings, 1)?;
    for step in 0..1000 {
        if step == 500 {
            spaces.fork(Asid(2), Asid(1))?;
        }
        let (asid, page_no) = (Asid(1 + (step / 500) as u32), PageNo(step * 7 % 100));
        let touch = spaces.touch(asid, page_no, step % 3 == 0)?;
        recency.note(touch.page, step + 1);
        if frames.frame_of(touch.page).is_none() {
            let segment = spaces.segment_of(touch.page);
            let segments = spaces.shared_segments(asid);
            frames.place(
                &PageRequest {
                    page: touch.page,
                    asid,
                    page_no,
                    segment,
                    segments,
                    run: None,
                    in_kernel: false,
                },
                &recency,
            )?;
        }
        for page in spaces.drain_dead() {
            frames.release(page);
        }
    }
    frames.check()?;
    Ok(frames.faults())
}

#[unsafe(no_mangle)]
extern "C" fn main() -> i32 {
    // A sweep over 100 pages in 64 frames, with a pool of the 8 least recently used frames, causes many faults.
    // `identity` has no number of frames, and there is no recording that `recorded` could repeat.
    let sized = |policy: &&&Policy| policy.name != "identity" && !policy.uses("file");
    let good = |policy: &&Policy| run(policy).is_ok_and(|faults| faults > 100);
    i32::from(!placement::POLICIES.iter().filter(sized).all(good))
}
