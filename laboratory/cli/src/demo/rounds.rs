//! The rounds of the demo: each round runs every arm, in changing order.

use std::net::UdpSocket;
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::arguments::Settings;
use super::clients::{self, Plan};
use super::paced::{self, Schedule};
use super::rearm;
use super::server::Server;
use super::subject::{Arm, Tickless, Timers, Tokio};
use super::tally::{Tally, Totals, Window};
use super::threads::{self, Usage};
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::output::Progress;
use crate::units;

/// The name of the thread of the paced sender that is no task of the runtime.
const WORKER: &str = "tickless-worker";
/// The name of the thread on which the library runs the timers of tokio's workers.
const EXPIRY: &str = "tickless-expiry";
/// The time between two updates of the progress, which also check whether the run is to end.
const LOOK: Duration = Duration::from_millis(20);
/// The pause between two arms, in which closing connections end.
const PAUSE: Duration = Duration::from_millis(5);

/// The time that the clients of the warm-up stay after all are connected.
const WARM: Duration = Duration::from_millis(60);
/// The share of the ramp in which connections are made. The kernel finishes the work of the connections in the rest of
/// the ramp.
const CONNECTING: f64 = 0.65;

/// The servers, and the other parts of a run.
pub(crate) struct Run<'r> {
    settings: &'r Settings,
    interrupt: &'r Interrupt,
    progress: &'r Progress,
    /// The servers, in the order of [`Arm::ALL`].
    servers: Vec<Server>,
    started: Instant,
    pub(crate) totals: Totals,
}

impl<'r> Run<'r> {
    /// Starts the servers.
    pub(crate) fn prepare(
        settings: &'r Settings,
        interrupt: &'r Interrupt,
        progress: &'r Progress,
    ) -> Result<Self, Failure> {
        let servers = Arm::ALL.map(|arm| match arm.is_tokio() {
            true => Server::start::<Tokio>(arm, settings),
            false => Server::start::<Tickless>(arm, settings),
        });
        Ok(Self {
            settings,
            interrupt,
            progress,
            servers: servers.into_iter().collect::<Result<_, _>>()?,
            started: Instant::now(),
            totals: Totals::default(),
        })
    }

    /// Runs all rounds, or fewer if the user asks to stop.
    pub(crate) fn all(&mut self) -> Result<(), Failure> {
        for server in &self.servers {
            self.warm_up(server)?;
        }
        for round in 0..self.settings.rounds {
            for place in 0..Arm::COUNT {
                if self.interrupt.is_requested() {
                    return Ok(());
                }
                let turn = usize::try_from(round).unwrap_or(0) + place;
                let arm = Arm::ALL[turn % Arm::COUNT];
                let tally = match arm.is_tokio() {
                    true => self.part::<Tokio>(round, arm)?,
                    false => self.part::<Tickless>(round, arm)?,
                };
                self.totals[arm.index()].add(tally.part().clone());
                thread::sleep(PAUSE);
            }
        }
        Ok(())
    }

    /// Returns the time since the beginning.
    pub(crate) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Connects all clients once, without measuring. The part that serves so many connections first in the life of a
    /// process waits for memory, and is slower than the later parts.
    fn warm_up(&self, server: &Server) -> Result<(), Failure> {
        if self.interrupt.is_requested() {
            return Ok(());
        }
        let start = Instant::now();
        let connected = start + self.settings.ramp.mul_f64(CONNECTING);
        let plan = Plan {
            silent: 0,
            slow: 0,
            connected,
            end: connected + WARM,
            ..self.plan(server, 0, start)
        };
        let (_stop, stopped) = watch::channel(false);
        let clients = start_clients(plan, &Arc::new(Tally::default()), stopped)?;
        let _panics_are_shown = clients.join();
        thread::sleep(PAUSE);
        Ok(())
    }

    fn part<T: Timers>(&self, round: u32, arm: Arm) -> Result<Arc<Tally>, Failure> {
        let server = &self.servers[arm.index()];
        let tally = Arc::new(Tally::default());
        server.desk.begin_round(&tally);
        let start = Instant::now() + PAUSE;
        let (full, end) = (start + self.settings.ramp, start + self.settings.part);
        let sender = socket()?;
        let (stop, stopped) = watch::channel(false);
        let plan = self.plan(server, round, start);
        let clients = start_clients(plan, &tally, stopped.clone())?;
        let schedule = Schedule {
            start,
            counts: full,
            end,
            period: self.settings.pace,
        };
        let sampling = rearm::sample::<T>(full, end, Arc::clone(&tally));
        let sampling = unless_stopped(stopped.clone(), sampling);
        let sampler = server.runtime.spawn(sampling);
        let sending = paced::send::<T>(schedule, sender, Arc::clone(&tally));
        let sending = unless_stopped(stopped, sending);
        let mut names = vec![arm.threads(), EXPIRY];
        let pacer = if arm == Arm::Worker {
            names.push(WORKER);
            on_worker(sending)?
        } else {
            Pacer::Task(server.runtime.spawn(sending))
        };

        self.wait_until(full, round, arm);
        let threads = threads::named(&names);
        let (begun, requests, used) = (Instant::now(), server.desk.requests(), usage(&threads)?);
        self.wait_until(end, round, arm);
        let cut = self.interrupt.is_requested();
        // What was cut before it had well begun has figures of nothing.
        let mut window = Window::default();
        if Instant::now() > full + LOOK {
            window = Window {
                length: begun.elapsed(),
                requests: server.desk.requests() - requests,
                usage: usage(&threads)? - used,
            };
        }

        // Otherwise all tasks end with the part, and clients when their timeouts have come.
        let _receivers_may_be_gone = cut.then(|| stop.send(true));
        let _panics_are_shown = clients.join();
        pacer.finish(server)?;
        let _cannot_fail = server.runtime.block_on(sampler);
        let mut part = tally.part();
        part.window = window;
        if cut {
            part.cut();
        }
        drop(part);
        Ok(tally)
    }

    fn plan(&self, server: &Server, round: u32, start: Instant) -> Plan {
        let settings = self.settings;
        Plan {
            server: server.address,
            connections: settings.connections,
            silent: settings.silent,
            slow: settings.slow,
            spacing: settings.spacing,
            idle: settings.idle,
            header: settings.header,
            start,
            connected: start + settings.ramp.mul_f64(CONNECTING),
            end: start + settings.part,
            // The same for all arms of a round.
            seed: round.into(),
        }
    }

    fn wait_until(&self, until: Instant, round: u32, arm: Arm) {
        while !self.interrupt.is_requested() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            self.progress.show(&format!(
                "round {} of {}: {}, {}",
                round + 1,
                self.settings.rounds,
                arm.name(),
                units::progress(self.elapsed(), self.settings.duration),
            ));
            thread::sleep(left.min(LOOK));
        }
    }
}

/// Returns the sum of the usage of the threads, or fails if one of them has ended: without that thread the figures
/// would be too good to be true.
fn usage(threads: &[u32]) -> Result<Usage, Failure> {
    threads::usage(threads).map_err(|error| {
        Failure::Machine(format!(
            "cannot read what a thread of the server did: {error}"
        ))
    })
}

/// Opens a socket for datagrams to itself. Nobody reads them: the kernel drops those that there is no room for.
fn socket() -> Result<UdpSocket, Failure> {
    let made = UdpSocket::bind(("127.0.0.1", 0)).and_then(|socket| {
        socket.connect(socket.local_addr()?)?;
        socket.set_nonblocking(true)?;
        Ok(socket)
    });
    made.map_err(|error| Failure::Machine(format!("cannot open a datagram socket: {error}")))
}

/// Starts the thread of the clients, which ends when all clients have finished or were stopped. Its timers are tokio's
/// in all arms.
fn start_clients(
    plan: Plan,
    tally: &Arc<Tally>,
    stopped: watch::Receiver<bool>,
) -> Result<JoinHandle<()>, Failure> {
    let tally = Arc::clone(tally);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let started = runtime.and_then(|runtime| {
        let thread = thread::Builder::new().name("clients".to_owned());
        thread.spawn(move || {
            runtime.block_on(unless_stopped(stopped, clients::run(plan, tally)));
        })
    });
    started.map_err(|error| Failure::Machine(format!("cannot start the clients: {error}")))
}

/// Runs `work` to its end, or drops it when the user stops it.
async fn unless_stopped(mut stopped: watch::Receiver<bool>, work: impl Future<Output = ()>) {
    tokio::select! {
        biased;
        () = work => {}
        // The sender lives as long as the part; its end is a stop as well.
        _stopped = stopped.wait_for(|stop| *stop) => {}
    }
}

/// The sender of paced datagrams.
enum Pacer {
    Task(tokio::task::JoinHandle<()>),
    /// A thread that lives until the channel's sender is dropped: its usage can be read only while it lives.
    Worker(JoinHandle<()>, mpsc::Sender<()>),
}

impl Pacer {
    fn finish(self, server: &Server) -> Result<(), Failure> {
        let ended_well = match self {
            Self::Task(task) => server.runtime.block_on(task).is_ok(),
            Self::Worker(thread, stay) => {
                drop(stay);
                thread.join().is_ok()
            }
        };
        if ended_well {
            Ok(())
        } else {
            Err(Failure::Machine("the paced sender broke down".to_owned()))
        }
    }
}

/// Runs `sending` on a thread that runs its own timers.
fn on_worker(sending: impl Future<Output = ()> + Send + 'static) -> Result<Pacer, Failure> {
    let (stay, until) = mpsc::channel();
    let spawned = thread::Builder::new()
        .name(WORKER.to_owned())
        .spawn(move || {
            let worker = tickless::Worker::new().expect("a new thread is no worker yet");
            worker.block_on(sending);
            let _gone = until.recv();
        });
    let thread =
        spawned.map_err(|error| Failure::Machine(format!("cannot start a thread: {error}")))?;
    Ok(Pacer::Worker(thread, stay))
}
