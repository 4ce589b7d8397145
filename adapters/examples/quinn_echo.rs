//! QUIC with exact timers: a server that echoes, and a client.
//!
//! `cargo run --manifest-path adapters/Cargo.toml --example quinn_echo --features quinn`
//!
//! The tokio runtime has no timers enabled: loss detection, pacing and idle timeouts use the timers of this library.
#![expect(clippy::print_stdout, reason = "it shows what happens")]

use std::error::Error;
use std::net::UdpSocket;
use std::sync::Arc;

use quinn::rustls::RootCertStore;
use quinn::rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use quinn::{ClientConfig, Connection, Endpoint, EndpointConfig, ServerConfig};
use tickless::time::Instant;
use tickless_adapters::quinn::Runtime;

const LARGEST: usize = 1 << 20;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

fn endpoint(server: Option<ServerConfig>) -> Outcome<Endpoint> {
    let runtime = Runtime::current().ok_or("not in a runtime")?;
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    Ok(Endpoint::new(
        EndpointConfig::default(),
        server,
        socket,
        Arc::new(runtime),
    )?)
}

/// Sends the bytes of each stream back, until the client closes the connection.
async fn echo(connection: Connection) -> Outcome<()> {
    loop {
        let (mut send, mut receive) = match connection.accept_bi().await {
            Ok(streams) => streams,
            Err(quinn::ConnectionError::ApplicationClosed(_)) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let bytes = receive.read_to_end(LARGEST).await?;
        send.write_all(&bytes).await?;
        send.finish()?;
    }
}

async fn ask(connection: &Connection, bytes: &[u8]) -> Outcome<Vec<u8>> {
    let (mut send, mut receive) = connection.open_bi().await?;
    send.write_all(bytes).await?;
    send.finish()?;
    Ok(receive.read_to_end(LARGEST).await?)
}

async fn both() -> Outcome<usize> {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    let certificate = CertificateDer::from(made.cert);
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let server = endpoint(Some(ServerConfig::with_single_cert(
        vec![certificate.clone()],
        key.into(),
    )?))?;
    let address = server.local_addr()?;
    let serving = tokio::spawn(async move {
        let incoming = server.accept().await.ok_or("the endpoint is closed")?;
        echo(incoming.await?).await?;
        server.wait_idle().await;
        Outcome::Ok(())
    });

    let mut roots = RootCertStore::empty();
    roots.add(certificate)?;
    let client = endpoint(None)?;
    let configuration = ClientConfig::with_root_certificates(Arc::new(roots))?;
    let connection = client
        .connect_with(configuration, address, "localhost")?
        .await?;
    let mut echoed = 0;
    for size in [5, 5_000, 500_000] {
        let sent = vec![7; size];
        let started = Instant::now();
        if ask(&connection, &sent).await? != sent {
            return Err("what came back is something else".into());
        }
        println!("{size} bytes there and back: {:?}", started.elapsed());
        echoed += size;
    }
    connection.close(0_u32.into(), b"done");
    client.wait_idle().await;
    serving.await??;
    Ok(echoed)
}

/// Runs the server and the client, and returns the number of echoed bytes.
pub(crate) fn run() -> Outcome<usize> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()?;
    runtime.block_on(both())
}

fn main() -> Outcome<()> {
    run()?;
    Ok(())
}
