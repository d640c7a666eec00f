//! Memory: what happens where there is none left, and how much was used.

use std::alloc::{GlobalAlloc, Layout, System};

/// The system's allocator; where it has nothing left, the program ends with what to do.
pub struct Allocator;

unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, l: Layout) -> *mut u8 {
        there(System.alloc(l))
    }
    unsafe fn alloc_zeroed(&self, l: Layout) -> *mut u8 {
        there(System.alloc_zeroed(l))
    }
    unsafe fn realloc(&self, p: *mut u8, l: Layout, size: usize) -> *mut u8 {
        there(System.realloc(p, l, size))
    }
    unsafe fn dealloc(&self, p: *mut u8, l: Layout) {
        System.dealloc(p, l)
    }
}

fn there(p: *mut u8) -> *mut u8 {
    if p.is_null() {
        const SAID: &str = "teescope-zkvm: out of memory: give the environment more, or make the shards smaller (-shard 65536)\n";
        // Nothing here may allocate.
        unsafe {
            libc::write(2, SAID.as_ptr().cast(), SAID.len());
            libc::_exit(1)
        }
    }
    p
}

/// The largest resident set of this process so far in bytes; 0 where the kernel keeps no account of it.
pub fn peak_rss() -> u64 {
    let mut u = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    match unsafe { libc::getrusage(libc::RUSAGE_SELF, u.as_mut_ptr()) } {
        0 => unsafe { u.assume_init() }.ru_maxrss as u64 * 1024, // getrusage(2): kilobytes
        _ => 0,
    }
}
