//! A runtime for quinn's endpoints, with the sockets and tasks of tokio and exact timers.
//!
//! Pass the runtime to [`Endpoint::new`](::quinn::Endpoint::new). A connection moves its timer with nearly each packet;
//! the timer moves in place, without an allocation. The tokio runtime must have I/O enabled, as [`TokioRuntime`]
//! requires too.

use std::future::Future;
use std::net::UdpSocket;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant as StdInstant;
use std::{fmt, io};

use ::quinn::{AsyncTimer, AsyncUdpSocket, TokioRuntime};
use pin_project_lite::pin_project;
use tickless::time::{self, Instant};

pub use crate::runtime::Runtime;

impl ::quinn::Runtime for Runtime {
    fn new_timer(&self, deadline: StdInstant) -> Pin<Box<dyn AsyncTimer>> {
        Box::pin(Timer {
            sleep: time::sleep_until(Instant::from_std(deadline)),
        })
    }

    fn spawn(&self, future: Pin<Box<dyn Future<Output = ()> + Send>>) {
        drop(self.handle.spawn(future));
    }

    fn wrap_udp_socket(&self, socket: UdpSocket) -> io::Result<Arc<dyn AsyncUdpSocket>> {
        let _entered = self.handle.enter();
        TokioRuntime.wrap_udp_socket(socket)
    }

    fn now(&self) -> StdInstant {
        Instant::now().into_std()
    }
}

pin_project! {
    /// A sleep that implements the timer trait of quinn.
    struct Timer {
        #[pin]
        sleep: time::Sleep,
    }
}

impl AsyncTimer for Timer {
    fn reset(self: Pin<&mut Self>, deadline: StdInstant) {
        self.project().sleep.reset(Instant::from_std(deadline));
    }

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.project().sleep.poll(context)
    }
}

impl fmt::Debug for Timer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let deadline = self.sleep.deadline();
        formatter
            .debug_struct("Timer")
            .field("deadline", &deadline)
            .finish()
    }
}
