//! A prefetch tells the processor of memory that is needed soon.
#![allow(unsafe_code, reason = "only unsafe code can call functions for some processors")]

/// Tells the processor of a value that is needed soon. Nothing else happens: the processor goes on at once, and waits
/// less when it reads the value. Processors other than x86-64 are not told.
#[inline(always)]
pub(crate) fn prefetch<V>(value: &V) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: every x86-64 processor has the instruction, and it may be told of any address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(value).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = value;
}
