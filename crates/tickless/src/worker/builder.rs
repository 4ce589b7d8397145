//! The builder of a group of workers.

use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use super::error::BuildError;
use super::local::IsolatedTimers;
use super::schedule::prioritise;
use super::worker::{Parking, Unparker, Worker};
use crate::host::isolation::Occupancy;
use crate::host::registry::THREADS_MAX;
use crate::host::sys::threads;
use crate::topology::{CpuSet, Topology};

/// The settings of a group of threads that become [workers](Worker); [`Workers::builder`] makes one.
///
/// ```
/// use std::time::Duration;
/// use tickless::{Workers, time};
///
/// let workers = Workers::builder().workers(2).name("shard").spawn(|worker, number| {
///     worker.block_on(async {
///         time::sleep(Duration::from_millis(1)).await;
///         number * 10
///     })
/// })?;
/// let results: Vec<_> = workers.join().into_iter().map(Result::unwrap).collect();
/// assert_eq!(results, [0, 10]);
/// # Ok::<(), tickless::BuildError>(())
/// ```
///
/// # CPUs
///
/// Without [`pin`](Self::pin), workers run where the scheduler puts them. With `pin`, each worker has a CPU, and the
/// workers on some of the CPUs can be [isolated](Self::isolate): they do not fire other workers' timers, and other
/// workers do not fire theirs.
///
/// ```
/// use tickless::Workers;
/// use tickless::topology::{CpuSet, Topology};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let machine = Topology::read()?;
/// let cpus = CpuSet::parse_within("all", machine.allowed().unwrap_or(machine.online()))?;
/// // All but the first.
/// let quiet: CpuSet = cpus.iter().skip(1).collect();
/// let workers = Workers::builder().pin(cpus).isolate(quiet).spawn(|worker, _| worker.is_isolated())?;
/// let isolated: Vec<_> = workers.join().into_iter().map(Result::unwrap).collect();
/// assert!(!isolated[0] && isolated[1..].iter().all(|isolated| *isolated));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a builder starts nothing until it is told to spawn"]
pub struct Builder {
    workers: Option<usize>,
    name: String,
    parking: Parking,
    pinned: Option<CpuSet>,
    isolated: Isolated,
    isolated_timers: IsolatedTimers,
    helped: Option<bool>,
    realtime_priority: Option<u8>,
}

/// The largest number of workers at a time: one base belongs to the expiry thread.
const WORKERS_MAX: usize = THREADS_MAX - 1;

/// The choice of the workers that are to be isolated.
#[derive(Clone, Debug)]
enum Isolated {
    Cpus(CpuSet),
    AsTheSystemSays,
}

/// The CPU of a worker, and its role.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct WorkerPlace {
    cpu: Option<u32>,
    isolated: bool,
}

impl Builder {
    pub(super) const fn new() -> Self {
        Self {
            workers: None,
            name: String::new(),
            parking: Parking::Sleep,
            pinned: None,
            isolated: Isolated::Cpus(CpuSet::new()),
            isolated_timers: IsolatedTimers::Stay,
            helped: None,
            realtime_priority: None,
        }
    }

    /// Sets the number of workers, 65,535 at most. Default: the number of CPUs of [`pin`](Self::pin), if it was called,
    /// or else [`available_parallelism`](thread::available_parallelism).
    pub const fn workers(mut self, workers: usize) -> Self {
        self.workers = Some(workers);
        self
    }

    /// Sets the name of the threads; each gets its number appended: `shard` makes `shard-0`, `shard-1` and so on, and
    /// the system shows 15 bytes of each name. Default: `tickless`.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Sets how all workers wait. Default: [`Parking::Sleep`].
    pub const fn parking(mut self, parking: Parking) -> Self {
        self.parking = parking;
        self
    }

    /// Pins one worker to each of these CPUs, in the order of their numbers.
    pub fn pin(mut self, cpus: CpuSet) -> Self {
        self.pinned = Some(cpus);
        self
    }

    /// [Isolates](Worker::set_isolated) the workers on these CPUs from the start.
    pub fn isolate(mut self, cpus: CpuSet) -> Self {
        self.isolated = Isolated::Cpus(cpus);
        self
    }

    /// [Isolates](Worker::set_isolated) the workers on the CPUs that the kernel keeps free of other work: `isolcpus=`,
    /// isolated partitions, `nohz_full=`.
    pub fn isolate_like_the_system(mut self) -> Self {
        self.isolated = Isolated::AsTheSystemSays;
        self
    }

    /// Sets the queue that receives timers which isolated workers start. Default: [`IsolatedTimers::Stay`].
    pub const fn isolated_timers(mut self, policy: IsolatedTimers) -> Self {
        self.isolated_timers = policy;
        self
    }

    /// Sets whether the background thread fires exact timers of a worker that has taken no turn 10 ms after the first
    /// of these timers was due. Default: the background thread does so for workers that are not isolated. The setting
    /// holds for all workers, including isolated workers, and each worker can [change](Worker::set_helped) it.
    pub const fn helped(mut self, is_helped: bool) -> Self {
        self.helped = Some(is_helped);
        self
    }

    /// Sets the threads' real-time priority, 1 to 99, as [`Worker::set_realtime_priority`] does. Default: none.
    ///
    /// A number that is not a priority, or a refusal of the system, is [`BuildError::Schedule`].
    pub const fn realtime_priority(mut self, priority: u8) -> Self {
        self.realtime_priority = Some(priority);
        self
    }

    /// Returns the number of workers on this machine.
    pub(crate) fn count(&self) -> Result<usize, BuildError> {
        Ok(self.places()?.len())
    }

    /// Starts the workers. Each worker calls `body` with its number.
    ///
    /// All threads are workers, pinned and isolated as requested, before the first `body` begins. If a worker cannot be
    /// started, no `body` begins.
    ///
    /// # Errors
    ///
    /// [`BuildError`] if the settings do not fit the machine, or if the system refuses a thread or a CPU.
    pub fn spawn<F, R>(self, body: F) -> Result<Workers<R>, BuildError>
    where
        F: Fn(&Worker, usize) -> R + Clone + Send + 'static,
        R: Send + 'static,
    {
        let places = self.places()?;
        let mut starts = Vec::with_capacity(places.len());
        // In case of an error what is started so far ends: no message tells it to go on.
        for (number, place) in places.iter().enumerate() {
            starts.push(self.start(number, *place, body.clone())?);
        }
        let unparkers = starts
            .iter()
            .map(Start::ready)
            .collect::<Result<Vec<_>, _>>()?;
        // Now that all are there none is the last.
        for start in &starts {
            start.go_on();
        }
        for start in &starts {
            start.ready()?;
        }
        for start in &starts {
            start.go_on();
        }
        let occupancies = unparkers.iter().map(Unparker::occupancy);
        let cpus = places.iter().map(|place| place.cpu);
        Ok(Workers {
            places: occupancies.zip(cpus).collect(),
            threads: starts.into_iter().map(|start| start.thread).collect(),
            unparkers,
        })
    }

    fn start<F, R>(
        &self,
        number: usize,
        place: WorkerPlace,
        body: F,
    ) -> Result<Start<R>, BuildError>
    where
        F: Fn(&Worker, usize) -> R + Send + 'static,
        R: Send + 'static,
    {
        let prefix = if self.name.is_empty() {
            "tickless"
        } else {
            &self.name
        };
        let (parking, policy, helped) = (self.parking, self.isolated_timers, self.helped);
        let priority = self.realtime_priority;
        let (report, reports) = mpsc::channel();
        let (gate, opened) = mpsc::channel();
        let work = move || {
            let enter = || {
                if let Some(cpu) = place.cpu {
                    pin(cpu)?;
                }
                if priority.is_some() {
                    prioritise(priority).map_err(BuildError::Schedule)?;
                }
                let worker = Worker::with_parking(parking).map_err(BuildError::Start)?;
                worker.set_isolated_timers(policy);
                if let Some(is_helped) = helped {
                    worker.set_helped(is_helped);
                }
                Ok(worker)
            };
            let (worker, entered) = match enter() {
                Ok(worker) => {
                    let unparker = worker.unparker();
                    (Some(worker), Ok(unparker))
                }
                Err(error) => (None, Err(error)),
            };
            let is_told = |result| report.send(result).is_ok() && opened.recv().is_ok();
            if !is_told(entered) {
                return None;
            }
            let worker = worker?;
            let isolated = if place.isolated {
                worker.set_isolated(true)
            } else {
                Ok(())
            };
            let isolated = isolated.map(|()| worker.unparker());
            if !is_told(isolated.map_err(BuildError::Isolation)) {
                return None;
            }
            drop((report, opened));
            Some(body(&worker, number))
        };
        let thread = thread::Builder::new()
            .name(format!("{prefix}-{number}"))
            .spawn(work)
            .map_err(|error| BuildError::Thread { number, error })?;
        Ok(Start {
            thread,
            reports,
            gate,
        })
    }

    /// Returns the places of the workers on this machine.
    fn places(&self) -> Result<Vec<WorkerPlace>, BuildError> {
        if self.workers == Some(0) {
            return Err(BuildError::NoWorkers);
        }
        if let Some(workers) = self.workers
            && workers > WORKERS_MAX
        {
            return Err(BuildError::TooMany {
                workers,
                most: WORKERS_MAX,
            });
        }
        if self.name.contains('\0') {
            return Err(BuildError::NulInName);
        }
        if let (None, Isolated::Cpus(cpus)) = (&self.pinned, &self.isolated)
            && cpus.is_empty()
        {
            // Nothing to be known of the machine.
            let workers = self.workers.unwrap_or_else(|| {
                thread::available_parallelism().map_or(1, std::num::NonZero::get)
            });
            return Ok(vec![WorkerPlace::default(); workers]);
        }
        self.places_on(&Topology::read().map_err(BuildError::Topology)?)
    }

    /// Returns the places of the workers on `machine`.
    fn places_on(&self, machine: &Topology) -> Result<Vec<WorkerPlace>, BuildError> {
        let Some(pinned) = &self.pinned else {
            return Err(BuildError::IsolatedNotPinned);
        };
        let missing = pinned.difference(machine.online());
        if !missing.is_empty() {
            return Err(BuildError::NotOfThisMachine {
                cpus: missing,
                machine: machine.online().clone(),
            });
        }
        let workers = self.workers.unwrap_or(pinned.len());
        if workers == 0 {
            return Err(BuildError::NoWorkers);
        }
        if workers > pinned.len() {
            return Err(BuildError::TooManyForCpus {
                workers,
                cpus: pinned.clone(),
            });
        }
        let used: CpuSet = pinned.iter().take(workers).collect();
        let isolated = match &self.isolated {
            Isolated::Cpus(cpus) => {
                let without = cpus.difference(&used);
                if !without.is_empty() {
                    return Err(BuildError::NoWorkerThere {
                        cpus: without,
                        used,
                    });
                }
                cpus.clone()
            }
            Isolated::AsTheSystemSays => machine.quiet().intersection(&used),
        };
        if isolated.len() == used.len() {
            return Err(BuildError::AllIsolated { cpus: isolated });
        }
        let place = |cpu| WorkerPlace {
            cpu: Some(cpu),
            isolated: isolated.contains(cpu),
        };
        Ok(used.iter().map(place).collect())
    }
}

/// A thread of the group that waits until all others have started.
#[derive(Debug)]
struct Start<R> {
    thread: JoinHandle<Option<R>>,
    reports: mpsc::Receiver<Result<Unparker, BuildError>>,
    gate: mpsc::Sender<()>,
}

impl<R> Start<R> {
    /// Waits until the thread has done its work.
    fn ready(&self) -> Result<Unparker, BuildError> {
        self.reports.recv().unwrap_or(Err(BuildError::Died))
    }

    fn go_on(&self) {
        // Should it be gone, the next report says so.
        let _gone = self.gate.send(());
    }
}

/// Keeps this thread on `cpu`.
fn pin(cpu: u32) -> Result<(), BuildError> {
    threads::pin([cpu]).map_err(|error| BuildError::Pin { cpu, error })
}

/// A group of threads that are [workers](Worker); [`Builder::spawn`] starts them.
///
/// Dropping the value leaves the workers running, as with [`JoinHandle`].
#[derive(Debug)]
pub struct Workers<R> {
    threads: Vec<JoinHandle<Option<R>>>,
    unparkers: Vec<Unparker>,
    /// The place of each worker, and its CPU.
    places: Vec<(Occupancy, Option<u32>)>,
}

impl Workers<()> {
    /// Returns the default settings: one worker for each CPU that the process may use, none of them pinned or isolated.
    pub const fn builder() -> Builder {
        Builder::new()
    }
}

impl<R> Workers<R> {
    pub(crate) fn places(&self) -> impl Iterator<Item = (Occupancy, Option<u32>)> {
        self.places.iter().copied()
    }

    /// Returns the number of workers.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "there is always one")]
    pub fn len(&self) -> usize {
        self.threads.len()
    }

    /// Returns the handles that wake the workers, in the order of their numbers.
    #[must_use]
    pub fn unparkers(&self) -> &[Unparker] {
        &self.unparkers
    }

    /// Waits until all workers have ended. Returns the result or the panic of each worker, in the order of the workers'
    /// numbers.
    ///
    /// # Panics
    ///
    /// A worker's panic causes no panic here: it is part of the result.
    #[must_use = "it may be a panic"]
    pub fn join(self) -> Vec<thread::Result<R>> {
        let ended = self.threads.into_iter().map(JoinHandle::join);
        ended
            .map(|result| result.map(|value| value.expect("all began")))
            .collect()
    }
}

#[cfg(test)]
mod tests;
