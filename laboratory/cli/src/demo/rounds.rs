//! The rounds of the demo: each round runs every arm, in changing order.

use std::net::{SocketAddr, UdpSocket};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::arguments::Settings;
use super::clients::{self, Plan};
use super::paced::{self, Schedule};
use super::rearm;
use super::server::{self, Limits, Server, Setup};
use super::status::Status;
use super::subject::{Arm, ServerKind, Tickless, Timers, Tokio};
use super::syscalls::Counter;
use super::tally::Tally;
use super::threads::{self, Usage};
use super::totals::Window;
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
    status: Arc<Status>,
    interrupt: &'r Interrupt,
    progress: &'r Progress,
    /// The servers, in the order of [`ServerKind::ALL`].
    servers: Vec<Server>,
}

impl<'r> Run<'r> {
    /// Starts the servers.
    pub(crate) fn prepare(
        settings: &'r Settings,
        status: &Arc<Status>,
        interrupt: &'r Interrupt,
        progress: &'r Progress,
    ) -> Result<Self, Failure> {
        let free = SocketAddr::from(([127, 0, 0, 1], 0));
        let limits = Limits {
            idle: settings.idle,
            header: settings.header,
        };
        // All ports before any server: a run either begins or does not. That of visitors comes first.
        let mut listeners = Vec::new();
        for kind in [
            ServerKind::Tickless,
            ServerKind::Tokio,
            ServerKind::Reactor,
            ServerKind::Slack,
        ] {
            let address = match kind {
                ServerKind::Tickless => settings.listen.unwrap_or(free),
                ServerKind::Tokio => settings.listen.map_or(free, |address| {
                    SocketAddr::new(address.ip(), address.port().saturating_add(1))
                }),
                ServerKind::Reactor | ServerKind::Slack => free,
            };
            listeners.push((kind, server::listen(address, kind.module())?));
        }
        listeners.sort_by_key(|(kind, _)| *kind as usize);
        let setup = Setup {
            threads: usize::try_from(settings.threads).unwrap_or(1),
            slack: settings.slack,
        };
        let servers = listeners.into_iter().map(|(kind, listener)| {
            let start = match kind {
                ServerKind::Tokio => Server::start::<Tokio>,
                ServerKind::Tickless | ServerKind::Reactor | ServerKind::Slack => {
                    Server::start::<Tickless>
                }
            };
            start(kind, listener, setup, limits, Arc::clone(status))
        });
        Ok(Self {
            settings,
            status: Arc::clone(status),
            interrupt,
            progress,
            servers: servers.collect::<Result<_, _>>()?,
        })
    }

    /// Returns the addresses of tickless's and tokio's servers, if visitors are expected.
    pub(crate) fn visitors(&self) -> Option<(SocketAddr, SocketAddr)> {
        self.settings.listen?;
        let address = |kind| self.server(kind).address;
        Some((address(ServerKind::Tickless), address(ServerKind::Tokio)))
    }

    fn server(&self, kind: ServerKind) -> &Server {
        &self.servers[kind as usize]
    }

    /// Runs all rounds, or fewer if the user asks to stop; then the round in which system calls are counted.
    pub(crate) fn all(&self, counter: Option<&Counter>) -> Result<(), Failure> {
        for server in &self.servers {
            self.warm_up(server)?;
        }
        for round in 0..self.settings.rounds {
            for place in 0..Arm::ALL.len() {
                let turn = usize::try_from(round).unwrap_or(0) + place;
                self.any_part(round, Arm::ALL[turn % Arm::ALL.len()], None)?;
            }
        }
        for arm in Arm::ALL {
            if counter.is_some() {
                self.any_part(self.settings.rounds, arm, counter)?;
            }
        }
        Ok(())
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
        let clients = start_clients(plan, &Arc::new(Tally::new()), socket(None)?, stopped)?;
        let _panics_are_shown = clients.join();
        thread::sleep(PAUSE);
        Ok(())
    }

    fn any_part(&self, round: u32, arm: Arm, counter: Option<&Counter>) -> Result<(), Failure> {
        if self.interrupt.is_requested() {
            return Ok(());
        }
        self.status.begin(round, arm);
        match arm.server() {
            ServerKind::Tokio => self.part::<Tokio>(round, arm, counter)?,
            ServerKind::Tickless | ServerKind::Reactor | ServerKind::Slack => {
                self.part::<Tickless>(round, arm, counter)?;
            }
        }
        thread::sleep(PAUSE);
        Ok(())
    }

    /// Runs one arm's part of a round.
    fn part<T: Timers>(
        &self,
        round: u32,
        arm: Arm,
        counter: Option<&Counter>,
    ) -> Result<(), Failure> {
        let server = self.server(arm.server());
        let tally = Arc::new(Tally::new());
        server.desk.begin_round(&tally);
        let start = Instant::now() + PAUSE;
        let (full, end) = (start + self.settings.ramp, start + self.settings.part);
        let sink = socket(None)?;
        let sender = socket(Some(&sink))?;
        let (stop, stopped) = watch::channel(false);
        let plan = self.plan(server, round, start);
        let clients = start_clients(plan, &tally, sink, stopped.clone())?;
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
        let mut names = vec![arm.server().threads(), EXPIRY];
        let pacer = if arm == Arm::Worker {
            names.push(WORKER);
            on_worker(sending)?
        } else {
            Pacer::Task(server.runtime.spawn(sending))
        };

        self.wait_until(full, round, arm);
        let threads = threads::named(&names);
        let counting = counter.map(|counter| (counter, counter.start(&threads)));
        let watch = Watch::begin(server, &threads)?;
        self.wait_until(end, round, arm);
        let cut = self.interrupt.is_requested();
        // What was cut before it had well begun has figures of nothing.
        let window = (Instant::now() > full + LOOK).then(|| watch.end(server, &threads));
        let window = window.transpose()?;
        let calls =
            counting.and_then(|(counter, started)| started.and_then(|()| counter.stop()).ok());

        // Otherwise all tasks end with the part, and clients when their timeouts have come.
        let _receivers_may_be_gone = cut.then(|| stop.send(true));
        let _panics_are_shown = clients.join();
        pacer.finish(server)?;
        let _cannot_fail = server.runtime.block_on(sampler);
        let window = window.unwrap_or_default();
        match (counter, calls) {
            (None, _) => self.status.end(arm, &tally, window, cut),
            (Some(_), Some(calls)) if !cut => self.status.count_syscalls(arm, calls, window),
            (Some(_), _) => {}
        }
        Ok(())
    }

    fn plan(&self, server: &Server, round: u32, start: Instant) -> Plan {
        let settings = self.settings;
        Plan {
            server: Settings::reachable(server.address),
            connections: settings.connections,
            silent: settings.silent,
            slow: settings.slow,
            spacing: settings.spacing,
            limits: Limits {
                idle: settings.idle,
                header: settings.header,
            },
            start,
            connected: start + settings.ramp.mul_f64(CONNECTING),
            end: start + settings.part,
            // The same for all arms of a round.
            seed: settings.seed.wrapping_add(u64::from(round) << 32),
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
                self.settings.all_rounds(),
                arm.name(),
                units::progress(self.status.elapsed(), self.settings.duration),
            ));
            thread::sleep(left.min(LOOK));
        }
    }
}

/// The counters of the server and its threads at the beginning of the full load.
struct Watch {
    begun: Instant,
    requests: u64,
    sets: u64,
    usage: Usage,
}

impl Watch {
    fn begin(server: &Server, threads: &[u32]) -> Result<Self, Failure> {
        Ok(Self {
            begun: Instant::now(),
            requests: server.desk.requests.get(),
            sets: tickless::stats().reactor_sets,
            usage: usage(threads)?,
        })
    }

    /// Returns the differences since the beginning.
    fn end(&self, server: &Server, threads: &[u32]) -> Result<Window, Failure> {
        Ok(Window {
            length: self.begun.elapsed(),
            requests: server.desk.requests.get() - self.requests,
            sets: tickless::stats().reactor_sets - self.sets,
            usage: usage(threads)? - self.usage,
        })
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

/// Opens a socket for datagrams on this machine: a receiving socket, or a socket that sends to `to`.
fn socket(to: Option<&UdpSocket>) -> Result<UdpSocket, Failure> {
    let made = UdpSocket::bind(SocketAddr::from(([127, 0, 0, 1], 0))).and_then(|socket| {
        if let Some(to) = to {
            socket.connect(to.local_addr()?)?;
        }
        socket.set_nonblocking(true)?;
        Ok(socket)
    });
    made.map_err(|error| Failure::Machine(format!("cannot open a datagram socket: {error}")))
}

/// The time between two fetches of the paced sender's datagrams: short enough for the kernel's buffer.
const FETCH: Duration = Duration::from_millis(5);

/// Starts the thread of the clients, which ends when all clients have finished or were stopped. Its timers are tokio's
/// in all arms.
fn start_clients(
    plan: Plan,
    tally: &Arc<Tally>,
    sink: UdpSocket,
    stopped: watch::Receiver<bool>,
) -> Result<JoinHandle<()>, Failure> {
    let tally = Arc::clone(tally);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let started = runtime.and_then(|runtime| {
        let thread = thread::Builder::new().name("clients".to_owned());
        thread.spawn(move || {
            let count = Arc::clone(&tally);
            let fetching = async move {
                loop {
                    count.received.add(fetch(&sink));
                    tokio::time::sleep(FETCH).await;
                }
            };
            runtime.block_on(async {
                let fetching = tokio::spawn(fetching);
                unless_stopped(stopped, clients::run(plan, tally)).await;
                fetching.abort();
            });
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

/// Receives all pending datagrams, and returns their number.
fn fetch(sink: &UdpSocket) -> u64 {
    let mut datagram = [0; 16];
    let mut count = 0;
    while sink.recv(&mut datagram).is_ok() {
        count += 1;
    }
    count
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
