//! The machine as the kernel describes it: CPUs, cores, packages, caches, nodes, and the CPUs to keep free of other
//! work.
//!
//! The choice of the CPU for a timer depends on the CPUs that share a core, a cache or a memory, and on the CPUs that
//! must not be disturbed. The kernel describes the CPUs in files under `/sys/devices/system/cpu` and
//! `/sys/devices/system/node`, and this module reads these files:
//!
//! ```
//! let machine = tickless::topology::Topology::read()?;
//! for cpu in machine.cpus() {
//!     println!("CPU {} shares its core with {}", cpu.number, cpu.siblings);
//! }
//! # Ok::<(), tickless::topology::TopologyError>(())
//! ```
//!
//! # What is relied upon
//!
//! Only the list of CPUs that are online must exist. Every other file may be missing, for example in containers, in
//! virtual machines, on other processors than x86, and for CPUs that are offline. Then the fact is unknown, or a CPU
//! counts as a core of its own. A file that exists and cannot be understood is an error with its path and content,
//! never a guess.
//!
//! # Cost
//!
//! Reading takes about 20 small files for each CPU: a few hundred microseconds on a laptop, tens of milliseconds on the
//! largest servers. Nothing is cached.

mod cpu_set;
mod files;
#[cfg(test)]
pub(crate) mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

pub use cpu_set::{CPUS_MAX, CpuSet, ListError};
use files::Files;

/// A description of the machine at the time of the call that read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    possible: CpuSet,
    present: CpuSet,
    online: CpuSet,
    isolated: CpuSet,
    nohz_full: CpuSet,
    allowed: Option<CpuSet>,
    cpus: Vec<Cpu>,
    caches: Vec<Cache>,
    nodes: Vec<Node>,
    kinds: Vec<CoreKind>,
}

/// A CPU that is online: one hardware thread of a core, on which the kernel schedules.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Cpu {
    /// The number of the CPU.
    pub number: u32,
    /// The number of the package (socket).
    pub package: Option<u32>,
    /// The die inside of the package.
    pub die: Option<u32>,
    /// The number of the core, which is unique in its package only.
    pub core: Option<u32>,
    /// All CPUs of the same core that are online, including this CPU.
    pub siblings: CpuSet,
    /// The number of the NUMA node of the CPU's memory.
    pub node: Option<u32>,
    /// The relative speed of the CPU; 1,024 is the fastest CPU of the machine. The speed is known on machines with
    /// several kinds of cores.
    pub capacity: Option<u32>,
}

/// The contents of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum CacheKind {
    /// Data only.
    Data,
    /// Instructions only.
    Instruction,
    /// The cache holds data and instructions.
    Unified,
}

/// A cache, and the CPUs that share it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Cache {
    /// The level of the cache; 1 is nearest to the core.
    pub level: u32,
    /// The contents of the cache.
    pub kind: CacheKind,
    /// The size of the cache in KiB.
    pub size_kib: Option<u64>,
    /// The CPUs that share the cache.
    pub cpus: CpuSet,
}

/// A NUMA node: memory, and the CPUs next to this memory; a node may have no CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Node {
    /// The number of the node.
    pub number: u32,
    /// The CPUs next to the node's memory that are online.
    pub cpus: CpuSet,
    /// The memory of the node in KiB.
    pub memory_kib: Option<u64>,
    /// The distance to the memory of each node, in the order of the nodes' numbers; 10 is the distance of a node to
    /// itself.
    pub distances: Vec<u32>,
}

/// A kind of cores, on a machine with several kinds.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CoreKind {
    /// The kernel's name for the kind: `core`, `atom`, `lowpower`.
    pub name: String,
    /// The CPUs of that kind that are online.
    pub cpus: CpuSet,
}

impl Topology {
    /// Reads the machine that this process runs on.
    ///
    /// # Errors
    ///
    /// [`TopologyError`] if the kernel does not list the CPUs, or if a file cannot be understood.
    pub fn read() -> Result<Self, TopologyError> {
        Self::read_from(Path::new("/"))
    }

    /// Reads a machine from copies of the kernel's files: `root/sys/devices/system/cpu` and so on.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read).
    pub fn read_from(root: &Path) -> Result<Self, TopologyError> {
        let files = Files::new(root);
        let online = files.online()?;
        let nodes = files.nodes(&online)?;
        let cpus = online
            .iter()
            .map(|cpu| files.cpu(cpu, &online, &nodes))
            .collect::<Result<Vec<_>, _>>()?;
        let set_or = |name: &str, default: &CpuSet| {
            let set = files.cpu_list(&format!("sys/devices/system/cpu/{name}"))?;
            Ok(set.unwrap_or_else(|| default.clone()))
        };
        let present = set_or("present", &online)?;
        Ok(Self {
            possible: set_or("possible", &present)?,
            present,
            isolated: files.isolated()?,
            nohz_full: files.nohz_full()?,
            allowed: files.allowed()?,
            caches: files.caches(&online)?,
            kinds: files.kinds(&online)?,
            cpus: with_whole_cores(cpus),
            nodes,
            online,
        })
    }

    /// Returns the CPUs of a machine that are to be left alone. Reads only a few files.
    pub(crate) fn read_quiet(root: &Path) -> Result<CpuSet, TopologyError> {
        let files = Files::new(root);
        Ok(files.isolated()?.union(&files.nohz_full()?))
    }

    /// Returns the CPUs that are to be left alone.
    pub(crate) fn quiet(&self) -> CpuSet {
        self.isolated.union(&self.nohz_full)
    }

    /// Returns the CPUs that could ever be plugged in.
    #[must_use]
    pub fn possible(&self) -> &CpuSet {
        &self.possible
    }

    /// Returns the CPUs that are plugged in.
    #[must_use]
    pub fn present(&self) -> &CpuSet {
        &self.present
    }

    /// Returns the CPUs that are online.
    #[must_use]
    pub fn online(&self) -> &CpuSet {
        &self.online
    }

    /// Returns the CPUs that the scheduler leaves alone: `isolcpus=`, and isolated partitions of control groups
    /// (version 2). If the root of the control groups is mounted (`cpuset.cpus.isolated`), these are all partitions;
    /// otherwise only the process's own group is known.
    #[must_use]
    pub fn isolated(&self) -> &CpuSet {
        &self.isolated
    }

    /// Returns the CPUs that have no tick while they run one task: `nohz_full=`.
    #[must_use]
    pub fn nohz_full(&self) -> &CpuSet {
        &self.nohz_full
    }

    /// Returns the CPUs that this process may run on, if that is known.
    #[must_use]
    pub fn allowed(&self) -> Option<&CpuSet> {
        self.allowed.as_ref()
    }

    /// Returns the CPUs that are online, in the order of their numbers.
    #[must_use]
    pub fn cpus(&self) -> &[Cpu] {
        &self.cpus
    }

    /// Returns the CPU with this number, if it is online.
    #[must_use]
    pub fn cpu(&self, number: u32) -> Option<&Cpu> {
        let place = self.cpus.binary_search_by_key(&number, |cpu| cpu.number);
        Some(&self.cpus[place.ok()?])
    }

    /// Returns the NUMA nodes in the order of their numbers; the slice is empty if the kernel lists no node.
    #[must_use]
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Returns all caches, level by level.
    #[must_use]
    pub fn caches(&self) -> &[Cache] {
        &self.caches
    }

    /// Returns the kinds of cores, if the machine has several; none otherwise.
    #[must_use]
    pub fn kinds(&self) -> &[CoreKind] {
        &self.kinds
    }

    /// Returns the CPUs of each package that are online. The CPUs whose package is unknown count as one package.
    #[must_use]
    pub fn packages(&self) -> BTreeMap<Option<u32>, CpuSet> {
        let mut packages = BTreeMap::<_, CpuSet>::new();
        for cpu in &self.cpus {
            packages.entry(cpu.package).or_default().insert(cpu.number);
        }
        packages
    }

    /// Returns the CPUs of each core that are online, in the order of the cores' first CPUs.
    #[must_use]
    pub fn cores(&self) -> Vec<&CpuSet> {
        let first = |cpu: &&Cpu| cpu.siblings.first() == Some(cpu.number);
        self.cpus
            .iter()
            .filter(first)
            .map(|cpu| &cpu.siblings)
            .collect()
    }

    /// Returns the last cache between `cpu` and the memory, if that is known.
    ///
    /// CPUs with the same last cache pass data to each other without accessing memory.
    #[must_use]
    pub fn last_level_cache(&self, cpu: u32) -> Option<&Cache> {
        self.caches
            .iter()
            .filter(|cache| cache.kind != CacheKind::Instruction && cache.cpus.contains(cpu))
            .max_by_key(|cache| cache.level)
    }

    /// Returns the caches that are the last before memory, in the order of their first CPUs. CPUs without a known cache
    /// are in none of these caches.
    #[must_use]
    pub fn last_level_caches(&self) -> Vec<&Cache> {
        let mut domains = Vec::<&Cache>::new();
        for cpu in &self.cpus {
            if let Some(cache) = self.last_level_cache(cpu.number)
                && !domains.contains(&cache)
            {
                domains.push(cache);
            }
        }
        domains
    }
}

/// Completes the siblings of all CPUs: two CPUs are siblings if either lists the other, and each CPU is a sibling of
/// itself.
fn with_whole_cores(mut cpus: Vec<Cpu>) -> Vec<Cpu> {
    let told: Vec<(u32, CpuSet)> = cpus
        .iter()
        .map(|cpu| (cpu.number, cpu.siblings.clone()))
        .collect();
    for cpu in &mut cpus {
        let also = told
            .iter()
            .filter(|(_, siblings)| siblings.contains(cpu.number))
            .map(|(number, _)| *number);
        cpu.siblings = cpu.siblings.iter().chain(also).collect();
    }
    cpus
}

/// The reason why the machine cannot be described. The error is final until the file changes.
#[derive(Debug)]
pub struct TopologyError {
    path: PathBuf,
    fault: Fault,
}

#[derive(Debug)]
enum Fault {
    Unreadable(io::Error),
    List(ListError),
    /// The content of the file, and the content that was expected.
    Content(String, &'static str),
}

impl TopologyError {
    /// Returns true if this process may not read the file.
    fn is_denial(&self) -> bool {
        let denied = io::ErrorKind::PermissionDenied;
        matches!(&self.fault, Fault::Unreadable(error) if error.kind() == denied)
    }

    /// Returns the path of the file that is missing or wrong.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl fmt::Display for TopologyError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        match &self.fault {
            Fault::Unreadable(error) => write!(formatter, "cannot read {path}: {error}"),
            Fault::List(error) => write!(formatter, "cannot understand {path}: {error}"),
            Fault::Content(content, expected) => {
                write!(
                    formatter,
                    "cannot understand {path}: {content:?} is not {expected}"
                )
            }
        }
    }
}

impl std::error::Error for TopologyError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.fault {
            Fault::Unreadable(error) => Some(error),
            Fault::List(error) => Some(error),
            Fault::Content(..) => None,
        }
    }
}
