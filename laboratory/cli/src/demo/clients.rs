//! The clients of the demo's server: some send requests at a steady rate, some fall silent, some never finish a header,
//! and two wait for answers that take longer than the idle timeout.

use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fastrand::Rng;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{sleep_until, timeout_at};

use super::arguments::EPISODE;
use super::server::{BODY, SLOW};
use super::tally::Tally;

const REQUEST: &str = "GET /hello HTTP/1.1\r\nHost: demo\r\n\r\n";
/// A header that never ends.
const UNFINISHED: &[u8] = b"GET /hello HTTP/1.1\r\nHost: demo\r\nX-Slow: ";
/// The largest response, in bytes.
const RESPONSE_MAX: usize = 1024;
/// The wait that is longer than any timeout may be late: a connection that is still open afterwards was never closed.
const NEVER: Duration = Duration::from_secs(5);

/// The work of the clients of one round.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) server: SocketAddr,
    pub(crate) connections: u32,
    pub(crate) silent: u32,
    pub(crate) slow: u32,
    /// The time between two requests of an active client.
    pub(crate) spacing: Duration,
    pub(crate) idle: Duration,
    pub(crate) header: Duration,
    /// The time of the first connection.
    pub(crate) start: Instant,
    /// The time by which all connections are made.
    pub(crate) connected: Instant,
    pub(crate) end: Instant,
    pub(crate) seed: u64,
}

/// Runs all clients to the end of the round. Clients that wait for a timeout run until it fires.
pub(crate) async fn run(plan: Plan, tally: Arc<Tally>) {
    let mut random = Rng::with_seed(plan.seed);
    let mut clients = JoinSet::new();
    // Roles are dealt like cards, so that they are spread over the time in which connections are made.
    let mut places: Vec<u32> = (0..plan.connections).collect();
    random.shuffle(&mut places);
    let mut client = |begins| Client {
        plan,
        begins,
        phase: random.f64(),
        tally: Arc::clone(&tally),
    };
    for _ in 0..2 {
        clients.spawn(client(plan.connected).patient());
    }
    let ramp = plan.connected.saturating_duration_since(plan.start);
    for (number, place) in (0..).zip(places) {
        let client = client(plan.start + ramp * number / plan.connections);
        match place {
            _ if place < plan.silent => clients.spawn(client.silent()),
            _ if place < plan.silent + plan.slow => clients.spawn(client.slow()),
            _ => clients.spawn(client.active()),
        };
    }
    while clients.join_next().await.is_some() {}
}

struct Client {
    plan: Plan,
    begins: Instant,
    /// The client's offset within its period, 0 to 1, so that clients do not act at the same time.
    phase: f64,
    tally: Arc<Tally>,
}

impl Client {
    /// Sends requests at a steady rate.
    async fn active(self) {
        let mut next = self.begins;
        while next < self.plan.end {
            sleep_until(next.into()).await;
            let Some(mut stream) = self.connect().await else {
                return;
            };
            next += self.plan.spacing.mul_f64(self.phase);
            while next < self.plan.end {
                sleep_until(next.into()).await;
                match self.ask(&mut stream, REQUEST).await {
                    Ok(latency) => {
                        let mut part = self.tally.part();
                        part.latency.record(latency.start, latency.end);
                    }
                    // Closed before the request came: this client was too late, and comes back.
                    Err(_) => {
                        self.tally.part().dropped += 1;
                        break;
                    }
                }
                next = (next + self.plan.spacing).max(Instant::now());
            }
        }
    }

    /// Sends one request and falls silent until the idle timeout closes the connection; repeats this until the end.
    async fn silent(self) {
        let idle = self.plan.idle;
        sleep_until(self.first_episode(idle).into()).await;
        while Instant::now() + idle + EPISODE / 2 < self.plan.end {
            let Some(mut stream) = self.connect().await else {
                return;
            };
            let last_word = Instant::now();
            if self.ask(&mut stream, REQUEST).await.is_err() {
                self.tally.part().dropped += 1;
                continue;
            }
            self.tally.part().silent.expected += 1;
            let mut rest = [0; 64];
            let closing = async { while !is_closed(&stream.read(&mut rest).await) {} };
            let closed = timeout_at((last_word + idle + NEVER).into(), closing).await;
            // The server answered, so it read the request, and counts from that time or a later one: read before the
            // request was sent, the clock gives a lower bound of the deadline, however long this client stalls.
            let in_time = Instant::now() >= last_word + idle;
            self.tally.part().silent.note(closed.is_ok(), in_time);
        }
    }

    /// Sends a header that never ends, a byte now and then, until the header timeout closes the connection; repeats
    /// this until the end. Each byte re-arms the idle timeout, up to twice its length.
    async fn slow(self) {
        let Plan { idle, header, .. } = self.plan;
        sleep_until(self.first_episode(header).into()).await;
        while Instant::now() + header + EPISODE / 2 < self.plan.end {
            let begun = Instant::now();
            let Some(mut stream) = self.connect().await else {
                return;
            };
            self.tally.part().slow.expected += 1;
            let mut next = UNFINISHED;
            let mut rest = [0; 64];
            let closed = loop {
                let word = Instant::now();
                if word >= begun + header + NEVER {
                    break false;
                }
                if stream.write_all(next).await.is_err() {
                    break true;
                }
                next = b"x";
                let pause = timeout_at((word + idle / 3).into(), stream.read(&mut rest));
                if let Ok(read) = pause.await
                    && is_closed(&read)
                {
                    break true;
                }
            };
            // Where this machine stalled for long enough, the idle timeout came first, and rightly. The client cannot
            // tell when the server read its words, so only a connection that ended sooner after its begin than either
            // timeout allows was closed early; the rest is judged by the server's clock.
            let in_time = Instant::now() >= begun + idle.min(header);
            self.tally.part().slow.note(closed, in_time);
        }
    }

    /// Sends a request whose answer takes longer than the idle timeout, and receives it to its end; repeats this until
    /// the end.
    async fn patient(self) {
        let takes = self.plan.header;
        let request = REQUEST.replace("/hello", SLOW);
        sleep_until(self.first_episode(takes).into()).await;
        while Instant::now() + takes + EPISODE / 2 < self.plan.end {
            let Some(mut stream) = self.connect().await else {
                return;
            };
            let asked = Instant::now();
            // The server counts the requests: it may rightly end a connection whose request comes too late.
            let answered = timeout_at(
                (asked + takes + NEVER).into(),
                self.ask(&mut stream, &request),
            );
            let is_whole = matches!(answered.await, Ok(Ok(_)));
            let in_time = Instant::now() >= asked + takes;
            self.tally.part().patient.note(is_whole, in_time);
        }
    }

    /// Returns the time at which the client begins to wait for a timeout; the times are spread so that timeouts fire
    /// throughout the round.
    fn first_episode(&self, timeout: Duration) -> Instant {
        let left = self.plan.end.saturating_duration_since(self.begins);
        let spread = left.saturating_sub(timeout + EPISODE).min(timeout);
        self.begins + spread.mul_f64(self.phase)
    }

    async fn connect(&self) -> Option<TcpStream> {
        let connected = TcpStream::connect(self.plan.server).await;
        let ready = connected.and_then(|stream| {
            stream.set_nodelay(true)?;
            // The side that leaves first would keep the port for a minute; thousands come and go here.
            stream.set_zero_linger()?;
            Ok(stream)
        });
        if ready.is_err() {
            self.tally.part().refused += 1;
        }
        ready.ok()
    }

    /// Sends one request, and receives the whole response. Returns the time from the one to the other, or an error if
    /// the connection was closed.
    async fn ask(&self, stream: &mut TcpStream, request: &str) -> io::Result<Range<Instant>> {
        let asked = Instant::now();
        stream.write_all(request.as_bytes()).await?;
        let mut response = [0; RESPONSE_MAX];
        let mut length = 0;
        loop {
            let read = stream.read(&mut response[length..]).await?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            length += read;
            let so_far = &response[..length];
            if so_far.ends_with(BODY.as_bytes()) {
                if !so_far.starts_with(b"HTTP/1.1 200 OK\r\n") {
                    self.tally.part().wrong += 1;
                }
                break;
            }
            if length == RESPONSE_MAX {
                self.tally.part().wrong += 1;
                return Err(io::ErrorKind::InvalidData.into());
            }
        }
        Ok(asked..Instant::now())
    }
}

fn is_closed(read: &io::Result<usize>) -> bool {
    matches!(read, Ok(0) | Err(_))
}

#[cfg(test)]
mod tests {
    use std::net::{Shutdown, SocketAddr, TcpListener};
    use std::sync::Arc;
    use std::thread;
    use std::time::{Duration, Instant};

    use super::{Client, Plan};
    use crate::demo::tally::Tally;

    const HEADER: Duration = Duration::from_secs(20);
    const IDLE: Duration = Duration::from_millis(200);

    /// Runs one slow client, whose thread stalls after it opened its connection; the server ends each connection when
    /// the connection is as old as `server_idle`. Returns the connections that ended, and the number of these that
    /// ended early.
    fn one_slow_client(idle: Duration, server_idle: Duration, stall: Duration) -> (u64, u64) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let server = listener.local_addr().expect("it listens");
        thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                thread::sleep(server_idle);
                let _gone_already = stream.shutdown(Shutdown::Both);
            }
        });
        let tally = Arc::new(Tally::default());
        let client = Client {
            plan: plan(server, idle),
            begins: Instant::now(),
            phase: 0.0,
            tally: Arc::clone(&tally),
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        runtime.block_on(async {
            let client = tokio::spawn(client.slow());
            // The client has asked for its connection when this task runs again.
            tokio::task::yield_now().await;
            thread::sleep(stall);
            client.await.expect("it does not panic");
        });
        let slow = tally.part().slow;
        (slow.closed, slow.early)
    }

    fn plan(server: SocketAddr, idle: Duration) -> Plan {
        let start = Instant::now();
        Plan {
            server,
            connections: 1,
            silent: 0,
            slow: 1,
            spacing: IDLE,
            idle,
            header: HEADER,
            start,
            connected: start,
            // Time for one episode.
            end: start + HEADER + IDLE / 2,
            seed: 1,
        }
    }

    #[test]
    fn a_client_that_stalls_takes_no_idle_timeout_for_an_early_one() {
        let (closed, early) = one_slow_client(IDLE, IDLE, IDLE * 2);
        assert_eq!((closed, early), (1, 0));
    }

    #[test]
    fn a_connection_that_ends_sooner_than_any_timeout_is_early() {
        let (closed, early) = one_slow_client(HEADER, IDLE, Duration::ZERO);
        assert_eq!((closed, early), (1, 1));
    }
}
