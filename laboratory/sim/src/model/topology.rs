//! The topology of a machine: the caches that CPUs share. The topology decides how long the transfer of a cache line
//! from one CPU to another takes.

use serde::Serialize;

/// The largest number of CPUs of a machine.
pub const CPUS_MAX: u32 = 4_096;

/// The numbering of the CPUs of a machine whose cores have several threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Numbering {
    /// The threads of a core have neighbouring numbers.
    Neighbours,
    /// The first threads of all cores of all sockets have the first numbers, then the second threads.
    ThreadsLast,
}

/// The shape of a machine, in which all sockets are alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Topology {
    /// The number of sockets.
    pub sockets: u32,
    /// The number of last-level caches in a socket.
    pub caches: u32,
    /// The number of cores that share a last-level cache.
    pub cores: u32,
    /// The number of threads of a core.
    pub threads: u32,
    /// The number of NUMA nodes in a socket, which divides its number of caches.
    pub nodes: u32,
    /// The numbers of the CPUs.
    pub numbering: Numbering,
}

/// The place of a CPU. Each number counts through the whole machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuPlace {
    /// The number of the CPU's socket.
    pub socket: u32,
    /// The number of the CPU's last-level cache.
    pub cache: u32,
    /// The number of the CPU's core.
    pub core: u32,
    /// The number of the CPU's NUMA node.
    pub node: u32,
}

/// The distance between two CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Distance {
    /// The two are the same CPU.
    None,
    /// The two are threads of one core.
    Core,
    /// The two share a last-level cache.
    Cache,
    /// The two have different last-level caches of one socket.
    Socket,
    /// The two are on different sockets.
    Remote,
}

impl Distance {
    /// The number of distances.
    pub const COUNT: usize = 5;
}

impl Topology {
    /// Returns the number of CPUs in a socket.
    #[must_use]
    pub const fn cpus_of_socket(&self) -> u32 {
        self.caches * self.cores * self.threads
    }

    /// Returns the number of all CPUs.
    #[must_use]
    pub const fn cpus(&self) -> u32 {
        self.sockets * self.cpus_of_socket()
    }

    /// Returns the number of all NUMA nodes.
    #[must_use]
    pub const fn numa_nodes(&self) -> u32 {
        self.sockets * self.nodes
    }

    /// Returns a machine with `cpus` CPUs: with more or fewer sockets of the same kind, or with one socket reduced to
    /// whole caches, then to whole cores. `None` if that is not possible.
    #[must_use]
    pub fn resized(&self, cpus: u32) -> Option<Self> {
        let mut resized = *self;
        if cpus == 0 {
            return None;
        }
        if cpus.is_multiple_of(self.cpus_of_socket()) {
            resized.sockets = cpus / self.cpus_of_socket();
            return Some(resized);
        }
        let cpus_of_cache = self.cores * self.threads;
        resized.sockets = 1;
        resized.nodes = 1;
        if cpus.is_multiple_of(cpus_of_cache) && cpus < self.cpus_of_socket() {
            resized.caches = cpus / cpus_of_cache;
            return Some(resized);
        }
        if cpus >= cpus_of_cache {
            return None;
        }
        resized.caches = 1;
        if !cpus.is_multiple_of(self.threads) {
            resized.threads = 1;
        }
        resized.cores = cpus / resized.threads;
        Some(resized)
    }

    /// Returns the place of `cpu`.
    #[must_use]
    pub const fn place(&self, cpu: u32) -> CpuPlace {
        let all_cores = self.sockets * self.caches * self.cores;
        let core = match self.numbering {
            Numbering::Neighbours => cpu / self.threads,
            Numbering::ThreadsLast => cpu % all_cores,
        };
        let cache = core / self.cores;
        CpuPlace {
            socket: cache / self.caches,
            cache,
            core,
            node: cache / (self.caches / self.nodes),
        }
    }
}

impl CpuPlace {
    /// Returns the distance between this CPU and another.
    #[must_use]
    pub const fn distance(&self, other: &Self) -> Distance {
        if self.socket != other.socket {
            Distance::Remote
        } else if self.cache != other.cache {
            Distance::Socket
        } else if self.core != other.core {
            Distance::Cache
        } else {
            Distance::Core
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Distance, Numbering, Topology};

    const SKYLAKE: Topology = Topology {
        sockets: 2,
        caches: 1,
        cores: 28,
        threads: 2,
        nodes: 1,
        numbering: Numbering::ThreadsLast,
    };
    const EPYC: Topology = Topology {
        sockets: 2,
        caches: 8,
        cores: 8,
        threads: 1,
        nodes: 1,
        numbering: Numbering::Neighbours,
    };

    fn between(topology: &Topology, one: u32, other: u32) -> Distance {
        topology.place(one).distance(&topology.place(other))
    }

    #[test]
    fn siblings_come_last_where_firmware_numbers_them_so() {
        assert_eq!(SKYLAKE.cpus(), 112);
        assert_eq!(between(&SKYLAKE, 0, 56), Distance::Core);
        assert_eq!(between(&SKYLAKE, 0, 1), Distance::Cache);
        assert_eq!(between(&SKYLAKE, 0, 28), Distance::Remote);
        assert_eq!(SKYLAKE.place(84).node, 1);
    }

    #[test]
    fn caches_of_a_socket_are_apart() {
        assert_eq!(EPYC.cpus(), 128);
        assert_eq!(between(&EPYC, 0, 7), Distance::Cache);
        assert_eq!(between(&EPYC, 0, 8), Distance::Socket);
        assert_eq!(between(&EPYC, 0, 64), Distance::Remote);
        assert_eq!(EPYC.numa_nodes(), 2);
    }

    #[test]
    fn machines_grow_by_sockets_and_shrink_to_cores() {
        assert_eq!(EPYC.resized(4_096).map(|grown| grown.sockets), Some(64));
        for cpus in [1, 2, 4, 8, 16, 64, 128, 256] {
            assert_eq!(EPYC.resized(cpus).map(|sized| sized.cpus()), Some(cpus));
        }
        for cpus in [1, 2, 3, 4, 55, 56, 112, 224] {
            assert_eq!(SKYLAKE.resized(cpus).map(|sized| sized.cpus()), Some(cpus));
        }
        assert_eq!(SKYLAKE.resized(0), None);
        assert_eq!(EPYC.resized(129), None);
    }
}
