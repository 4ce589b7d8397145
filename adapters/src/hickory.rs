//! A runtime for hickory's resolver, with the sockets and tasks of tokio and exact time limits.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use hickory_net::runtime::iocompat::AsyncIoTokioAsStd;
use hickory_net::runtime::{self, DnsTcpStream, DnsUdpSocket, RuntimeProvider};
use tickless::time;
use tokio::io::ReadBuf;
use tokio::net::{TcpSocket, TcpStream, UdpSocket};
use tokio::runtime::Handle;
use tokio::task::JoinSet;

/// The default time limit for making a connection, equal to the default of hickory.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// The provider to build a resolver with, in a tokio runtime with I/O.
///
/// The tasks of a resolver end when the last clone of its provider is dropped.
#[derive(Clone, Debug)]
pub struct Provider {
    spawner: Spawner,
}

impl Provider {
    /// Makes a provider for the runtime in which the caller runs, or returns `None` if the caller runs in none.
    #[must_use]
    pub fn current() -> Option<Self> {
        Handle::try_current().ok().map(Self::new)
    }

    /// Makes a provider for the runtime of `handle`.
    #[must_use]
    pub fn new(handle: Handle) -> Self {
        let tasks = Arc::default();
        Self {
            spawner: Spawner { handle, tasks },
        }
    }
}

impl RuntimeProvider for Provider {
    type Handle = Spawner;
    type Timer = Time;
    type Udp = Udp;
    type Tcp = Tcp;

    fn create_handle(&self) -> Spawner {
        self.spawner.clone()
    }

    fn connect_tcp(
        &self,
        server: SocketAddr,
        from: Option<SocketAddr>,
        limit: Option<Duration>,
    ) -> Pin<Box<dyn Send + Future<Output = io::Result<Tcp>>>> {
        Box::pin(async move {
            let socket = match server {
                SocketAddr::V4(_) => TcpSocket::new_v4()?,
                SocketAddr::V6(_) => TcpSocket::new_v6()?,
            };
            if let Some(address) = from {
                socket.bind(address)?;
            }
            socket.set_nodelay(true)?;
            let connected = time::timeout(limit.unwrap_or(CONNECT_LIMIT), socket.connect(server));
            Ok(Tcp(AsyncIoTokioAsStd(connected.await??)))
        })
    }

    fn bind_udp(
        &self,
        local: SocketAddr,
        _server: SocketAddr,
    ) -> Pin<Box<dyn Send + Future<Output = io::Result<Udp>>>> {
        Box::pin(async move { UdpSocket::bind(local).await.map(Udp) })
    }
}

/// The spawner of a resolver's tasks.
#[derive(Clone, Debug)]
pub struct Spawner {
    handle: Handle,
    tasks: Arc<Mutex<JoinSet<()>>>,
}

impl runtime::Spawn for Spawner {
    fn spawn_bg(&mut self, future: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        tasks.spawn_on(future, &self.handle);
        // Those that ended are let go.
        while tasks.try_join_next().is_some() {}
    }
}

/// The delays and time limits of a resolver.
#[derive(Clone, Copy, Debug)]
pub struct Time;

#[async_trait]
impl runtime::Time for Time {
    async fn delay_for(duration: Duration) {
        time::sleep(duration).await;
    }

    async fn timeout<F: 'static + Future + Send>(
        duration: Duration,
        future: F,
    ) -> io::Result<F::Output> {
        Ok(time::timeout(duration, future).await?)
    }

    /// Returns the seconds since 1970; 0 if the clock shows an earlier time.
    fn current_time() -> u64 {
        { SystemTime::now().duration_since(UNIX_EPOCH) }.map_or(0, |since| since.as_secs())
    }
}

/// A socket of tokio whose time limits are exact.
#[derive(Debug)]
pub struct Udp(UdpSocket);

impl DnsUdpSocket for Udp {
    type Time = Time;

    fn poll_recv_from(
        &self,
        context: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<(usize, SocketAddr)>> {
        let mut buffer = ReadBuf::new(buffer);
        let address = ready!(self.0.poll_recv_from(context, &mut buffer))?;
        Poll::Ready(Ok((buffer.filled().len(), address)))
    }

    fn poll_send_to(
        &self,
        context: &mut Context<'_>,
        bytes: &[u8],
        target: SocketAddr,
    ) -> Poll<io::Result<usize>> {
        self.0.poll_send_to(context, bytes, target)
    }
}

/// A connection of tokio whose time limits are exact.
#[expect(missing_debug_implementations, reason = "what it is made of has none")]
pub struct Tcp(AsyncIoTokioAsStd<TcpStream>);

impl DnsTcpStream for Tcp {
    type Time = Time;
}

impl futures_io::AsyncRead for Tcp {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl futures_io::AsyncWrite for Tcp {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, buffer)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_close(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_close(context)
    }
}
