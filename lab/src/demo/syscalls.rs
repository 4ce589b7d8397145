//! How many system calls threads make, counted by the kernel's tracer.
//!
//! There is no counter of them to read. The tracer can be made to note each one in a buffer of its own, which wraps
//! around, and keeps count of what went through. That slows every system call of the machine a little, so it happens in
//! a round of its own whose other figures are not used.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

/// Where the tracer's files are.
const PLACES: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
const EVENT: &str = "events/raw_syscalls/sys_enter";
const NO_TRACER: &str = "system calls were not counted: that takes root and a mounted tracefs \
                         (mount -t tracefs nodev /sys/kernel/tracing)";
/// The kernel gives a trace away only when nobody has it open any more.
const ATTEMPTS: u32 = 50;

/// A trace of its own, which nobody else's trace is mixed with; gone when dropped.
#[derive(Debug)]
pub(crate) struct Counter {
    instance: PathBuf,
}

impl Counter {
    /// Makes one, or says why that cannot be.
    pub(crate) fn new() -> Result<Self, String> {
        let tracer = PLACES
            .into_iter()
            .map(Path::new)
            .find(|place| place.join(EVENT).is_dir())
            .ok_or(NO_TRACER)?;
        let instance = tracer
            .join("instances")
            .join(format!("tickless-{}", std::process::id()));
        fs::create_dir(&instance)
            .map_err(|error| format!("system calls were not counted: the tracer says: {error}"))?;
        Ok(Self { instance })
    }

    fn write(&self, file: &str, content: &str) -> io::Result<()> {
        fs::write(self.instance.join(file), content)
    }

    /// Counts from here on, for these threads only.
    pub(crate) fn start(&self, threads: &[u32]) -> io::Result<()> {
        let list: Vec<String> = threads.iter().map(ToString::to_string).collect();
        self.write("set_event_pid", &list.join(" "))?;
        // Makes the buffer empty, which begins the count at zero.
        self.write("trace", "")?;
        self.write(&format!("{EVENT}/enable"), "1")
    }

    /// Stops counting, and says how many there were.
    pub(crate) fn stop(&self) -> io::Result<u64> {
        self.write(&format!("{EVENT}/enable"), "0")?;
        let mut sum = 0;
        for entry in fs::read_dir(self.instance.join("per_cpu"))? {
            let stats = fs::read_to_string(entry?.path().join("stats"))?;
            // What is in the buffer, and what was in it before it wrapped around.
            for name in ["entries:", "overrun:"] {
                let value = stats.lines().find_map(|line| line.strip_prefix(name));
                let value: Option<u64> = value.and_then(|value| value.trim().parse().ok());
                sum += value.unwrap_or(0);
            }
        }
        Ok(sum)
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
