//! The system's allocator, with one pool for pages.
//!
//! A page that was given back is the next that is taken, whichever threads do so. The pool takes memory in blocks and
//! keeps it: as much as there were ever pages at once.

#![expect(unsafe_code, reason = "an allocator is unsafe by its interface")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr::{self, NonNull};
use std::sync::{Mutex, PoisonError};

/// A page of the tree with the two counts of the `Arc` that holds it.
const PAGE_BYTES: usize = 4096 + 2 * size_of::<usize>();
const ALIGNMENT: usize = 2 * size_of::<usize>();
/// Pages in a block.
const BLOCK: usize = 64;

const _: () = assert!(PAGE_BYTES.is_multiple_of(ALIGNMENT), "every page of a block is aligned");

/// The system's allocator, but for pages.
#[derive(Debug)]
pub struct Heap {
    free: Mutex<Free>,
}

/// The pages that nobody has. Each holds the place of the next.
#[derive(Debug)]
struct Free(Option<NonNull<Page>>);

#[derive(Debug)]
struct Page {
    next: Option<NonNull<Page>>,
}

// SAFETY: pages in the list belong to nobody else, and the list has one owner, which may be in any thread.
unsafe impl Send for Free {}

impl Heap {
    pub const fn new() -> Self {
        Self { free: Mutex::new(Free(None)) }
    }

    fn take(&self) -> *mut u8 {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        if free.0.is_none() {
            free.grow();
        }
        let Some(page) = free.0 else { return ptr::null_mut() };
        // SAFETY: what is in the list was put there by `put`, which wrote it, and nobody else has it.
        free.0 = unsafe { page.as_ref().next };
        page.as_ptr().cast()
    }
}

impl Default for Heap {
    fn default() -> Self {
        Self::new()
    }
}

impl Free {
    fn grow(&mut self) {
        let Ok(block) = Layout::from_size_align(BLOCK * PAGE_BYTES, ALIGNMENT) else { return };
        // SAFETY: its size is not zero.
        let Some(block) = NonNull::new(unsafe { System.alloc(block) }) else { return };
        for n in 0..BLOCK {
            // SAFETY: the place is within the block, aligned for a page, and nobody has it.
            unsafe { self.put(block.add(n * PAGE_BYTES).cast()) };
        }
    }

    /// # Safety
    ///
    /// The page is `PAGE_BYTES` long, aligned, of a block of `grow`, and nobody has it.
    unsafe fn put(&mut self, page: NonNull<Page>) {
        // SAFETY: as above.
        unsafe { page.write(Page { next: self.0 }) };
        self.0 = Some(page);
    }
}

const fn is_page(layout: Layout) -> bool {
    layout.size() == PAGE_BYTES && layout.align() <= ALIGNMENT
}

// SAFETY: what is asked for as a page is a piece of a block of `System` that nobody else has until it is given back, which
// the same layout tells; everything else is `System`'s. Nothing here panics or allocates through itself.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if is_page(layout) {
            return self.take();
        }
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        if !is_page(layout) {
            // SAFETY: as the caller promises; it is `System`'s, because the layout is the one it was asked for with.
            return unsafe { System.dealloc(place, layout) };
        }
        if let Some(page) = NonNull::new(place) {
            // SAFETY: a page by its layout, so it is of `take`, and the caller has it no more.
            unsafe { self.free.lock().unwrap_or_else(PoisonError::into_inner).put(page.cast()) };
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if !is_page(layout) {
            // SAFETY: as the caller promises.
            return unsafe { System.alloc_zeroed(layout) };
        }
        let place = self.take();
        if !place.is_null() {
            // SAFETY: it is that long.
            unsafe { place.write_bytes(0, PAGE_BYTES) };
        }
        place
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as the caller promises, for its alignment and this size.
        let wanted = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        if !is_page(layout) && !is_page(wanted) {
            // SAFETY: as the caller promises; it is `System`'s and stays so.
            return unsafe { System.realloc(place, layout, size) };
        }
        // SAFETY: as the caller promises.
        let moved = unsafe { self.alloc(wanted) };
        if !moved.is_null() {
            // SAFETY: both are at least that long, and one is not part of the other.
            unsafe { ptr::copy_nonoverlapping(place, moved, layout.size().min(size)) };
            // SAFETY: as the caller promises; it goes back by the layout it was asked for with.
            unsafe { self.dealloc(place, layout) };
        }
        moved
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[global_allocator]
    static HEAP: Heap = Heap::new();

    fn page(filled: u8) -> std::sync::Arc<[u8]> {
        std::iter::repeat_n(filled, 4096).collect()
    }

    fn place(page: &[u8]) -> *const u8 {
        page.as_ptr()
    }

    #[test]
    fn a_page_that_one_thread_gave_back_another_takes() {
        let heap = Heap::new();
        let layout = Layout::from_size_align(PAGE_BYTES, 8).unwrap();
        // SAFETY: the layout has a size, and every piece goes back by it.
        let first = unsafe { heap.alloc(layout) } as usize;
        std::thread::scope(|scope| {
            let given = scope.spawn(|| {
                // SAFETY: as above.
                unsafe { heap.dealloc(first as *mut u8, layout) };
            });
            given.join().unwrap();
        });
        // SAFETY: as above.
        assert_eq!(unsafe { heap.alloc(layout) } as usize, first);
    }

    #[test]
    fn every_page_is_somebody_s_alone() {
        let threads: Vec<_> = (0..4u8)
            .map(|thread| {
                std::thread::spawn(move || {
                    let mut pages = Vec::new();
                    for round in 0..3 * BLOCK {
                        pages.push(page(thread));
                        if round % 3 == 0 {
                            pages.swap_remove(round % pages.len());
                        }
                    }
                    assert!(pages.iter().all(|page| page.iter().all(|byte| *byte == thread)));
                    pages
                })
            })
            .collect();
        let pages: Vec<_> = threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
        let mut places: Vec<_> = pages.iter().map(|page| place(page)).collect();
        places.sort_unstable();
        assert!(places.windows(2).all(|two| two[1] as usize - two[0] as usize >= PAGE_BYTES));
    }

    #[test]
    fn what_becomes_a_page_and_stops_being_one_keeps_what_it_holds() {
        let mut bytes: Vec<u8> = (0..PAGE_BYTES - 1).map(|n| n as u8).collect();
        for capacity in [PAGE_BYTES, 2 * PAGE_BYTES, PAGE_BYTES, PAGE_BYTES - 1] {
            bytes.reserve_exact(capacity.saturating_sub(bytes.len()));
            bytes.shrink_to(capacity);
            assert_eq!(bytes.capacity(), capacity);
            assert!(bytes.iter().enumerate().all(|(n, byte)| *byte == n as u8));
        }
        assert!(vec![0u8; PAGE_BYTES].iter().all(|byte| *byte == 0));
    }
}
