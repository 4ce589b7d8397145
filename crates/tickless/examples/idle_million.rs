//! A million idle connections: the memory of their timeouts.
//!
//! `cargo run --release -p tickless --example idle_million [COUNT]`
//!
//! The example counts the memory of connections as a server keeps them. Each connection is a future with its idle
//! timeout and 64 bytes of its own. Sockets and their buffers belong to the system, and are left out.
#![expect(clippy::print_stdout, reason = "it shows what happens")]

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Waker};
use std::time::Duration;

use pin_project_lite::pin_project;
use tickless::time::{Instant, Sleep, sleep};

const IDLE: Duration = Duration::from_secs(300);

pin_project! {
    /// A server's data for a connection.
    struct Connection {
        own: [u8; 64],
        #[pin]
        idle: Sleep,
    }
}

impl Connection {
    fn open() -> Pin<Box<Self>> {
        Box::pin(Self {
            own: [0; 64],
            idle: sleep(IDLE),
        })
    }
}

/// Returns the resident memory of the process in KiB; 0 if the system does not report it.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// Opens `count` connections, lets each send a message, and closes them. Returns the number of timers that fired.
pub(crate) fn run(count: u32) -> usize {
    let mut context = Context::from_waker(Waker::noop());
    let before = resident();
    let each = |what: &str, since: Instant| {
        println!(
            "{what}: {:.0} ns each",
            since.elapsed().as_secs_f64() * 1e9 / f64::from(count.max(1))
        );
    };

    let start = Instant::now();
    let mut connections: Vec<_> = (0..count).map(|_| Connection::open()).collect();
    let mut fired = 0;
    for connection in &mut connections {
        fired += usize::from(
            connection
                .as_mut()
                .project()
                .idle
                .poll(&mut context)
                .is_ready(),
        );
    }
    each("opened, timeout armed", start);
    let bytes = resident().saturating_sub(before) * 1024 / u64::from(count.max(1));
    println!(
        "{count} connections: {bytes} bytes each, their 64 included; no thread and no descriptor"
    );

    let start = Instant::now();
    let deadline = start + IDLE;
    for connection in &mut connections {
        let this = connection.as_mut().project();
        this.own[0] += 1;
        this.idle.reset(deadline);
    }
    each("pushed out", start);

    let start = Instant::now();
    drop(connections);
    each("closed", start);
    fired
}

fn main() {
    let count = std::env::args().nth(1).and_then(|count| count.parse().ok());
    run(count.unwrap_or(1_000_000));
}
