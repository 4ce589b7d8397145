//! The common header of the JSON documents of the rt-tests programs, for scripts that read it.

use std::time::SystemTime;

use serde_json::{Value, json};

use crate::machine::line;

/// Returns the head of a document. The field `library` does not exist in rt-tests; readers of its files ignore the
/// field.
pub(crate) fn head(began: SystemTime, failed: bool, threads: usize) -> Value {
    let system = rustix::system::uname();
    json!({
        "file_version": 1,
        // With the colons, as rt-tests writes these two names.
        "cmdline:": crate::shown::command_line(),
        "rt_test_version:": env!("CARGO_PKG_VERSION"),
        "library": "tickless",
        "start_time": date(began),
        "end_time": date(SystemTime::now()),
        "return_code": i32::from(failed),
        "sysinfo": {
            "sysname": system.sysname().to_string_lossy(),
            "nodename": system.nodename().to_string_lossy(),
            "release": system.release().to_string_lossy(),
            "version": system.version().to_string_lossy(),
            "machine": system.machine().to_string_lossy(),
            "realtime": i32::from(line("/sys/kernel/realtime").as_deref() == Some("1")),
        },
        "num_threads": threads,
    })
}

/// Formats a date: `Sat, 21 Nov 2026 08:48:30 +0000`.
fn date(time: SystemTime) -> String {
    httpdate::fmt_http_date(time).replace("GMT", "+0000")
}
