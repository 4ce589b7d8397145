//! A benchmark of a hyper server that answers `wrk` and also has many idle connections. Interleaved rounds compare
//! three kinds of timers: those of tokio, those of this library attached to the runtime's reactor, and the latter with
//! a millisecond of slack.
//!
//! ```text
//! cargo laboratory -p tickless-bench --example server                    # half a minute, to see that it runs
//! cargo laboratory -p tickless-bench --example server -- --idle 100000 --rounds 9 --seconds 10
//! ```
//!
//! Each server is a process of its own with two workers. A connection has hyper's header timeout, and an idle timeout
//! that each packet moves; no timeout fires during a round. Each idle connection has made one request. Idle connections
//! come from several loopback addresses, because one address does not have enough ports. Idle connections beyond the
//! limit of descriptors are pipes in the server's memory: their tasks and timers are the same, and a silent socket
//! causes no other cost. `wrk` (a package of that name) makes the requests, and its latencies are of requests, not of
//! timers.
#![expect(clippy::print_stdout, reason = "printing is what it is for")]

use std::convert::Infallible;
use std::error::Error;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use bytes::Bytes;
use clap::{Parser, ValueEnum};
use http_body_util::Full;
use hyper::Response;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tickless::hyper::IdleTimeout;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream};
use tokio::net::TcpListener;

/// The timeout of a connection, longer than a round with all its connections.
const TIMEOUT: Duration = Duration::from_secs(600);

/// Connections from one loopback address to another: fewer than there are ports.
const PER_ADDRESS: usize = 20_000;

/// Descriptors of a process that are no idle connections.
const OTHER_DESCRIPTORS: usize = 400;

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";

/// Runs `wrk` against servers that differ in their timers alone.
#[derive(Debug, Parser)]
struct Arguments {
    /// The number of idle connections, besides the connections that make requests; those beyond the limit of
    /// descriptors are pipes in memory.
    #[arg(long, default_value_t = 1_000)]
    idle: usize,
    /// The number of rounds; each round runs every server once.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=101))]
    rounds: u32,
    /// Seconds for which `wrk` makes requests, in each round and of each server.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=600))]
    seconds: u32,
    /// The number of connections that make requests.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    busy: u32,
    #[arg(long, hide = true)]
    serve: Option<Timers>,
    /// The number of idle connections that the server makes to itself.
    #[arg(long, hide = true, default_value_t = 0)]
    pipes: usize,
}

/// The kind of timers that a server uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Timers {
    Tokio,
    Attached,
    Slack,
}

impl Timers {
    const ALL: [Self; 3] = [Self::Tokio, Self::Attached, Self::Slack];

    fn name(self) -> &'static str {
        match self {
            Self::Tokio => "tokio",
            Self::Attached => "attached",
            Self::Slack => "slack",
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments = Arguments::parse();
    match arguments.serve {
        Some(Timers::Tokio) => serve::<OfTokio>(Timers::Tokio, arguments.pipes),
        Some(timers) => serve::<OfTickless>(timers, arguments.pipes),
        None => compare(&arguments),
    }
}

/// A library from which a connection takes its timers.
trait Library: Send + 'static {
    type Hyper: hyper::rt::Timer + Send + Sync + 'static;

    fn hyper() -> Self::Hyper;
}

/// Implements `Library` for one of the two libraries, with the same code for both.
macro_rules! library {
    ($name:ident, $hyper:ty = $timer:expr) => {
        enum $name {}

        impl Library for $name {
            type Hyper = $hyper;

            fn hyper() -> Self::Hyper {
                $timer
            }
        }
    };
}

library!(OfTokio, TokioTimer = TokioTimer::new());
library!(OfTickless, tickless::hyper::Timer = tickless::hyper::Timer);

/// Serves until the standard input ends. Answers each line of the standard input with the number of calls of
/// `timerfd_settime` so far.
fn serve<L: Library>(timers: Timers, pipes: usize) -> Result<(), Box<dyn Error>> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(2).enable_io();
    match timers {
        Timers::Tokio => drop(builder.enable_time()),
        Timers::Attached => {}
        Timers::Slack => drop(builder.on_thread_start(|| {
            tickless::time::set_thread_slack(tickless::time::Precision::Millisecond);
        })),
    }
    let runtime = builder.build()?;
    let listener = runtime.block_on(async {
        if timers != Timers::Tokio {
            tickless::tokio::attach().map_err(io::Error::other)?;
        }
        TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).await
    })?;
    let port = listener.local_addr()?.port();
    let _pipes = runtime.block_on(runtime.spawn(open_pipes::<L>(pipes)))??;
    println!("{port}");
    runtime.spawn(async move {
        // An error is a lack of descriptors, or a peer that left: others come.
        loop {
            if let Ok((stream, _)) = listener.accept().await {
                let _only_slower = stream.set_nodelay(true);
                tokio::spawn(connection::<L, _>(stream));
            }
        }
    });
    for line in io::stdin().lines() {
        line?;
        println!("{}", tickless::stats().reactor_sets);
    }
    runtime.shutdown_background();
    Ok(())
}

/// Opens idle connections in memory, each of which has made a request.
async fn open_pipes<L: Library>(count: usize) -> io::Result<Vec<DuplexStream>> {
    let mut pipes = Vec::with_capacity(count);
    for _ in 0..count {
        let (mut client, server) = tokio::io::duplex(512);
        tokio::spawn(connection::<L, _>(server));
        client.write_all(REQUEST).await?;
        if client.read(&mut [0; 256]).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        pipes.push(client);
    }
    Ok(pipes)
}

async fn connection<L: Library, S: AsyncRead + AsyncWrite + Send + Unpin + 'static>(stream: S) {
    let service = service_fn(|_request| async {
        Ok::<_, Infallible>(Response::new(Full::new(Bytes::from_static(b"hello\n"))))
    });
    let idle = IdleTimeout::new(TIMEOUT).timer(L::hyper());
    let (stream, service) = idle.wrap(TokioIo::new(stream), service);
    // A peer that resets its connection is done with it.
    let _ended = http1::Builder::new()
        .timer(L::hyper())
        .header_read_timeout(TIMEOUT)
        .serve_connection(stream, service)
        .await;
}

/// A server in a process of its own, which ends with this value.
struct Server {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    port: u16,
}

impl Server {
    fn start(timers: Timers, pipes: usize) -> Result<Self, Box<dyn Error>> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["--serve", timers.name()])
            .arg(format!("--pipes={pipes}"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let input = child.stdin.take();
        let output = child.stdout.take().ok_or("the server has no output")?;
        let mut server = Self {
            child,
            input,
            output: BufReader::new(output),
            port: 0,
        };
        server.port = server.line()?.parse()?;
        Ok(server)
    }

    fn line(&mut self) -> Result<String, Box<dyn Error>> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        Ok(line.trim().to_owned())
    }

    /// Returns the number of calls of `timerfd_settime` that the server made so far.
    fn sets(&mut self) -> Result<u64, Box<dyn Error>> {
        let input = self.input.as_mut().ok_or("the server has no input")?;
        writeln!(input)?;
        Ok(self.line()?.parse()?)
    }

    /// Returns the processor time that the threads of the server took so far, in seconds.
    fn processor_time(&self) -> Result<f64, Box<dyn Error>> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        // Behind the name, which may hold anything: user time and system time are the 12th and 13th.
        let fields = stat.rsplit_once(')').ok_or("no name in stat")?.1;
        let mut times = fields.split_whitespace().skip(11);
        let (user, system) = (times.next(), times.next());
        let ticks: u32 =
            user.unwrap_or("0").parse::<u32>()? + system.unwrap_or("0").parse::<u32>()?;
        Ok(f64::from(ticks) / 100.0)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ended = self.child.wait();
    }
}

/// Figures of one run.
#[derive(Clone, Copy, Debug, Default)]
struct Run {
    /// Requests a second.
    requests: f64,
    /// The median latency of a request, in microseconds.
    p50: f64,
    p99: f64,
    p999: f64,
    /// Processor time of the server for one request, in microseconds.
    processor: f64,
    /// Calls of `timerfd_settime` a second.
    sets: f64,
}

/// A column of the table: the name of a figure, and the function that returns the figure.
type Column = (&'static str, fn(&Run) -> f64);

const COLUMNS: [Column; 6] = [
    ("requests/s", |run| run.requests),
    ("p50 us", |run| run.p50),
    ("p99 us", |run| run.p99),
    ("p99.9 us", |run| run.p999),
    ("CPU us/request", |run| run.processor),
    ("settime/s", |run| run.sets),
];

fn compare(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    let limit = std::fs::read_to_string("/proc/self/limits")?;
    let limit = open_files(&limit).ok_or("no limit of open files")?;
    let sockets = arguments
        .idle
        .min(limit.saturating_sub(OTHER_DESCRIPTORS + arguments.busy as usize));
    println!(
        "{sockets} idle sockets and {} idle pipes ({limit} descriptors allowed), {} busy",
        arguments.idle - sockets,
        arguments.busy
    );
    println!(
        "{} rounds of {} s for each server",
        arguments.rounds, arguments.seconds
    );
    let mut runs = [const { Vec::new() }; Timers::ALL.len()];
    for _ in 0..arguments.rounds {
        for (timers, runs) in Timers::ALL.into_iter().zip(&mut runs) {
            runs.push(run(timers, sockets, arguments)?);
        }
    }
    println!("median (least to greatest)");
    for (name, figure) in COLUMNS {
        print!("{name:<15}");
        for (timers, runs) in Timers::ALL.into_iter().zip(&runs) {
            let mut figures: Vec<f64> = runs.iter().map(figure).collect();
            figures.sort_by(f64::total_cmp);
            let (least, greatest) = (figures[0], figures[figures.len() - 1]);
            let median = figures[figures.len() / 2];
            print!(
                "  {}: {median:.1} ({least:.1} to {greatest:.1})",
                timers.name()
            );
        }
        println!();
    }
    Ok(())
}

fn run(timers: Timers, sockets: usize, arguments: &Arguments) -> Result<Run, Box<dyn Error>> {
    let mut server = Server::start(timers, arguments.idle - sockets)?;
    let _idle = connect(server.port, sockets)?;
    let (sets, time) = (server.sets()?, server.processor_time()?);
    let script = std::env::temp_dir().join(format!("tickless-wrk-{}.lua", std::process::id()));
    std::fs::write(&script, SCRIPT)?;
    let wrk = Command::new("wrk")
        .arg(format!("-c{}", arguments.busy))
        .arg(format!("-d{}s", arguments.seconds))
        .args(["-t1", "-s"])
        .arg(&script)
        .arg(format!("http://127.0.0.1:{}/", server.port))
        .output()
        .map_err(|error| format!("cannot run wrk, of the package wrk: {error}"));
    std::fs::remove_file(&script)?;
    let output = String::from_utf8(wrk?.stdout)?;
    let line = output.lines().find_map(|line| line.strip_prefix("run "));
    let mut run = parse(line.ok_or("wrk printed no figures")?).ok_or("wrk printed odd figures")?;
    let requests = run.requests * f64::from(arguments.seconds);
    run.processor = (server.processor_time()? - time) * 1e6 / requests;
    #[expect(clippy::cast_precision_loss, reason = "for printing")]
    {
        run.sets = (server.sets()? - sets) as f64 / f64::from(arguments.seconds);
    }
    Ok(run)
}

/// The script by which `wrk` prints its figures, with times in microseconds.
const SCRIPT: &str = r#"
done = function(summary, latency, requests)
  io.write(string.format("run %f %f %f %f\n", summary.requests * 1e6 / summary.duration,
    latency:percentile(50), latency:percentile(99), latency:percentile(99.9)))
end
"#;

fn parse(line: &str) -> Option<Run> {
    let mut figures = line.split_whitespace().map(str::parse);
    let mut next = || figures.next()?.ok();
    Some(Run {
        requests: next()?,
        p50: next()?,
        p99: next()?,
        p999: next()?,
        ..Run::default()
    })
}

/// Opens idle connections, each of which has made a request.
fn connect(port: u16, count: usize) -> io::Result<Vec<TcpStream>> {
    (0..count)
        .map(|number| {
            let host = u8::try_from(2 + number / PER_ADDRESS).unwrap_or(u8::MAX);
            let address = SocketAddr::from((Ipv4Addr::new(127, 0, 0, host), port));
            let mut stream = TcpStream::connect(address)?;
            stream.write_all(REQUEST)?;
            let mut answer = [0; 256];
            if stream.read(&mut answer)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            Ok(stream)
        })
        .collect()
}

/// Returns the soft limit of open files that the text of `/proc/self/limits` names.
fn open_files(limits: &str) -> Option<usize> {
    let line = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"))?;
    let soft = line.split_whitespace().next()?;
    Some(soft.parse().unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_in_memory_are_served_by_both_libraries() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let pipes = runtime.block_on(open_pipes::<OfTokio>(3)).unwrap();
        assert_eq!(pipes.len(), 3);
        let pipes = runtime.block_on(open_pipes::<OfTickless>(3)).unwrap();
        assert_eq!(pipes.len(), 3);
    }

    #[test]
    fn figures_of_wrk_and_limits_are_read() {
        let run = parse("51234.5 800.0 1500.0 2500.0").unwrap();
        assert_eq!((run.requests, run.p999), (51234.5, 2500.0));
        assert!(parse("51234.5 800.0 -").is_none());
        let limits = "Limit  Soft Limit  Hard Limit  Units\nMax open files  20000  20000  files\n";
        assert_eq!(open_files(limits), Some(20_000));
    }
}
