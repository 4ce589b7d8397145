//! The description of the machine that was measured.

use std::fmt;
use std::fs;

/// The properties of the machine that matter for the figures.
#[derive(Debug, serde::Serialize)]
pub(crate) struct Machine {
    cpu: String,
    cpus: usize,
    kernel: String,
    clock_source: String,
    time_stamp_counter: String,
}

impl Machine {
    pub(crate) fn read() -> Self {
        let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let cpu = cpu
            .lines()
            .find_map(|line| line.strip_prefix("model name"))
            .unwrap_or("unknown");
        let first_line = |path| {
            fs::read_to_string(path)
                .map_or_else(|_| "unknown".to_owned(), |text| text.trim().to_owned())
        };
        Self {
            cpu: cpu.trim_start_matches(['\t', ' ', ':']).to_owned(),
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            kernel: first_line("/proc/sys/kernel/osrelease"),
            clock_source: first_line(
                "/sys/devices/system/clocksource/clocksource0/current_clocksource",
            ),
            time_stamp_counter: match tickless::clock::time_stamp_counter() {
                Ok(hertz) => format!("{} MHz", hertz / 1_000_000),
                Err(refusal) => format!("not used: {refusal}"),
            },
        }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{} CPUs, {}, Linux {}, clock source {}",
            self.cpus, self.cpu, self.kernel, self.clock_source
        )
    }
}
