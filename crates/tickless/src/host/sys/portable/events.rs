//! The event loop of JavaScript, in a browser, in one of its workers, or in node: its clocks, and `setTimeout`.
//!
//! There is one thread, and it must not wait: the event loop calls a function for work that has to happen later. At
//! most one call is requested at a time; a request for an earlier time replaces it.
//!
//! # Limits
//!
//! A call is late: browsers round to milliseconds, wait 4 ms before a call that an earlier call requested, and delay
//! calls by a second or a minute while the page is hidden. A call may also be early: `setTimeout` may round in either
//! direction, and accepts no more than 2^31 - 1 milliseconds. So the called function reads the clock, and requests
//! another call if it is too early.

use std::cell::RefCell;

use wasm_bindgen::JsValue;
use wasm_bindgen::closure::Closure;
use wasm_bindgen::prelude::wasm_bindgen;

#[wasm_bindgen]
extern "C" {
    #[wasm_bindgen(js_namespace = performance, js_name = now)]
    fn performance_now() -> f64;
    #[wasm_bindgen(js_namespace = Date, js_name = now)]
    fn date_now() -> f64;
    #[wasm_bindgen(js_name = setTimeout)]
    fn set_timeout(callback: &Closure<dyn FnMut()>, millis: i32) -> JsValue;
    #[wasm_bindgen(js_name = clearTimeout)]
    fn clear_timeout(handle: &JsValue);
}

const NANOS_PER_MILLI: i64 = 1_000_000;

/// Returns the nanoseconds since the page was loaded or the program began. The time never goes back.
pub(crate) fn since_start() -> i64 {
    nanos_of(performance_now())
}

/// Returns the nanoseconds since 1970.
pub(crate) fn time_of_day() -> i64 {
    nanos_of(date_now())
}

/// Converts milliseconds to nanoseconds, rounded down.
fn nanos_of(millis: f64) -> i64 {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "it saturates; 2^53 ns are 104 days, from where it is rounded"
    )]
    let nanos = (millis * 1e6) as i64;
    nanos
}

/// The call that is requested from the event loop.
struct Call {
    /// The closure that the event loop calls; made once.
    closure: Closure<dyn FnMut()>,
    /// The pending call, and its time on the clock of [`since_start`].
    pending: Option<(JsValue, i64)>,
}

thread_local! {
    static CALL: RefCell<Option<Call>> = const { RefCell::new(None) };
}

/// Schedules a call of `function` by the event loop in `nanos` from now, or at the time that was requested before if
/// that is earlier. Each call has to pass the same `function`.
pub(crate) fn call_in(nanos: i64, function: fn()) {
    let when = since_start().saturating_add(nanos.max(0));
    CALL.with_borrow_mut(|call| {
        let call = call.get_or_insert_with(|| Call {
            closure: Closure::new(move || {
                // The function may ask for the next call.
                CALL.with_borrow_mut(|call| {
                    if let Some(call) = call {
                        call.pending = None;
                    }
                });
                function();
            }),
            pending: None,
        });
        if let Some((handle, pending)) = &call.pending {
            if *pending <= when {
                return;
            }
            clear_timeout(handle);
        }
        let millis = nanos.max(0).saturating_add(NANOS_PER_MILLI - 1) / NANOS_PER_MILLI;
        let handle = set_timeout(&call.closure, i32::try_from(millis).unwrap_or(i32::MAX));
        call.pending = Some((handle, when));
    });
}
