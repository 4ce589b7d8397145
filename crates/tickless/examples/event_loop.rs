//! A thread with an event loop of its own, in which timers are one more descriptor.
//!
//! `cargo run -p tickless --example event_loop`
#![expect(clippy::print_stdout, reason = "it shows what happens")]

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::pin::pin;
use std::thread;
use std::time::Duration;

use rustix::event::epoll::{self, Event, EventData, EventFlags};
use tickless::Driver;
use tickless::hrtimer::{HrTimer, Restart, Span, Start};

const TIMERS: u64 = 0;
const SOCKET: u64 = 1;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let driver = Driver::new()?;
    let (mut ours, mut theirs) = UnixStream::pair()?;
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    epoll::add(&epoll, &driver, EventData::new_u64(TIMERS), EventFlags::IN)?;
    epoll::add(&epoll, &ours, EventData::new_u64(SOCKET), EventFlags::IN)?;

    let beat = pin!(HrTimer::new(|expired| {
        let missed = expired.forward_now(Span::from_millis(1)) - 1;
        println!("the timer fired, {missed} periods missed");
        Restart::Yes
    }));
    let _ = beat.as_ref().start(Start::after(Span::from_millis(1)));
    let client = thread::spawn(move || -> std::io::Result<()> {
        for _ in 0..3 {
            thread::sleep(Duration::from_micros(1_500));
            theirs.write_all(b"hello")?;
        }
        Ok(())
    });

    let mut events = [Event {
        flags: EventFlags::empty(),
        data: EventData::new_u64(0),
    }; 8];
    'serving: loop {
        let ready = epoll::wait(&epoll, &mut events, None)?;
        for event in &events[..ready] {
            match event.data.u64() {
                TIMERS => {
                    let turn = driver.turn();
                    assert!(turn.next.is_some(), "it is periodic");
                }
                _ => {
                    let mut buffer = [0; 64];
                    let count = ours.read(&mut buffer)?;
                    if count == 0 {
                        break 'serving;
                    }
                    println!("{count} bytes from the socket");
                }
            }
        }
    }
    client.join().expect("it does not panic")?;
    Ok(())
}
