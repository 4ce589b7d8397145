//! Tests with quinn's endpoints.

use std::sync::Arc;
use std::time::{Duration, Instant};

use quinn::rustls::RootCertStore;
use quinn::rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use quinn::{ClientConfig, Endpoint, EndpointConfig, IdleTimeout, ServerConfig, TransportConfig};
use tickless_adapters::quinn::Runtime;

use super::{PAUSE, without_timers_of_tokio};

/// The time that a connection may be idle.
const IDLE: Duration = Duration::from_millis(300);

/// Returns the configuration of a server, and of a client that trusts this server.
fn configurations() -> (ServerConfig, ClientConfig) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let certificate = CertificateDer::from(made.cert);
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let server = ServerConfig::with_single_cert(vec![certificate.clone()], key.into()).unwrap();
    let mut transport = TransportConfig::default();
    transport.max_idle_timeout(Some(IdleTimeout::try_from(IDLE).unwrap()));
    let mut roots = RootCertStore::empty();
    roots.add(certificate).unwrap();
    let mut client = ClientConfig::with_root_certificates(Arc::new(roots)).unwrap();
    client.transport_config(Arc::new(transport));
    (server, client)
}

fn endpoint(server: Option<ServerConfig>) -> Endpoint {
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let runtime = Runtime::current().unwrap();
    Endpoint::new(EndpointConfig::default(), server, socket, Arc::new(runtime)).unwrap()
}

#[test]
fn quinn_closes_what_is_idle() {
    without_timers_of_tokio(async {
        let (server_config, client_config) = configurations();
        let server = endpoint(Some(server_config));
        let address = server.local_addr().unwrap();
        let served = tokio::spawn(async move {
            let connection = server.accept().await.unwrap().await.unwrap();
            connection.closed().await
        });
        let client = endpoint(None);
        let connection = client
            .connect_with(client_config, address, "localhost")
            .unwrap();
        let connection = connection.await.unwrap();
        let started = Instant::now();
        assert_eq!(connection.closed().await, quinn::ConnectionError::TimedOut);
        // It was idle from the last packet on, which may have been a little before.
        assert!(started.elapsed() >= IDLE / 3);
        assert_eq!(served.await.unwrap(), quinn::ConnectionError::TimedOut);
    });
}

#[test]
fn there_is_no_runtime_outside_of_one() {
    assert!(Runtime::current().is_none());
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
