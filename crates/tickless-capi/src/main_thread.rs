//! The end of a process whose main thread ends by `pthread_exit`.
//!
//! The problem: the C library ends a process at the end of its last thread, and the threads of the library never end.
//!
//! The mechanism: the destructor of a thread key notices the end of the main thread. From then on, once the library has
//! a thread, a watcher looks in `/proc` for other threads, and calls `exit` when all of them are the library's. It
//! looks at most `LONGEST_PAUSE` late. A program whose timers start threads goes on, as with the C library's own
//! timers: their notifications are what such a program is left with.

use std::ffi::{c_int, c_void};
use std::fs;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::Duration;

use crate::thread_key::ThreadKey;

/// The longest time between two looks of the watcher.
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// The names of the threads of the library below. The POSIX timers' thread is known by its number, because threads that
/// it starts for the program have its name.
const NAMES: [&str; 2] = ["tickless-clocks", "tickless-expiry"];

/// True if the main thread ended.
static HAS_ENDED: AtomicBool = AtomicBool::new(false);
/// True if a watcher was started.
static IS_WATCHED: AtomicBool = AtomicBool::new(false);
/// True if a timer was created that starts threads.
static STARTS_THREADS: AtomicBool = AtomicBool::new(false);
/// The number of the POSIX timers' thread; zero if there is none.
static SERVICE: AtomicI32 = AtomicI32::new(0);
// Relaxed, all and everywhere: each says something of its own, which is not published by it.

fn this_thread() -> c_int {
    // SAFETY: no pointers.
    unsafe { libc::gettid() }
}

/// Makes the end of this thread known, if it is the main thread. Any thread may call it, any number of times.
pub fn notice_end() {
    static KEY: ThreadKey = ThreadKey::new(ended);
    // SAFETY: no pointers.
    if this_thread() == unsafe { libc::getpid() } {
        let any_but_null = ptr::NonNull::<c_void>::dangling();
        let _no_memory_is_left = KEY.set(any_but_null.as_ptr());
    }
}

extern "C" fn ended(_: *mut c_void) {
    HAS_ENDED.store(true, Ordering::Relaxed);
    let mut has_library_threads = false;
    for_each_thread(|thread, name| has_library_threads |= is_of_library(thread, name));
    if has_library_threads {
        watch();
    }
}

/// Notes that this thread is the POSIX timers' thread.
pub(crate) fn note_service() {
    SERVICE.store(this_thread(), Ordering::Relaxed);
    if HAS_ENDED.load(Ordering::Relaxed) {
        watch();
    }
}

/// Notes that a timer was created that starts threads.
pub(crate) fn note_threads() {
    STARTS_THREADS.store(true, Ordering::Relaxed);
}

/// Forgets the other threads, in the child of a fork.
pub(crate) fn forget() {
    for flag in [&HAS_ENDED, &IS_WATCHED, &STARTS_THREADS] {
        flag.store(false, Ordering::Relaxed);
    }
    SERVICE.store(0, Ordering::Relaxed);
}

/// Starts the watcher, unless it runs. The process goes on for ever if the system refuses it.
fn watch() {
    if IS_WATCHED.swap(true, Ordering::Relaxed) {
        return;
    }
    let mut thread = 0;
    // Not by the standard library: the thread-locals of the main thread are gone.
    // SAFETY: it writes the number; the function needs no argument.
    let refused =
        unsafe { libc::pthread_create(&raw mut thread, ptr::null(), wait, ptr::null_mut()) };
    if refused == 0 {
        // SAFETY: started above.
        let _detached = unsafe { libc::pthread_detach(thread) };
    }
}

extern "C" fn wait(_: *mut c_void) -> *mut c_void {
    let mut pause = Duration::from_millis(1);
    loop {
        let mut has_others = STARTS_THREADS.load(Ordering::Relaxed);
        let own = this_thread();
        let is_known = for_each_thread(|thread, name| {
            has_others |= thread != own && !is_of_library(thread, name);
        });
        if is_known && !has_others {
            // SAFETY: the last thread of a process calls it, too.
            unsafe { libc::exit(0) };
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

fn is_of_library(thread: c_int, name: &str) -> bool {
    thread == SERVICE.load(Ordering::Relaxed) || NAMES.contains(&name)
}

/// Calls `visit` with the number and the name of each thread of the process that has not ended. Returns false if the
/// system did not name all of them.
fn for_each_thread(mut visit: impl FnMut(c_int, &str)) -> bool {
    let Ok(threads) = fs::read_dir("/proc/self/task") else {
        return false;
    };
    for thread in threads {
        let Ok(thread) = thread else { return false };
        // One that has ended meanwhile has no file any more.
        let Ok(text) = fs::read_to_string(thread.path().join("stat")) else {
            continue;
        };
        // The number, the name in parentheses, the state.
        let parts = text.split_once(" (").and_then(|(number, rest)| {
            let (name, rest) = rest.rsplit_once(") ")?;
            Some((number.parse().ok()?, name, rest.chars().next()?))
        });
        let Some((number, name, state)) = parts else {
            return false;
        };
        if !matches!(state, 'Z' | 'X') {
            visit(number, name);
        }
    }
    true
}
