//! The mixes: tasks that run at the same time, with the entitlement of each task.

use std::time::Duration;

use clap::ValueEnum;
use serde::Serialize;

/// A mix that is ready made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Preset {
    /// A periodic task of 200 us beside 8 tasks that compute
    Periodic,
    /// One task that computes
    One,
    /// 10 tasks that compute, of weights 1 to 4
    Ten,
    /// 1,000 tasks that compute, of weights 1 to 4
    Many,
    /// 4 servers and 2 periodic tasks beside 8 tasks that compute
    Servers,
    /// Two tasks that compute, 8 to 1, and a small periodic one, on one worker, in slices of 100 us: what clockworker
    /// is made for
    Queues,
}

impl Preset {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Periodic => "periodic",
            Self::One => "one",
            Self::Ten => "ten",
            Self::Many => "many",
            Self::Servers => "servers",
            Self::Queues => "queues",
        }
    }

    /// Returns the mix. Its number of workers is 0 if the machine decides the number.
    pub(super) fn mix(self) -> Mix {
        let quiet = Mix {
            workers: 0,
            hogs: 0,
            hog_weights: vec![1],
            chunk: Duration::from_micros(10),
            slice: None,
            servers: Servers {
                count: 0,
                weight: 1,
                rate: 500,
                cost: Duration::from_micros(50),
            },
            periodic: Periodic {
                count: 0,
                weight: 1,
                period: Duration::from_micros(200),
                cost: Duration::from_micros(10),
            },
        };
        let one_to_four = vec![1, 2, 3, 4];
        match self {
            Self::Periodic => Mix {
                hogs: 8,
                periodic: quiet.periodic.times(1),
                ..quiet
            },
            Self::One => Mix { hogs: 1, ..quiet },
            Self::Ten => Mix {
                hogs: 10,
                hog_weights: one_to_four,
                ..quiet
            },
            // Each gets some milliseconds of the run only, which a longer slice would not divide finely enough.
            Self::Many => Mix {
                hogs: 1_000,
                hog_weights: one_to_four,
                slice: Some(Duration::from_micros(100)),
                ..quiet
            },
            Self::Servers => Mix {
                hogs: 8,
                servers: Servers {
                    count: 4,
                    weight: 4,
                    ..quiet.servers
                },
                periodic: Periodic {
                    period: Duration::from_millis(1),
                    ..quiet.periodic.times(2)
                },
                ..quiet
            },
            Self::Queues => Mix {
                workers: 1,
                hogs: 2,
                hog_weights: vec![8, 1],
                // The small task waits for the slice that runs, and the shares end within one. clockworker decides at
                // each checkpoint.
                slice: Some(Duration::from_micros(100)),
                periodic: Periodic {
                    weight: 4,
                    period: Duration::from_millis(1),
                    ..quiet.periodic.times(1)
                },
                ..quiet
            },
        }
    }
}

/// A set of tasks that run at the same time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Mix {
    pub(super) workers: usize,
    /// Tasks that compute and never wait.
    pub(super) hogs: usize,
    /// The weights of tasks that compute, assigned to them in rotation.
    pub(super) hog_weights: Vec<u32>,
    /// The computing time between two checkpoints.
    #[serde(rename = "chunk_ns", serialize_with = "super::as_nanos")]
    pub(super) chunk: Duration,
    /// The request size of all tasks; `None` for the default of each runtime.
    #[serde(rename = "slice_ns", serialize_with = "super::as_nanos_if_any")]
    pub(super) slice: Option<Duration>,
    pub(super) servers: Servers,
    pub(super) periodic: Periodic,
}

/// Tasks that wait for requests, which another thread sends at random times.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Servers {
    pub(super) count: usize,
    pub(super) weight: u32,
    /// The requests a second to each server.
    pub(super) rate: u32,
    /// The computing time of a request.
    #[serde(rename = "cost_ns", serialize_with = "super::as_nanos")]
    pub(super) cost: Duration,
}

/// Tasks that wait for a time, again and again.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Periodic {
    pub(super) count: usize,
    pub(super) weight: u32,
    #[serde(rename = "period_ns", serialize_with = "super::as_nanos")]
    pub(super) period: Duration,
    /// The computing time of each period.
    #[serde(rename = "cost_ns", serialize_with = "super::as_nanos")]
    pub(super) cost: Duration,
}

impl Periodic {
    fn times(self, count: usize) -> Self {
        Self { count, ..self }
    }
}

impl Mix {
    /// Returns the weight of each task that computes.
    pub(super) fn weights(&self) -> Vec<u32> {
        let weights = self.hog_weights.iter().copied().cycle();
        weights.take(self.hogs).collect()
    }

    /// Returns the load of the tasks that wait, as a number of workers; more than all workers makes no sense.
    pub(super) fn asked_by_sleepers(&self) -> f64 {
        let served = f64::from(self.servers.rate) * self.servers.cost.as_secs_f64();
        let period = self.periodic.period.as_secs_f64().max(f64::MIN_POSITIVE);
        let ticked = self.periodic.cost.as_secs_f64() / period;
        self.servers.count as f64 * served + self.periodic.count as f64 * ticked
    }

    pub(super) fn tasks(&self) -> usize {
        self.hogs + self.servers.count + self.periodic.count
    }
}

/// Returns the share of each task in the time that all tasks got together: by its weight, but never more than one
/// worker. The time that heavier tasks cannot use goes to the other tasks, by weight.
pub(super) fn entitlements(weights: &[u32], workers: usize) -> Vec<f64> {
    let busy = workers.min(weights.len()).max(1) as f64;
    let mut shares = vec![0.0; weights.len()];
    let mut open: Vec<usize> = (0..weights.len()).collect();
    let mut left = busy;
    loop {
        let sum: f64 = open.iter().map(|&place| f64::from(weights[place])).sum();
        // Those that would get more than a worker get one; among the rest the question is open again.
        let (full, rest): (Vec<usize>, Vec<usize>) = open
            .iter()
            .partition(|&&place| left * f64::from(weights[place]) >= sum);
        if full.is_empty() {
            for place in open {
                shares[place] = left * f64::from(weights[place]) / sum / busy;
            }
            return shares;
        }
        for place in full {
            shares[place] = 1.0 / busy;
            left -= 1.0;
        }
        open = rest;
    }
}

#[cfg(test)]
mod tests {
    use super::{Preset, entitlements};

    fn thousandths(weights: &[u32], workers: usize) -> Vec<u32> {
        let shares = entitlements(weights, workers);
        let total: f64 = shares.iter().sum();
        assert!(
            (total - 1.0).abs() < 1e-9 || weights.is_empty(),
            "{shares:?}"
        );
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "shares are between 0 and 1"
        )]
        shares
            .iter()
            .map(|share| (share * 1_000.0).round() as u32)
            .collect()
    }

    #[test]
    fn a_share_is_the_weights_part() {
        assert_eq!(thousandths(&[1], 1), [1000]);
        assert_eq!(thousandths(&[8, 1, 1], 1), [800, 100, 100]);
        assert_eq!(thousandths(&[1, 2, 3, 4], 2), [100, 200, 300, 400]);
    }

    #[test]
    fn no_task_is_entitled_to_more_than_a_worker() {
        // 8/10 of two workers would be more than one.
        assert_eq!(thousandths(&[8, 1, 1], 2), [500, 250, 250]);
        assert_eq!(thousandths(&[100, 10, 1, 1], 3), [333, 333, 167, 167]);
        assert_eq!(thousandths(&[5, 1], 4), [500, 500]);
        assert_eq!(thousandths(&[], 2), [0; 0]);
    }

    #[test]
    fn mixes_that_are_ready_made_leave_room_for_those_that_compute() {
        for preset in [
            Preset::Periodic,
            Preset::One,
            Preset::Ten,
            Preset::Many,
            Preset::Servers,
            Preset::Queues,
        ] {
            let mix = preset.mix();
            assert!(mix.asked_by_sleepers() < 0.5, "{}", preset.name());
            assert_eq!(mix.weights().len(), mix.hogs);
        }
    }
}
