//! How much a server takes on: memory for requests and for pages of its store, and connections.
//!
//! Without a word from its user requests may take a quarter of the memory that is free when it starts, or of what its
//! container may use, and the store an eighth, which need not be much.

use std::fs;

use larder_model::limits::{REQUEST_BODY_BYTES_MAX, REQUEST_MEMORY_BYTES_MAX};

use crate::connections::READ_BYTES_MAX;

const MIB: usize = 1024 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// What all requests in flight may make the process take, with their bodies, their answers and their connections: at
    /// least [`Limits::MEMORY_BYTES_MIN`].
    pub memory_bytes: usize,
    /// Fewer are served where [`memory_bytes`](Self::memory_bytes) has no room for them.
    pub connections: usize,
    /// Memory for a store in a directory, for its pages and for what its tree has not absorbed yet, taken as it is used: at
    /// least [`Limits::CACHE_BYTES_MIN`].
    pub cache_bytes: usize,
}

impl Limits {
    /// Less than this, and the largest request there can be would never be let in.
    pub const MEMORY_BYTES_MIN: usize = 256 * MIB;
    pub const CONNECTIONS: usize = 4096;
    /// With less, a commit of the tree would write its pages more than once.
    pub const CACHE_BYTES_MIN: usize = 16 * MIB;
    /// The system keeps pages of files too, in memory that others may have when they need it, and reading one from there takes
    /// some microseconds. So more is for who asks for it.
    const CACHE_BYTES_DEFAULT_MAX: usize = 64 * MIB;
    /// More is of no use to requests of at most sixteen megabytes.
    const MEMORY_BYTES_DEFAULT_MAX: usize = 8 * 1024 * MIB;

    /// The part of [`memory_bytes`](Self::memory_bytes) that requests are counted against. The rest is for what is not
    /// counted: buffers of connections, and what the allocator has not given back, which `larder_heap` bounds. Of 500
    /// hostile clients the server took 155 to 178 MiB where 128 were counted.
    pub(crate) const fn counted_bytes(&self) -> usize {
        (self.memory_bytes / 4 * 3).saturating_sub(64 * MIB)
    }

    /// How many connections are served: as many as half of the rest has room for, if each sends as much as it may of a head
    /// that does not end.
    pub(crate) fn connections_max(&self) -> usize {
        let rest = self.memory_bytes - self.counted_bytes();
        self.connections.min(rest / 2 / READ_BYTES_MAX).max(1)
    }

    /// What suits this machine.
    pub fn of_this_machine() -> Self {
        let available = fs::read_to_string("/proc/meminfo").ok().and_then(|text| available(&text));
        let ours = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"]
            .into_iter()
            .find_map(|path| fs::read_to_string(path).ok()?.trim().parse().ok());
        Self::of(available, ours)
    }

    /// Of what is free, and of what a container may use.
    fn of(available: Option<usize>, ours: Option<usize>) -> Self {
        let free = available.into_iter().chain(ours).min().unwrap_or(1024 * MIB);
        Self {
            memory_bytes: (free / 4).clamp(Self::MEMORY_BYTES_MIN, Self::MEMORY_BYTES_DEFAULT_MAX),
            connections: Self::CONNECTIONS,
            cache_bytes: (free / 8).clamp(Self::CACHE_BYTES_MIN, Self::CACHE_BYTES_DEFAULT_MAX),
        }
    }
}

const _: () = assert!(
    Limits { memory_bytes: Limits::MEMORY_BYTES_MIN, connections: 0, cache_bytes: 0 }.counted_bytes() / 4 * 3
        >= REQUEST_BODY_BYTES_MAX + REQUEST_MEMORY_BYTES_MAX,
    "large requests have three quarters of what is counted"
);

impl Default for Limits {
    fn default() -> Self {
        Self::of_this_machine()
    }
}

/// `MemAvailable`, in bytes.
fn available(meminfo: &str) -> Option<usize> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<usize>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_take_no_more_than_their_part() {
        let served =
            |memory_bytes| Limits { memory_bytes, connections: 4096, cache_bytes: 0 }.connections_max();
        assert_eq!([256 * MIB, 1024 * MIB, 4096 * MIB].map(served), [1024, 2560, 4096]);
    }

    #[test]
    fn a_part_of_what_there_is() {
        let meminfo = "MemTotal:       24673280 kB\nMemFree:  1 kB\nMemAvailable:    4194304 kB\n";
        assert_eq!(available(meminfo), Some(4096 * MIB));
        assert_eq!(available("MemTotal: 1 kB\n"), None);
        let of = |available, ours| {
            let limits = Limits::of(available, ours);
            (limits.memory_bytes / MIB, limits.cache_bytes / MIB)
        };
        assert_eq!(of(Some(4096 * MIB), None), (1024, 64));
        assert_eq!(of(Some(4096 * MIB), Some(2048 * MIB)), (512, 64));
        assert_eq!(of(Some(256 * MIB), None), (256, 32));
        assert_eq!(of(Some(MIB), None), (256, 16));
        assert_eq!(of(None, None), (256, 64));
        assert_eq!(of(Some(usize::MAX), Some(usize::MAX)), (8192, 64));
    }
}
