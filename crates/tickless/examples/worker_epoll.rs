//! A worker that serves an epoll instance: it waits for events, timers and wake-ups from other threads in one call.
//!
//! `cargo run -p tickless --example worker_epoll`
#![expect(clippy::print_stdout, reason = "it shows what happens")]

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{EventfdFlags, eventfd};
use tickless::Worker;
use tickless::hrtimer::{HrTimer, Restart, Span, Start};
use tickless::worker::EpollEvents;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let worker = Worker::new()?;
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let source = eventfd(0, EventfdFlags::CLOEXEC)?;
    epoll::add(&epoll, &source, EventData::new_u64(7), EventFlags::IN)?;

    let beat = pin!(HrTimer::new(|expired| {
        expired.forward_now(Span::from_millis(2));
        println!("the timer fired");
        Restart::Yes
    }));
    let _ = beat.as_ref().start(Start::after(Span::from_millis(2)));

    let stop = Arc::new(AtomicBool::new(false));
    let (unparker, stopping, sender) = (worker.unparker(), Arc::clone(&stop), source.try_clone()?);
    let other = thread::spawn(move || -> std::io::Result<()> {
        for _ in 0..2 {
            thread::sleep(Duration::from_millis(3));
            rustix::io::write(&sender, &1_u64.to_ne_bytes())?;
        }
        thread::sleep(Duration::from_millis(3));
        stopping.store(true, Ordering::Release);
        unparker.unpark();
        Ok(())
    });

    let mut events = EpollEvents::with_capacity(8);
    while !stop.load(Ordering::Acquire) {
        let turn = worker.park_on_epoll(&epoll, &mut events)?;
        if !events.is_empty() {
            rustix::io::read(&source, &mut [0; 8])?;
            println!("an event, and {} timers", turn.fired);
        }
    }
    println!("woken to stop");
    other.join().expect("it does not panic")?;
    Ok(())
}
