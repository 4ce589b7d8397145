//! A periodic callback without futures: the period is kept even if a call is late, and missed periods are counted.
//!
//! `cargo run -p tickless --example periodic`
#![expect(clippy::print_stdout, reason = "it shows what happens")]

use std::pin::pin;
use std::sync::mpsc;

use tickless::hrtimer::{HrTimer, Restart, Span, Start};

fn main() -> Result<(), mpsc::RecvError> {
    const PERIOD: Span = Span::from_micros(500);
    let (sender, receiver) = mpsc::channel();
    let timer = pin!(HrTimer::new(move |expired| {
        let late = expired.now().saturating_since(expired.deadline());
        let missed = expired.forward_now(PERIOD) - 1;
        match sender.send((late, missed)) {
            Ok(()) => Restart::Yes,
            Err(_) => Restart::No,
        }
    }));
    let _ = timer.as_ref().start(Start::after(PERIOD));
    for _ in 0..10 {
        let (late, missed) = receiver.recv()?;
        println!("{} ns late, {missed} periods missed", late.as_nanos());
    }
    timer.as_ref().cancel();
    Ok(())
}
