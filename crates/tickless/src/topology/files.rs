//! Readers of the kernel's files that hold one fact each.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::{Cache, CacheKind, CoreKind, Cpu, CpuSet, Fault, Node, TopologyError};
use crate::host::sys::descriptors::is_no_device;

type Result<T> = std::result::Result<T, TopologyError>;

const CPUS: &str = "sys/devices/system/cpu";
const NODES: &str = "sys/devices/system/node";
/// The directory of the performance counters of each kind of core, which list the CPUs of the kind.
const KINDS: &str = "sys/devices";
/// The control groups, version 2.
const GROUPS: &str = "sys/fs/cgroup";
/// The text that the kernel prints for a list that was never set up, like `nohz_full` without the boot parameter.
const NO_LIST: &str = "(null)";

/// The files under one root.
pub(super) struct Files<'r> {
    root: &'r Path,
}

impl<'r> Files<'r> {
    pub(super) fn new(root: &'r Path) -> Self {
        Self { root }
    }

    /// Returns the CPUs that are online. This list must be known; very old kernels and some containers have only one of
    /// the two files.
    pub(super) fn online(&self) -> Result<CpuSet> {
        for name in ["online", "present", "possible"] {
            let path = format!("{CPUS}/{name}");
            let Some(online) = self.cpu_list(&path)? else {
                continue;
            };
            if online.is_empty() {
                let content = Fault::Content(String::new(), "a list with a CPU in it");
                return Err(self.fault(&path, content));
            }
            return Ok(online);
        }
        let missing = io::Error::from(io::ErrorKind::NotFound);
        Err(self.fault(&format!("{CPUS}/online"), Fault::Unreadable(missing)))
    }

    /// Returns the CPUs that this process may run on.
    pub(super) fn allowed(&self) -> Result<Option<CpuSet>> {
        let path = "proc/self/status";
        let Some(status) = self.text(path)? else {
            return Ok(None);
        };
        let list = status
            .lines()
            .find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        list.map(|list| self.parse_list(path, list)).transpose()
    }

    /// Returns the CPUs that the scheduler leaves alone.
    pub(super) fn isolated(&self) -> Result<CpuSet> {
        let sets = [
            self.cpu_list(&format!("{CPUS}/isolated"))?,
            self.readable_list(&format!("{GROUPS}/cpuset.cpus.isolated"))?,
            self.own_isolated_partition()?,
        ];
        let sets = sets.into_iter().flatten();
        Ok(sets.fold(CpuSet::new(), |all, set| all.union(&set)))
    }

    /// Returns the CPUs without a tick while they run one task.
    pub(super) fn nohz_full(&self) -> Result<CpuSet> {
        let set = self.cpu_list(&format!("{CPUS}/nohz_full"))?;
        Ok(set.unwrap_or_default())
    }

    /// Returns the CPUs of the partition of this process's control group, if the partition is isolated.
    fn own_isolated_partition(&self) -> Result<Option<CpuSet>> {
        let groups = self.readable("proc/self/cgroup")?.unwrap_or_default();
        let own = groups.lines().find_map(|line| line.strip_prefix("0::/"));
        let Some(mut group) = own.filter(|own| !own.split('/').any(|part| part == "..")) else {
            return Ok(None);
        };
        // The nearest group that is the root of a partition. One that is invalid has the CPUs of its parent.
        while !group.is_empty() {
            let file = |name| format!("{GROUPS}/{group}/{name}");
            match self.readable(&file("cpuset.cpus.partition"))?.as_deref() {
                Some("isolated") => return self.readable_list(&file("cpuset.cpus.effective")),
                Some("root") => return Ok(None),
                _ => group = group.rsplit_once('/').map_or("", |(parent, _)| parent),
            }
        }
        Ok(None)
    }

    /// Works as [`text`](Self::text), for a file that a container may hide.
    fn readable(&self, path: &str) -> Result<Option<String>> {
        match self.text(path) {
            Err(error) if error.is_denial() => Ok(None),
            text => text,
        }
    }

    /// Works as [`cpu_list`](Self::cpu_list), for a file that a container may hide.
    fn readable_list(&self, path: &str) -> Result<Option<CpuSet>> {
        match self.cpu_list(path) {
            Err(error) if error.is_denial() => Ok(None),
            list => list,
        }
    }

    /// Returns a CPU that is online.
    pub(super) fn cpu(&self, number: u32, online: &CpuSet, nodes: &[Node]) -> Result<Cpu> {
        let directory = format!("{CPUS}/cpu{number}");
        let topology = |name: &str| format!("{directory}/topology/{name}");
        // The second is what the first was called before Linux 5.3.
        let siblings = match self.cpu_list(&topology("core_cpus_list"))? {
            Some(siblings) => Some(siblings),
            None => self.cpu_list(&topology("thread_siblings_list"))?,
        };
        let alone: CpuSet = [number].into_iter().collect();
        let siblings = siblings.map_or(alone.clone(), |told| told.intersection(online));
        Ok(Cpu {
            number,
            package: self.id(&topology("physical_package_id"))?,
            die: self.id(&topology("die_id"))?,
            core: self.id(&topology("core_id"))?,
            siblings: siblings.iter().chain(alone.iter()).collect(),
            node: nodes
                .iter()
                .find(|node| node.cpus.contains(number))
                .map(|node| node.number),
            capacity: self.id(&format!("{directory}/cpu_capacity"))?,
        })
    }

    /// Returns the caches of all CPUs, each once, in the order of level, kind and first CPU.
    pub(super) fn caches(&self, online: &CpuSet) -> Result<Vec<Cache>> {
        let mut caches = BTreeMap::new();
        for cpu in online.iter() {
            let directory = format!("{CPUS}/cpu{cpu}/cache");
            for (_, index) in self.numbered(&directory, "index")? {
                let Some(cache) = self.cache(&index, cpu, online)? else {
                    continue;
                };
                let key = (
                    cache.level,
                    cache.kind,
                    cache.cpus.first(),
                    cache.cpus.to_string(),
                );
                caches.entry(key).or_insert(cache);
            }
        }
        Ok(caches.into_values().collect())
    }

    fn cache(&self, directory: &str, cpu: u32, online: &CpuSet) -> Result<Option<Cache>> {
        let path = |name: &str| format!("{directory}/{name}");
        let (Some(level), Some(kind)) = (self.id(&path("level"))?, self.text(&path("type"))?)
        else {
            // Virtual machines show empty directories.
            return Ok(None);
        };
        let kind = match kind.as_str() {
            "Data" => CacheKind::Data,
            "Instruction" => CacheKind::Instruction,
            "Unified" => CacheKind::Unified,
            _ => {
                let content = Fault::Content(kind, "\"Data\", \"Instruction\" or \"Unified\"");
                return Err(self.fault(&path("type"), content));
            }
        };
        let shared = self
            .cpu_list(&path("shared_cpu_list"))?
            .unwrap_or_default()
            .intersection(online);
        Ok(Some(Cache {
            level,
            kind,
            size_kib: self.size(&path("size"))?,
            cpus: shared.iter().chain([cpu]).collect(),
        }))
    }

    /// Returns the nodes in the order of their numbers.
    pub(super) fn nodes(&self, online: &CpuSet) -> Result<Vec<Node>> {
        self.numbered(NODES, "node")?
            .into_iter()
            .map(|(number, directory)| {
                let cpus = self.cpu_list(&format!("{directory}/cpulist"))?;
                Ok(Node {
                    number,
                    cpus: cpus.unwrap_or_default().intersection(online),
                    memory_kib: self.memory(&format!("{directory}/meminfo"))?,
                    distances: self.distances(&format!("{directory}/distance"))?,
                })
            })
            .collect()
    }

    fn memory(&self, path: &str) -> Result<Option<u64>> {
        let Some(text) = self.text(path)? else {
            return Ok(None);
        };
        // "Node 0 MemTotal:  24689812 kB"
        let Some((_, rest)) = text.lines().find_map(|line| line.split_once("MemTotal:")) else {
            return Ok(None);
        };
        let kib = rest
            .trim()
            .strip_suffix("kB")
            .and_then(|kib| kib.trim().parse().ok());
        match kib {
            Some(kib) => Ok(Some(kib)),
            None => Err(self.fault(path, Fault::Content(rest.trim().to_owned(), "a size in kB"))),
        }
    }

    fn distances(&self, path: &str) -> Result<Vec<u32>> {
        let text = self.text(path)?.unwrap_or_default();
        let distances: Option<Vec<u32>> = text
            .split_whitespace()
            .map(|word| word.parse().ok())
            .collect();
        distances
            .ok_or_else(|| self.fault(path, Fault::Content(text.clone(), "a row of distances")))
    }

    /// Returns the kinds of cores of a hybrid machine.
    pub(super) fn kinds(&self, online: &CpuSet) -> Result<Vec<CoreKind>> {
        let mut kinds = Vec::new();
        for name in ["core", "atom", "lowpower"] {
            if let Some(cpus) = self.cpu_list(&format!("{KINDS}/cpu_{name}/cpus"))? {
                kinds.push(CoreKind {
                    name: name.to_owned(),
                    cpus: cpus.intersection(online),
                });
            }
        }
        Ok(kinds)
    }

    /// Reads a list of CPUs; returns `None` if the file does not exist.
    pub(super) fn cpu_list(&self, path: &str) -> Result<Option<CpuSet>> {
        match self.text(path)? {
            None => Ok(None),
            Some(text) if text == NO_LIST => Ok(Some(CpuSet::new())),
            Some(text) => self.parse_list(path, &text).map(Some),
        }
    }

    fn parse_list(&self, path: &str, list: &str) -> Result<CpuSet> {
        list.parse()
            .map_err(|error| self.fault(path, Fault::List(error)))
    }

    /// Reads a number; returns `None` if the file does not exist or says that the number is unknown.
    fn id(&self, path: &str) -> Result<Option<u32>> {
        let Some(text) = self.text(path)? else {
            return Ok(None);
        };
        if text == "-1" {
            return Ok(None);
        }
        match text.parse() {
            Ok(id) => Ok(Some(id)),
            Err(_) => Err(self.fault(path, Fault::Content(text, "a number"))),
        }
    }

    /// Reads the size of a cache in KiB.
    fn size(&self, path: &str) -> Result<Option<u64>> {
        let Some(text) = self.text(path)? else {
            return Ok(None);
        };
        match text.strip_suffix('K').map(str::parse) {
            Some(Ok(kib)) => Ok(Some(kib)),
            _ => Err(self.fault(path, Fault::Content(text, "a size like \"512K\""))),
        }
    }

    /// Returns the entries of a directory that are called `prefix` and a number, in the order of the numbers.
    fn numbered(&self, directory: &str, prefix: &str) -> Result<Vec<(u32, String)>> {
        let entries = match fs::read_dir(self.root.join(directory)) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(self.fault(directory, Fault::Unreadable(error))),
        };
        let mut found = Vec::new();
        for entry in entries {
            let name = entry
                .map_err(|error| self.fault(directory, Fault::Unreadable(error)))?
                .file_name();
            let number = name
                .to_str()
                .and_then(|name| name.strip_prefix(prefix)?.parse().ok());
            if let Some(number) = number {
                found.push((number, format!("{directory}/{prefix}{number}")));
            }
        }
        found.sort_unstable();
        Ok(found)
    }

    /// Returns the content of a file without the white space around it; `None` if the file does not exist.
    fn text(&self, path: &str) -> Result<Option<String>> {
        match fs::read_to_string(self.root.join(path)) {
            Ok(text) => Ok(Some(text.trim().to_owned())),
            Err(error) if is_absence(&error) => Ok(None),
            Err(error) => Err(self.fault(path, Fault::Unreadable(error))),
        }
    }

    fn fault(&self, path: &str, fault: Fault) -> TopologyError {
        let path: PathBuf = self.root.join(path);
        TopologyError { path, fault }
    }
}

/// Returns true if the error says that a file does not exist, and false if the file exists but cannot be read.
///
/// Reading a file of a CPU that is just taken offline fails with the error that no such device exists.
fn is_absence(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    ) || is_no_device(error)
}
