//! The traffic of hackbench's tasks: groups of senders and receivers, a pipe or a channel for each receiver.

use std::future::Future;
use std::io::{self, PipeReader, PipeWriter};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use serde::Serialize;
use smol::Async;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;

/// The amount of traffic.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Traffic {
    pub(super) groups: usize,
    /// The number of senders of each group, and the number of receivers.
    pub(super) fds: usize,
    /// Messages from each sender to each receiver of its group.
    pub(super) loops: u64,
    /// Bytes of a message.
    pub(super) size: usize,
}

/// Bytes that a pipe holds by default.
const ROOM: usize = 64 << 10;

impl Traffic {
    /// Returns the number of all messages.
    pub(super) fn messages(&self) -> u64 {
        let pairs = (self.groups * self.fds * self.fds) as u64;
        pairs.saturating_mul(self.loops)
    }

    pub(super) fn tasks(&self) -> usize {
        2 * self.groups * self.fds
    }

    /// Returns the number of messages that a channel holds: as many as a pipe would hold.
    fn room(&self) -> usize {
        (ROOM / self.size).max(1)
    }
}

/// A means of passing messages.
pub(super) trait Transport: 'static {
    type Sender: Send + Sync + 'static;
    type Receiver: Send + 'static;

    fn open(traffic: &Traffic) -> io::Result<(Self::Sender, Self::Receiver)>;
    /// Sends one message; waits until the receiver has space.
    fn send(sender: &Self::Sender, message: &[u8]) -> impl Future<Output = io::Result<()>> + Send;
    /// Receives one message into `message`; returns `false` if no senders are left.
    fn receive(
        receiver: &mut Self::Receiver,
        message: &mut [u8],
    ) -> impl Future<Output = io::Result<bool>> + Send;
}

/// Channels in memory, which are the same on every runtime.
#[derive(Debug)]
pub(super) enum Channels {}

impl Transport for Channels {
    type Sender = async_channel::Sender<Box<[u8]>>;
    type Receiver = async_channel::Receiver<Box<[u8]>>;

    fn open(traffic: &Traffic) -> io::Result<(Self::Sender, Self::Receiver)> {
        Ok(async_channel::bounded(traffic.room()))
    }

    async fn send(sender: &Self::Sender, message: &[u8]) -> io::Result<()> {
        let sent = sender.send(message.into()).await;
        sent.map_err(|_| io::ErrorKind::BrokenPipe.into())
    }

    async fn receive(receiver: &mut Self::Receiver, message: &mut [u8]) -> io::Result<bool> {
        let Ok(received) = receiver.recv().await else {
            return Ok(false);
        };
        message.copy_from_slice(&received);
        Ok(true)
    }
}

/// Pipes of the kernel, waited for by the thread of `async-io`.
#[derive(Debug)]
pub(super) enum Pipes {}

impl Transport for Pipes {
    type Sender = Async<PipeWriter>;
    type Receiver = Async<PipeReader>;

    fn open(_traffic: &Traffic) -> io::Result<(Self::Sender, Self::Receiver)> {
        let (reader, writer) = io::pipe()?;
        Ok((Async::new(writer)?, Async::new(reader)?))
    }

    async fn send(sender: &Self::Sender, mut message: &[u8]) -> io::Result<()> {
        while !message.is_empty() {
            let written = sender.write_with(|pipe| io::Write::write(&mut &*pipe, message));
            message = &message[written.await?..];
        }
        Ok(())
    }

    async fn receive(receiver: &mut Self::Receiver, message: &mut [u8]) -> io::Result<bool> {
        let mut have = 0;
        while have < message.len() {
            let rest = &mut message[have..];
            let read = receiver.read_with(|pipe| io::Read::read(&mut &*pipe, rest));
            match read.await? {
                0 => return Ok(false),
                more => have += more,
            }
        }
        Ok(true)
    }
}

/// Pipes of the kernel, waited for by tokio.
#[derive(Debug)]
pub(super) enum TokioPipes {}

impl Transport for TokioPipes {
    type Sender = pipe::Sender;
    type Receiver = pipe::Receiver;

    fn open(_traffic: &Traffic) -> io::Result<(Self::Sender, Self::Receiver)> {
        let (reader, writer) = io::pipe()?;
        let writer = pipe::Sender::from_owned_fd(writer.into())?;
        Ok((writer, pipe::Receiver::from_owned_fd(reader.into())?))
    }

    async fn send(sender: &Self::Sender, mut message: &[u8]) -> io::Result<()> {
        while !message.is_empty() {
            sender.writable().await?;
            match sender.try_write(message) {
                Ok(written) => message = &message[written..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    async fn receive(receiver: &mut Self::Receiver, message: &mut [u8]) -> io::Result<bool> {
        match receiver.read_exact(message).await {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// The state that the tasks of a run share with the run.
#[derive(Debug, Default)]
pub(super) struct Shared {
    received: AtomicU64,
    /// True if senders are to send no more.
    is_over: AtomicBool,
}

impl Shared {
    /// Returns the number of messages that arrived.
    pub(super) fn received(&self) -> u64 {
        // Relaxed: a count.
        self.received.load(Ordering::Relaxed)
    }

    /// Ends the traffic early.
    pub(super) fn stop(&self) {
        // Relaxed: a flag that is looked at again and again.
        self.is_over.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_stopped(&self) -> bool {
        // Relaxed: as above.
        self.is_over.load(Ordering::Relaxed)
    }
}

/// A channel that is closed when all tasks exist; tasks wait for it before they begin.
pub(super) type Gate = async_channel::Receiver<()>;

/// Opens all pipes, and passes each task to `spawn`.
///
/// # Errors
///
/// The error of opening a pipe.
pub(super) fn spawn_all<T: Transport>(
    traffic: Traffic,
    shared: &Arc<Shared>,
    gate: &Gate,
    mut spawn: impl FnMut(Task<T>),
) -> io::Result<()> {
    for _ in 0..traffic.groups {
        let mut senders = Vec::new();
        for _ in 0..traffic.fds {
            let (sender, receiver) = T::open(&traffic)?;
            senders.push(sender);
            spawn(Task {
                traffic,
                shared: Arc::clone(shared),
                gate: gate.clone(),
                end: End::Receiver(receiver),
            });
        }
        // Gone with the last sender, so that receivers notice.
        let senders = Arc::new(senders);
        for _ in 0..traffic.fds {
            spawn(Task {
                traffic,
                shared: Arc::clone(shared),
                gate: gate.clone(),
                end: End::Senders(Arc::clone(&senders)),
            });
        }
    }
    Ok(())
}

/// A task of hackbench.
#[derive(Debug)]
pub(super) struct Task<T: Transport> {
    traffic: Traffic,
    shared: Arc<Shared>,
    gate: Gate,
    end: End<T>,
}

enum End<T: Transport> {
    /// The senders of a task that sends to all receivers of its group.
    Senders(Arc<Vec<T::Sender>>),
    Receiver(T::Receiver),
}

impl<T: Transport> std::fmt::Debug for End<T> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::Senders(_) => "Senders",
            Self::Receiver(_) => "Receiver",
        })
    }
}

/// The checkpoint of a runtime, at which a task lets others run. The kernel preempts the tasks of hackbench itself
/// anywhere.
pub(super) trait Rest: 'static {
    fn checkpoint() -> impl Future<Output = ()> + Send;
}

impl<T: Transport> Task<T> {
    /// Sends or receives all messages of the task, with a checkpoint after each message.
    pub(super) async fn run<R: Rest>(self) -> io::Result<()> {
        let _closed = self.gate.recv().await;
        let mut message = vec![0; self.traffic.size];
        match self.end {
            End::Senders(receivers) => {
                for _ in 0..self.traffic.loops {
                    for receiver in receivers.iter() {
                        if self.shared.is_stopped() {
                            return Ok(());
                        }
                        T::send(receiver, &message).await?;
                        R::checkpoint().await;
                    }
                }
            }
            End::Receiver(mut receiver) => {
                let mut received = 0;
                while T::receive(&mut receiver, &mut message).await? {
                    received += 1;
                    R::checkpoint().await;
                }
                // Relaxed: a count.
                self.shared.received.fetch_add(received, Ordering::Relaxed);
            }
        }
        Ok(())
    }
}
