//! The body of an answer, in one piece or in two with a pause between them.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use bytes::{Buf, Bytes};
use hyper::body::{Body, Frame, SizeHint};

use super::subject::Timers;

/// A body that has its first piece at once, and its second one after a pause.
pub(crate) struct Answer<T: Timers> {
    first: Bytes,
    second: Option<(Pin<Box<T::Sleep>>, Bytes)>,
}

impl<T: Timers> Answer<T> {
    pub(crate) fn whole(text: impl Into<Bytes>) -> Self {
        Self {
            first: text.into(),
            second: None,
        }
    }

    /// Returns a body whose second half comes at `until`.
    pub(crate) fn in_halves(text: impl Into<Bytes>, until: Instant) -> Self {
        let mut text = text.into();
        let second = text.split_off(text.len() / 2);
        Self {
            first: text,
            second: Some((Box::pin(T::sleep_until(until)), second)),
        }
    }
}

impl<T: Timers> Body for Answer<T> {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let mut piece = std::mem::take(&mut self.first);
        if !piece.has_remaining() {
            let Some((pause, _)) = &mut self.second else {
                return Poll::Ready(None);
            };
            ready!(pause.as_mut().poll(context));
            piece = self
                .second
                .take()
                .map_or_else(Bytes::new, |(_, piece)| piece);
        }
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.first.is_empty() && self.second.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        let second = self.second.as_ref().map_or(0, |(_, piece)| piece.len());
        let length = u64::try_from(self.first.len() + second);
        length.map_or_else(|_| SizeHint::new(), SizeHint::with_exact)
    }
}
