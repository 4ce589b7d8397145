//! The event loop of JavaScript, in a browser, in one of its workers, or in node: its clocks, and `setTimeout`.
//!
//! There is one thread, and it must not wait: what is to happen later, the event loop calls. There is one call at a
//! time that it is asked for; an earlier one replaces it.
//!
//! # Limits
//!
//! A call comes late: browsers round to milliseconds, make calls that ask for the next one wait 4 ms, and wait for a
//! second or a minute while the page is hidden. It may come early: `setTimeout` rounds as it likes, and takes no more
//! than 2^31 - 1 milliseconds. So what is called looks at the clock, and asks again.

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

/// Returns the nanoseconds since the page was loaded or the program began. It never goes back.
pub(crate) fn since_start() -> i64 {
    nanos_of(performance_now())
}

/// Returns the nanoseconds since 1970.
pub(crate) fn time_of_day() -> i64 {
    nanos_of(date_now())
}

/// Converts milliseconds. Rounds down.
fn nanos_of(millis: f64) -> i64 {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "it saturates; 2^53 ns are 104 days, from where it is rounded"
    )]
    let nanos = (millis * 1e6) as i64;
    nanos
}

/// The call that the event loop is asked for.
struct Call {
    /// Closure that it calls, made once.
    closure: Closure<dyn FnMut()>,
    /// The pending one, and when it comes, on the clock of [`since_start`].
    pending: Option<(JsValue, i64)>,
}

thread_local! {
    static CALL: RefCell<Option<Call>> = const { RefCell::new(None) };
}

/// Schedules a call of `function` by the event loop, the same at each call, in `nanos` from now, or at the time asked
/// for before if that is earlier.
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
