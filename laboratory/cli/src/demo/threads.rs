//! The processor time and wake-ups of this process's threads, by name.

use std::fs;
use std::io;
use std::ops::{AddAssign, Sub};
use std::time::Duration;

use crate::machine::line;

/// The processor time and the wake-ups of some threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) busy: Duration,
    /// Times that a thread went to sleep by itself. Each sleep ends with a wake-up.
    pub(crate) wakeups: u64,
}

impl Sub for Usage {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            busy: self.busy.saturating_sub(earlier.busy),
            wakeups: self.wakeups.saturating_sub(earlier.wakeups),
        }
    }
}

impl AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.busy += other.busy;
        self.wakeups += other.wakeups;
    }
}

pub(crate) fn named(names: &[&str]) -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc/self/task") else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let name = line(entry.path().join("comm").to_str()?)?;
            let number = entry.file_name().to_str()?.parse().ok()?;
            names.contains(&name.as_str()).then_some(number)
        })
        .collect()
}

/// Returns the sum of the processor time and switches of the threads since they began. Fails if one of them has ended,
/// because its figures are lost.
pub(crate) fn usage(threads: &[u32]) -> io::Result<Usage> {
    let mut sum = Usage::default();
    for thread in threads {
        let path = |file: &str| format!("/proc/self/task/{thread}/{file}");
        let status = fs::read_to_string(path("status"))?;
        let field = |name: &str| {
            let value = status.lines().find_map(|line| line.strip_prefix(name));
            value
                .and_then(|value| value.trim().parse().ok())
                .unwrap_or(0)
        };
        sum += Usage {
            busy: busy(&path("schedstat")).unwrap_or_default(),
            wakeups: field("voluntary_ctxt_switches:"),
        };
    }
    Ok(sum)
}

/// Returns the processor time of a thread: the first of the three numbers in its file, in nanoseconds.
fn busy(path: &str) -> Option<Duration> {
    let nanos = line(path)?.split(' ').next()?.parse().ok()?;
    Some(Duration::from_nanos(nanos))
}

#[cfg(test)]
mod tests {
    use super::{named, usage};

    #[test]
    fn threads_are_found_by_name_and_watched() {
        let watched = std::thread::Builder::new()
            .name("watched".to_owned())
            .spawn(|| {
                let threads = named(&["watched"]);
                let before = usage(&threads).expect("it lives");
                std::thread::sleep(std::time::Duration::from_millis(2));
                let after = usage(&threads).expect("it lives");
                (threads, after - before)
            })
            .expect("a thread");
        let (threads, did) = watched.join().expect("it ends well");
        assert_eq!(threads.len(), 1);
        assert!(did.wakeups >= 1);
        // The kernel may still be clearing it away.
        while named(&["watched"]).contains(&threads[0]) {
            std::thread::yield_now();
        }
        assert!(
            usage(&threads).is_err(),
            "what a thread did that has ended is not known"
        );
        assert!(named(&["none"]).is_empty());
    }
}
