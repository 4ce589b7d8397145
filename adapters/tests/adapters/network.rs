//! Tests with quinn's endpoints and hickory's resolver.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hickory_resolver::Resolver;
use hickory_resolver::config::{ConnectionConfig, NameServerConfig, ResolverConfig};
use quinn::crypto::rustls::QuicServerConfig;
use quinn::rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use quinn::rustls::{self, RootCertStore};
use quinn::{ClientConfig, Endpoint, EndpointConfig, IdleTimeout, ServerConfig, TransportConfig};
use tickless_adapters::hickory::Provider;
use tickless_adapters::opentelemetry::Runtime as RuntimeOfSpans;
use tickless_adapters::quinn::Runtime;
use tokio::net::UdpSocket;

use super::{PAUSE, without_timers_of_tokio};

/// The time that a connection may be idle.
const IDLE: Duration = Duration::from_millis(300);

/// Returns the configuration of a server, and of a client that trusts this server.
fn configurations() -> (ServerConfig, ClientConfig) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let certificate = CertificateDer::from(made.cert);
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let server = rustls::ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], key.into())
        .unwrap();
    let server = QuicServerConfig::try_from(server).unwrap();
    let mut transport = TransportConfig::default();
    transport.max_idle_timeout(Some(IdleTimeout::try_from(IDLE).unwrap()));
    let mut roots = RootCertStore::empty();
    roots.add(certificate).unwrap();
    let mut client = ClientConfig::with_root_certificates(Arc::new(roots)).unwrap();
    client.transport_config(Arc::new(transport));
    (ServerConfig::with_crypto(Arc::new(server)), client)
}

fn endpoint(server: Option<ServerConfig>) -> Endpoint {
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let runtime = Runtime::current().unwrap();
    Endpoint::new(EndpointConfig::default(), server, socket, Arc::new(runtime)).unwrap()
}

#[test]
fn quinn_carries_what_is_sent_and_closes_what_is_idle() {
    without_timers_of_tokio(async {
        let (server_config, client_config) = configurations();
        let server = endpoint(Some(server_config));
        let address = server.local_addr().unwrap();
        let echo = tokio::spawn(async move {
            let connection = server.accept().await.unwrap().await.unwrap();
            let (mut send, mut receive) = connection.accept_bi().await.unwrap();
            let bytes = receive.read_to_end(1 << 20).await.unwrap();
            send.write_all(&bytes).await.unwrap();
            send.finish().unwrap();
            connection.closed().await
        });
        let client = endpoint(None);
        let connection = client
            .connect_with(client_config, address, "localhost")
            .unwrap();
        let connection = connection.await.unwrap();
        let (mut send, mut receive) = connection.open_bi().await.unwrap();
        let sent = vec![7; 200_000];
        send.write_all(&sent).await.unwrap();
        send.finish().unwrap();
        assert_eq!(receive.read_to_end(1 << 20).await.unwrap(), sent);
        let started = Instant::now();
        assert_eq!(connection.closed().await, quinn::ConnectionError::TimedOut);
        // It was idle from the last packet on, which may have been a little before.
        assert!(started.elapsed() >= IDLE / 3);
        assert_eq!(echo.await.unwrap(), quinn::ConnectionError::TimedOut);
    });
}

#[test]
fn there_is_no_runtime_outside_of_one() {
    assert!(Runtime::current().is_none());
    assert!(Provider::current().is_none());
    assert!(RuntimeOfSpans::current().is_none());
}

#[test]
fn what_is_spawned_after_the_end_of_a_runtime_is_dropped() {
    let tokio = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()
        .unwrap();
    let runtime = Runtime::new(tokio.handle().clone());
    drop(tokio);
    let (sender, receiver) = std::sync::mpsc::channel::<()>();
    let task = async move { drop(sender) };
    quinn::Runtime::spawn(&runtime, Box::pin(task));
    // Its sender is gone, and nothing was sent.
    assert!(receiver.recv().is_err());
}

/// Starts a name server that answers each question with one address, or no question at all.
async fn name_server(answers: bool) -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    tokio::spawn(async move {
        let mut buffer = [0; 1500];
        loop {
            let (length, client) = socket.recv_from(&mut buffer).await.unwrap();
            if answers {
                socket
                    .send_to(&answer(&buffer[..length]), client)
                    .await
                    .unwrap();
            }
        }
    });
    address
}

/// Returns the answer to a question with one name.
fn answer(question: &[u8]) -> Vec<u8> {
    const HEADER: usize = 12;
    let name = question[HEADER..]
        .iter()
        .position(|&byte| byte == 0)
        .unwrap();
    // The name, its end, type and class.
    let end = HEADER + name + 1 + 4;
    let mut bytes = question[..2].to_vec();
    // A response to a recursive question: one question, one answer.
    bytes.extend([0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0]);
    bytes.extend(&question[HEADER..end]);
    // The name of the question, an address, for a minute.
    bytes.extend([0xc0, 0x0c, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4]);
    bytes.extend([192, 0, 2, 7]);
    bytes
}

fn resolver(server: SocketAddr, limit: Duration) -> Resolver<Provider> {
    let mut connection = ConnectionConfig::udp();
    connection.port = server.port();
    let server = NameServerConfig::new(server.ip(), true, vec![connection]);
    let config = ResolverConfig::from_parts(None, vec![], vec![server]);
    let mut builder = Resolver::builder_with_config(config, Provider::current().unwrap());
    let options = builder.options_mut();
    options.timeout = limit;
    options.attempts = 1;
    builder.build().unwrap()
}

#[test]
fn hickory_resolves_and_gives_up() {
    without_timers_of_tokio(async {
        let patient = Duration::from_secs(60);
        let good = resolver(name_server(true).await, patient);
        let found = good.ipv4_lookup("tickless.test.").await.unwrap();
        assert!(format!("{found:?}").contains("192.0.2.7"));
        let started = Instant::now();
        let silent = resolver(name_server(false).await, PAUSE);
        let error = silent.ipv4_lookup("tickless.test.").await.unwrap_err();
        assert!(started.elapsed() >= PAUSE, "{error}");
    });
}

#[test]
fn hickory_connects_and_gives_up() {
    use hickory_resolver::net::runtime::RuntimeProvider;
    without_timers_of_tokio(async {
        let provider = Provider::current().unwrap();
        let nowhere = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 1);
        assert!(
            provider
                .connect_tcp(nowhere, None, Some(PAUSE))
                .await
                .is_err()
        );
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        assert!(provider.connect_tcp(address, None, None).await.is_ok());
    });
}

#[test]
fn a_timer_of_quinn_can_be_moved() {
    without_timers_of_tokio(async {
        let runtime = Runtime::current().unwrap();
        let started = quinn::Runtime::now(&runtime);
        let mut timer = quinn::Runtime::new_timer(&runtime, started + Duration::from_secs(3600));
        for pauses in 1..=2 {
            let deadline = started + pauses * PAUSE;
            timer.as_mut().reset(deadline);
            std::future::poll_fn(|context| timer.as_mut().poll(context)).await;
            assert!(quinn::Runtime::now(&runtime) >= deadline);
        }
    });
}
