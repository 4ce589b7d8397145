//! A runtime for the processors and exporters of opentelemetry_sdk.

use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use ::opentelemetry_sdk::runtime::{self, TrySendError};
use futures_core::Stream;
use tickless::time;
use tokio::sync::mpsc;

pub use crate::runtime::Runtime;

impl runtime::Runtime for Runtime {
    fn spawn<F>(&self, future: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        drop(self.handle.spawn(future));
    }

    fn delay(&self, duration: Duration) -> impl Future<Output = ()> + Send + 'static {
        time::sleep(duration)
    }
}

impl runtime::RuntimeChannel for Runtime {
    type Receiver<T: Debug + Send> = Receiver<T>;
    type Sender<T: Debug + Send> = Sender<T>;

    /// Makes a channel; a capacity of 0 is treated as 1.
    fn batch_message_channel<T: Debug + Send>(&self, capacity: usize) -> (Sender<T>, Receiver<T>) {
        let room = capacity.clamp(1, tokio::sync::Semaphore::MAX_PERMITS);
        let (sender, receiver) = mpsc::channel(room);
        (Sender(sender), Receiver(receiver))
    }
}

/// The end of a channel that sends spans to a processor.
#[derive(Debug)]
pub struct Sender<T>(mpsc::Sender<T>);

impl<T: Send> runtime::TrySend for Sender<T> {
    type Message = T;

    fn try_send(&self, item: T) -> Result<(), TrySendError> {
        self.0.try_send(item).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => TrySendError::ChannelFull,
            mpsc::error::TrySendError::Closed(_) => TrySendError::ChannelClosed,
        })
    }
}

/// The end of a channel from which a processor receives spans.
#[derive(Debug)]
pub struct Receiver<T>(mpsc::Receiver<T>);

impl<T> Stream for Receiver<T> {
    type Item = T;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T>> {
        self.0.poll_recv(context)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.0.len(), None)
    }
}
