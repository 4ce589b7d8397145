//! The idle timeout of a connection: one timer serves for the whole life of the connection, and each request pushes it
//! out.
//!
//! `cargo run -p tickless --example idle_timeout`
#![expect(clippy::print_stdout, reason = "it shows what happens")]

use std::pin::pin;
use std::time::Duration;

use tickless::time::{Instant, sleep};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const IDLE: Duration = Duration::from_millis(20);

/// Echoes all data until the client is silent for too long.
async fn serve(mut stream: TcpStream) -> std::io::Result<()> {
    let mut idle = pin!(sleep(IDLE));
    let mut buffer = [0; 1024];
    loop {
        tokio::select! {
            read = stream.read(&mut buffer) => {
                let count = read?;
                if count == 0 {
                    return Ok(());
                }
                stream.write_all(&buffer[..count]).await?;
                // No allocation, no system call; the timer mostly keeps its place among the others.
                idle.as_mut().reset(Instant::now() + IDLE);
            }
            () = idle.as_mut() => {
                println!("idle for {IDLE:?}: closed");
                return Ok(());
            }
        }
    }
}

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let mut client = TcpStream::connect(listener.local_addr()?).await?;
    let (stream, _) = listener.accept().await?;
    let server = tokio::spawn(serve(stream));
    for number in 1..=3 {
        sleep(Duration::from_millis(5)).await;
        client.write_all(b"ping").await?;
        let count = client.read(&mut [0; 16]).await?;
        println!("request {number}: {count} bytes back");
    }
    // Silent from here on.
    let end = client.read(&mut [0; 16]).await?;
    assert_eq!(end, 0, "the server closes the connection");
    server.await?
}
