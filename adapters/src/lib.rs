//! Adapters that give exact timers to crates whose users can provide the timers.
//!
//! Each module connects [`tickless`] with one crate, and is enabled by the feature of the same name:
//!
//! | feature | for | gives |
//! |---|---|---|
#![cfg_attr(
    feature = "backon",
    doc = "| `backon` | backon | [`backon::Sleeper`] |"
)]
#![cfg_attr(
    feature = "embassy",
    doc = "| `embassy` | embassy-time | [`embassy`]: a driver with its queue |"
)]
#![cfg_attr(
    feature = "embedded-hal",
    doc = "| `embedded-hal` | embedded-hal, embedded-hal-async | [`embedded_hal::Delay`] |"
)]
#![cfg_attr(
    feature = "governor",
    doc = "| `governor` | governor | [`governor::Clock`], [`governor::until_ready`] |"
)]
#![cfg_attr(feature = "quinn", doc = "| `quinn` | quinn | [`quinn::Runtime`] |")]
#![cfg_attr(
    feature = "tower",
    doc = "| `tower` | tower, axum | [`tower`]: limits in time and rate, pauses of retries |"
)]
//!
//! hyper and hyper-util take `tickless::hyper::Timer`. The deadlines of the adapters are never early; a deadline that
//! is too far away to be represented never fires. No adapter panics: an adapter that needs a runtime looks for it when
//! the adapter is made, and the constructor returns `None` if there is no runtime.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

#[cfg(feature = "backon")]
pub mod backon;
#[cfg(feature = "embassy")]
pub mod embassy;
#[cfg(feature = "embedded-hal")]
pub mod embedded_hal;
#[cfg(feature = "governor")]
pub mod governor;
#[cfg(feature = "quinn")]
pub mod quinn;
#[cfg(feature = "quinn")]
mod runtime;
#[cfg(feature = "tower")]
pub mod tower;

/// The recipes, so that they are compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../docs/recipes.md")]
mod recipes {}
