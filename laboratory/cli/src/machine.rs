//! The machine that a measurement was taken on, as far as it matters to timers.

use std::fs;

use serde::Serialize;

use crate::units;

/// The properties of a machine that a reader needs to compare figures with those of another machine.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Machine {
    pub(crate) cpu: String,
    /// CPUs that this process may use.
    pub(crate) cpus: usize,
    pub(crate) kernel: String,
    pub(crate) architecture: String,
    /// True if this is a virtual machine, whose timers fire through its host.
    pub(crate) is_virtual: bool,
    pub(crate) clock_source: Option<String>,
    /// The frequency governor of the first CPU; `None` if the machine or its host controls the frequency alone.
    pub(crate) governor: Option<String>,
}

impl Machine {
    pub(crate) fn read() -> Self {
        let system = rustix::system::uname();
        let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let field = |name: &str| {
            info.lines()
                .filter_map(|line| line.split_once(':'))
                .find(|(key, _)| key.trim() == name)
                .map(|(_, value)| value.trim().to_owned())
        };
        let cpu = field("model name").or_else(|| field("Model"));
        let flags = field("flags").unwrap_or_default();
        Self {
            cpu: cpu.unwrap_or_else(|| "unknown".to_owned()),
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            kernel: format!(
                "{} {}",
                system.sysname().to_string_lossy(),
                system.release().to_string_lossy()
            ),
            architecture: system.machine().to_string_lossy().into_owned(),
            is_virtual: flags.split(' ').any(|flag| flag == "hypervisor"),
            clock_source: line("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
            governor: line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        }
    }

    /// Describes the machine in one line.
    pub(crate) fn summary(&self) -> String {
        let virtual_machine = if self.is_virtual {
            ", virtual machine"
        } else {
            ""
        };
        let clock = self.clock_source.as_deref().unwrap_or("unknown");
        let governor = self
            .governor
            .as_ref()
            .map_or_else(String::new, |name| format!(", governor {name}"));
        format!(
            "{}, {}{virtual_machine}, {}, clock source {clock}{governor}",
            self.cpu,
            units::counted(self.cpus as u64, "CPU"),
            self.kernel
        )
    }
}

/// Returns the content of a file that has one line; `None` if the file cannot be read or is empty.
pub(crate) fn line(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}
