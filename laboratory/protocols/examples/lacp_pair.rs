//! An example of two LACP systems on two workers. Two links join the systems; they fail and return.
//!
//! ```sh
//! cargo laboratory -p tickless-protocols --example lacp_pair
//! ```
//!
//! The example runs in real time and takes nine seconds. The program prints the changes at the first system.
#![expect(clippy::print_stdout, reason = "it shows what happens")]

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use tickless::{Unparker, Worker};
use tickless_core::time::{Instant, Span};
use tickless_protocols::host::{Host, UserSpace};
use tickless_protocols::lacp::{BondConfig, Lacpdu, Rate, Station};

const PORTS: u16 = 2;

enum Event {
    Link(usize, bool),
    Frame(usize, Lacpdu),
    Stop,
}

/// The handles through which other threads reach a system.
#[derive(Clone)]
struct Address {
    inbox: Sender<Event>,
    unparker: Unparker,
}

impl Address {
    fn send(&self, event: Event) {
        // A port that left has stopped.
        let _ = self.inbox.send(event);
        self.unparker.unpark();
    }
}

/// Runs a system until it is stopped. Its worker sends its own unparker, and receives the address of its peer.
fn run(
    number: u8,
    inbox: &Receiver<Event>,
    unparker: &Sender<Unparker>,
    peer: &Receiver<Address>,
    mut look: impl FnMut(&Station<UserSpace>),
) {
    let worker = Worker::new().expect("a thread of its own");
    unparker.send(worker.unparker()).expect("main listens");
    let peer = peer.recv().expect("main tells");
    let mut station = Station::new(UserSpace, Span::from_millis(50));
    station.add(&BondConfig {
        system: [2, 0, 0, 0, 0, number],
        ports: PORTS,
        rate: Rate::Fast,
    });
    loop {
        for event in inbox.try_iter() {
            match event {
                Event::Link(port, up) => station.set_link(0, port, up),
                Event::Frame(port, pdu) => station.deliver(0, port, &pdu),
                Event::Stop => return,
            }
        }
        station.run_due();
        while let Some(frame) = station.take_frame() {
            peer.send(Event::Frame(frame.port, frame.pdu));
        }
        look(&station);
        // What came since was followed by an unpark, and ends this at once.
        let _ = worker.park();
    }
}

/// Returns a function that prints each port with a line that has changed since the last call.
fn printer(start: Instant) -> impl FnMut(&Station<UserSpace>) {
    let mut shown = vec![String::new(); PORTS.into()];
    move |station| {
        let now = Duration::from(UserSpace.now().saturating_since(start)).as_secs_f64();
        for (number, (port, shown)) in station.bond(0).ports().iter().zip(&mut shown).enumerate() {
            let line = port.to_string();
            if *shown != line {
                println!("{now:7.3} s  port {number}  {line}");
                *shown = line;
            }
        }
    }
}

fn main() {
    let start = UserSpace.now();
    thread::scope(|scope| {
        let mut addresses = Vec::new();
        let mut peers = Vec::new();
        for number in [1, 2] {
            let (inbox, events) = channel();
            let (tell_unparker, unparker) = channel();
            let (tell_peer, peer) = channel();
            scope.spawn(move || {
                let mut print = printer(start);
                run(number, &events, &tell_unparker, &peer, |station| {
                    if number == 1 {
                        print(station);
                    }
                });
            });
            let unparker = unparker.recv().expect("the worker tells");
            addresses.push(Address { inbox, unparker });
            peers.push(tell_peer);
        }
        let set_link = |port: usize, up: bool| {
            let what = if up { "up" } else { "down" };
            println!("           link {port} goes {what}");
            for address in &addresses {
                address.send(Event::Link(port, up));
            }
        };
        for (peer, address) in peers.iter().zip(addresses.iter().rev()) {
            peer.send(address.clone()).expect("the worker waits");
        }
        set_link(0, true);
        set_link(1, true);
        thread::sleep(Duration::from_millis(4_500));
        set_link(0, false);
        thread::sleep(Duration::from_millis(1_500));
        set_link(0, true);
        thread::sleep(Duration::from_secs(3));
        for address in &addresses {
            address.send(Event::Stop);
        }
    });
}
