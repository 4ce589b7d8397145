//! Spikes: latencies above a limit, which are listed one by one.

use std::time::Duration;

use rustix::time::Timespec;

use super::arguments::Spikes as Asked;

/// A latency above the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spike {
    pub(super) late: Duration,
    /// The time of the spike, in microseconds of CLOCK_MONOTONIC.
    pub(super) at: u64,
}

/// The spikes that a thread keeps.
#[derive(Clone, Debug)]
pub(super) struct Spikes {
    asked: Asked,
    count: u64,
    first: Vec<Spike>,
}

impl Spikes {
    /// Makes a list with memory for all spikes, so that recording a spike allocates nothing.
    pub(super) fn new(asked: Asked) -> Self {
        Self {
            asked,
            count: 0,
            first: Vec::with_capacity(asked.most),
        }
    }

    pub(super) fn note(&mut self, late: Duration, now: impl FnOnce() -> Timespec) {
        if late <= self.asked.above {
            return;
        }
        self.count += 1;
        if self.first.len() < self.asked.most {
            let now = now();
            let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
            let nanos = u64::try_from(now.tv_nsec).unwrap_or(0);
            let at = seconds * 1_000_000 + nanos / 1_000;
            self.first.push(Spike { late, at });
        }
    }

    /// Returns the number of spikes.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Returns the first spikes, as many as are listed.
    pub(super) fn first(&self) -> &[Spike] {
        &self.first
    }
}

#[cfg(test)]
mod tests {
    use super::{Asked, Spike, Spikes};
    use rustix::time::Timespec;
    use std::time::Duration;

    #[test]
    fn all_are_counted_and_the_first_are_kept() {
        let micros = Duration::from_micros;
        let mut spikes = Spikes::new(Asked {
            above: micros(20),
            most: 2,
        });
        let now = || Timespec {
            tv_sec: 3,
            tv_nsec: 4_999,
        };
        for late in [20, 21, 5, 22, 23] {
            spikes.note(micros(late), now);
        }
        let at = 3_000_004;
        let expected = [21, 22].map(|late| Spike {
            late: micros(late),
            at,
        });
        assert_eq!((spikes.count(), spikes.first()), (3, &expected[..]));
    }
}
