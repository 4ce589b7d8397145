//! The description of the machine that was measured.

use std::fs;

/// Returns the properties of the machine that matter for the figures.
pub(crate) fn describe() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let mut lines = info.lines();
    let cpu = lines.find_map(|line| line.strip_prefix("model name"));
    let first_line =
        |path| fs::read_to_string(path).map_or("?".to_owned(), |text| text.trim().to_owned());
    format!(
        "{} CPUs, {}, Linux {}, clock source {}",
        std::thread::available_parallelism().map_or(1, usize::from),
        cpu.unwrap_or("unknown")
            .trim_start_matches(['\t', ' ', ':']),
        first_line("/proc/sys/kernel/osrelease"),
        first_line("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
    )
}
