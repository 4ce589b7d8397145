//! A test of a batch processor of opentelemetry_sdk, whose delay uses a timer of this library.

use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use opentelemetry::trace::{Tracer, TracerProvider};
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::span_processor_with_async_runtime::BatchSpanProcessor;
use opentelemetry_sdk::trace::{BatchConfigBuilder, SdkTracerProvider, SpanData, SpanExporter};
use tickless_adapters::opentelemetry::Runtime;

use super::PAUSE;

/// An exporter that sends the names of spans to the test.
#[derive(Debug)]
struct Exporter(Sender<Vec<String>>);

impl SpanExporter for Exporter {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let names = batch.iter().map(|span| span.name.to_string());
        let _ = self.0.send(names.collect());
        Ok(())
    }
}

#[test]
fn spans_are_exported_after_the_delay() {
    let tokio = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .build()
        .unwrap();
    let (sender, receiver) = channel();
    let config = BatchConfigBuilder::default()
        .with_scheduled_delay(PAUSE)
        .build();
    let started = Instant::now();
    let processor =
        BatchSpanProcessor::builder(Exporter(sender), Runtime::new(tokio.handle().clone()))
            .with_batch_config(config)
            .build();
    let provider = SdkTracerProvider::builder()
        .with_span_processor(processor)
        .build();
    let tracer = provider.tracer("test");
    tracer.in_span("first", |_| ());
    tracer.in_span("second", |_| ());
    // Nothing flushes: it is the delay that has them exported.
    let mut names = Vec::new();
    while names.len() < 2 {
        names.extend(receiver.recv_timeout(Duration::from_secs(60)).unwrap());
    }
    assert_eq!(names, ["first", "second"]);
    assert!(started.elapsed() >= PAUSE);
    provider.shutdown().unwrap();
}
