//! What the allocator keeps of memory that was given back, bounded. The only crate with `unsafe` in it.
//!
//! The allocator of glibc has eight arenas a core, each of which keeps what was freed in it, and it takes ever larger pieces from
//! them once it has seen that size freed. Under 500 hostile clients and a limit of 256 MiB a server took 195 to 220 MiB with 2
//! threads and 201 to 252 with 16 and 32, and 274 on another machine. With what [`bound`] sets it took 155 to 178, with 2 threads and with
//! 32.
//!
//! The pages of a store's cache are most of what a server holds. Threads that write make them, threads that read make others in
//! their place, and each arena comes to keep as many as were ever of its threads. So [`Heap`] has one pool of pages for
//! all.

mod pages;

pub use pages::Heap;

/// Pieces from this size on are the kernel's, and go back to it as soon as they are freed.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const FROM_THE_KERNEL_BYTES: libc::c_int = 256 * 1024;
/// Threads share these. Each thread has a cache of small pieces of its own before them.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const ARENAS_MAX: libc::c_int = 8;

/// To be called once, before the first thread is made. Elsewhere than on Linux with glibc it does nothing.
pub fn bound() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // What it cannot set stays as it was, which is no fault of a program.
    //
    // SAFETY: `mallopt` takes two numbers and changes how the allocator goes on; it touches nothing that was allocated.
    #[expect(unsafe_code, reason = "there is no safe call for it")]
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, FROM_THE_KERNEL_BYTES);
        libc::mallopt(libc::M_ARENA_MAX, ARENAS_MAX);
    }
}
