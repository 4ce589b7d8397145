//! A server that sends back what it receives, with a limit for the time that a client may be silent: a worker waits for
//! sockets and timers in one call.
//!
//! `cargo run --release -p tickless --example echo`
#![expect(clippy::print_stdout, reason = "an example shows something")]

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use tickless::executor::io::Async;
use tickless::{Executor, task, time};

/// The time that a client may be silent.
const PATIENCE: Duration = Duration::from_millis(20);

/// Sends back all data until the other side closes the connection. Returns the number of bytes.
async fn echo(socket: TcpStream) -> io::Result<usize> {
    let socket = Async::new(socket)?;
    let (mut room, mut all) = ([0; 1_024], 0);
    loop {
        let read = socket.read_with(|mut socket| socket.read(&mut room));
        let Ok(read) = time::timeout(PATIENCE, read).await else {
            return Err(io::ErrorKind::TimedOut.into());
        };
        let mut left = &room[..read?];
        if left.is_empty() {
            return Ok(all);
        }
        all += left.len();
        while !left.is_empty() {
            let written = socket.write_with(|mut socket| socket.write(left)).await?;
            left = &left[written..];
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let executor = Executor::builder().workers(2).build()?;
    executor.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let listener = Async::new(listener)?;
        for silent in [false, true] {
            let client = task::spawn_blocking(move || {
                let mut socket = TcpStream::connect(address)?;
                let mut answer = Vec::new();
                if !silent {
                    socket.write_all(b"hello")?;
                    socket.shutdown(std::net::Shutdown::Write)?;
                }
                socket.read_to_end(&mut answer)?;
                io::Result::Ok(answer)
            });
            let (socket, _) = listener.read_with(TcpListener::accept).await?;
            let served = task::spawn(echo(socket)).await?;
            println!("served {served:?}");
            let answer = client.await??;
            println!("the client got {:?}", String::from_utf8_lossy(&answer));
        }
        Ok::<(), Box<dyn std::error::Error>>(())
    })
}
