//! The number of system calls of threads, counted by the kernel's tracer.
//!
//! The kernel has no counter of system calls to read. Its tracer can record each call in a ring buffer, and counts the
//! recorded calls. Tracing slows every system call of the machine a little, so the demo counts in a round of its own,
//! and does not use the other figures of this round.
//!
//! `perf_event_open` counts the same event at a lower cost, but needs root as well: the number of the event is in the
//! same directory.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

/// The directories in which the tracer's files may be.
const PLACES: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
const EVENT: &str = "events/raw_syscalls/sys_enter";
/// The prefix of a trace's name, before the number of the process to which the trace belongs.
const PREFIX: &str = "tickless-";
const NO_TRACER: &str = "system calls were not counted: that takes root and a mounted tracefs \
                         (mount -t tracefs nodev /sys/kernel/tracing)";
/// The number of attempts to remove a trace. The kernel removes a trace only when no process has it open any more.
const ATTEMPTS: u32 = 50;

/// A separate trace, which is not mixed with the trace of another process, and is removed when dropped.
#[derive(Debug)]
pub(crate) struct Counter {
    instance: PathBuf,
}

impl Counter {
    /// Makes a trace, or returns the reason why that is impossible.
    pub(crate) fn new() -> Result<Self, String> {
        let tracer = PLACES
            .into_iter()
            .map(Path::new)
            .find(|place| place.join(EVENT).is_dir())
            .ok_or(NO_TRACER)?;
        let instances = tracer.join("instances");
        remove_orphans(&instances);
        let instance = instances.join(format!("{PREFIX}{}", std::process::id()));
        fs::create_dir(&instance)
            .map_err(|error| format!("system calls were not counted: the tracer says: {error}"))?;
        Ok(Self { instance })
    }

    fn write(&self, file: &str, content: &str) -> io::Result<()> {
        fs::write(self.instance.join(file), content)
    }

    /// Counts the system calls of these threads from here on.
    pub(crate) fn start(&self, threads: &[u32]) -> io::Result<()> {
        let list: Vec<String> = threads.iter().map(ToString::to_string).collect();
        self.write("set_event_pid", &list.join(" "))?;
        // Makes the buffer empty, which begins the count at zero.
        self.write("trace", "")?;
        self.write(&format!("{EVENT}/enable"), "1")
    }

    /// Stops counting, and returns the number of system calls.
    pub(crate) fn stop(&self) -> io::Result<u64> {
        self.write(&format!("{EVENT}/enable"), "0")?;
        let mut sum = 0;
        for entry in fs::read_dir(self.instance.join("per_cpu"))? {
            sum += noted(&fs::read_to_string(entry?.path().join("stats"))?);
        }
        Ok(sum)
    }
}

/// Returns the number of events that a CPU recorded: those in its buffer, and those that later events overwrote.
fn noted(stats: &str) -> u64 {
    let count = |name| {
        let value = stats.lines().find_map(|line| line.strip_prefix(name));
        value.and_then(|value: &str| value.trim().parse::<u64>().ok())
    };
    count("entries:").unwrap_or(0) + count("overrun:").unwrap_or(0)
}

/// Removes the traces of processes that were killed before they could remove them.
fn remove_orphans(instances: &Path) {
    let Ok(entries) = fs::read_dir(instances) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        if process.is_some_and(|process| !Path::new("/proc").join(process).exists()) {
            // Another process may be doing the same.
            let _off = fs::write(entry.path().join(EVENT).join("enable"), "0");
            let _gone = fs::remove_dir(entry.path());
        }
    }
}

impl Drop for Counter {
    fn drop(&mut self) {
        // Whatever happened before, nothing of it must stay behind in the kernel.
        let _off = self.write(&format!("{EVENT}/enable"), "0");
        for _ in 0..ATTEMPTS {
            if fs::remove_dir(&self.instance).is_ok() {
                break;
            }
            thread::sleep(Duration::from_millis(2));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::noted;

    #[test]
    fn events_that_were_overwritten_count_as_well() {
        let stats = "entries: 1024\noverrun: 37\ncommit overrun: 5\nbytes: 40960\nread events: 0\n";
        assert_eq!(noted(stats), 1_061);
        assert_eq!(noted(""), 0);
    }
}
