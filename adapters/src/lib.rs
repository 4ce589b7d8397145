//! Exact timers for crates that let their users bring timers.
//!
//! Each module is a feature of the same name, and stands between [`tickless`] and one crate:
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
#![cfg_attr(
    feature = "hickory",
    doc = "| `hickory` | hickory | [`hickory::Provider`] |"
)]
#![cfg_attr(
    feature = "opentelemetry",
    doc = "| `opentelemetry` | opentelemetry_sdk | [`opentelemetry::Runtime`] |"
)]
#![cfg_attr(feature = "quinn", doc = "| `quinn` | quinn | [`quinn::Runtime`] |")]
#![cfg_attr(feature = "rtic", doc = "| `rtic` | rtic-time | [`rtic::Timebase`] |")]
#![cfg_attr(
    feature = "tower",
    doc = "| `tower` | tower, axum | [`tower`]: limits in time and rate, pauses of retries |"
)]
//!
//! hyper and hyper-util take `tickless::hyper::Timer`. The deadlines of the adapters are never early; a duration that
//! does not fit is a time that never comes. None of them panics: where a runtime is needed, it is asked for when the
//! adapter is made, and its absence is `None`.
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
#[cfg(feature = "hickory")]
pub mod hickory;
#[cfg(feature = "opentelemetry")]
pub mod opentelemetry;
#[cfg(feature = "quinn")]
pub mod quinn;
#[cfg(feature = "rtic")]
pub mod rtic;
#[cfg(any(feature = "opentelemetry", feature = "quinn"))]
mod runtime;
#[cfg(feature = "tower")]
pub mod tower;
