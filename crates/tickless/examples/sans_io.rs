//! A protocol without sockets and clocks, driven by one timer through `poll_timeout` and `handle_timeout`, like the
//! protocols of QUIC and WebRTC libraries.
//!
//! `cargo run -p tickless --example sans_io`
//!
//! The protocol sends one message at a time and repeats the message until it is acknowledged. The wire loses some
//! messages.
#![expect(clippy::print_stdout, reason = "it shows what happens")]

use std::collections::VecDeque;
use std::pin::pin;
use std::time::Duration;

use tickless::time::{Instant, sleep_until};
use tokio::sync::mpsc::{Receiver, Sender, channel};

/// The time that the first acknowledgement may take. The time doubles for each repetition.
const PATIENCE: Duration = Duration::from_millis(2);
/// The number of times that a message is sent before the sender gives up the peer.
const TRIES: u32 = 8;

/// A packet on the wire: a message with its number, or the acknowledgement of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Packet {
    Message(u32),
    Acknowledged(u32),
}

/// The sender of the protocol. It never waits, and gets the time as an argument.
#[derive(Debug)]
struct Protocol {
    next: u32,
    last: u32,
    tries: u32,
    deadline: Option<Instant>,
    to_send: VecDeque<Packet>,
}

impl Protocol {
    fn new(messages: u32, now: Instant) -> Self {
        let mut protocol = Self {
            next: 0,
            last: messages,
            tries: 0,
            deadline: None,
            to_send: VecDeque::new(),
        };
        protocol.send(now);
        protocol
    }

    fn send(&mut self, now: Instant) {
        if self.next == self.last {
            self.deadline = None;
            return;
        }
        self.to_send.push_back(Packet::Message(self.next));
        self.deadline = Some(now + PATIENCE * (1 << self.tries));
        self.tries += 1;
    }

    /// Returns the time at which to call [`handle_timeout`](Self::handle_timeout), if ever.
    fn poll_timeout(&self) -> Option<Instant> {
        self.deadline
    }

    /// Repeats the message that was not acknowledged in time. Does nothing when called early.
    fn handle_timeout(&mut self, now: Instant) -> Result<(), &'static str> {
        if self.deadline.is_none_or(|deadline| now < deadline) {
            return Ok(());
        }
        if self.tries == TRIES {
            self.deadline = None;
            return Err("the peer does not answer");
        }
        self.send(now);
        Ok(())
    }

    fn handle_input(&mut self, packet: Packet, now: Instant) {
        if packet == Packet::Acknowledged(self.next) {
            self.next += 1;
            self.tries = 0;
            self.send(now);
        }
    }

    fn poll_transmit(&mut self) -> Option<Packet> {
        self.to_send.pop_front()
    }

    fn is_done(&self) -> bool {
        self.next == self.last
    }
}

/// Drives a protocol with a wire and one timer, which is moved in place.
async fn drive(
    mut protocol: Protocol,
    to: Sender<Packet>,
    mut from: Receiver<Packet>,
) -> Result<u32, &'static str> {
    let mut timer = pin!(sleep_until(Instant::now()));
    let mut sent = 0;
    loop {
        while let Some(packet) = protocol.poll_transmit() {
            sent += 1;
            to.send(packet).await.map_err(|_| "the wire is cut")?;
        }
        if protocol.is_done() {
            return Ok(sent);
        }
        let timeout = protocol.poll_timeout();
        if let Some(deadline) = timeout {
            timer.as_mut().reset(deadline);
        }
        tokio::select! {
            packet = from.recv() => {
                protocol.handle_input(packet.ok_or("the wire is cut")?, Instant::now());
            }
            () = timer.as_mut(), if timeout.is_some() => protocol.handle_timeout(Instant::now())?,
        }
    }
}

/// Acknowledges the packets that arrive, except each third packet.
async fn peer(mut from: Receiver<Packet>, to: Sender<Packet>) {
    let mut count = 0;
    while let Some(packet) = from.recv().await {
        count += 1;
        if let Packet::Message(number) = packet
            && count % 3 != 0
            && to.send(Packet::Acknowledged(number)).await.is_err()
        {
            return;
        }
    }
}

/// Sends `messages`, and returns the number of packets that were needed.
pub(crate) fn run(messages: u32) -> Result<u32, &'static str> {
    futures::executor::block_on(async {
        let (to_peer, from_us) = channel(16);
        let (to_us, from_peer) = channel(16);
        let protocol = Protocol::new(messages, Instant::now());
        let (sent, ()) = futures::join!(drive(protocol, to_peer, from_peer), peer(from_us, to_us));
        sent
    })
}

fn main() -> Result<(), &'static str> {
    let sent = run(20)?;
    println!("20 messages, each third packet lost: {sent} sent");
    Ok(())
}
