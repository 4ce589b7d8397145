//! Keys whose destructors notice the ends of threads.

use std::ffi::c_void;
use std::sync::OnceLock;

use crate::errno::Errno;

/// A thread key that is made when it is first set, and never deleted.
pub(crate) struct ThreadKey {
    key: OnceLock<Result<libc::pthread_key_t, Errno>>,
    destructor: extern "C" fn(*mut c_void),
}

impl ThreadKey {
    pub(crate) const fn new(destructor: extern "C" fn(*mut c_void)) -> Self {
        Self {
            key: OnceLock::new(),
            destructor,
        }
    }

    /// Makes the end of this thread call the destructor with `value`, unless that is null.
    pub(crate) fn set(&self, value: *const c_void) -> Result<(), Errno> {
        let key = *self.key.get_or_init(|| {
            let mut key = 0;
            // SAFETY: it writes the key; the destructor stays, as this code does.
            let result = unsafe { libc::pthread_key_create(&raw mut key, Some(self.destructor)) };
            done(result).map(|()| key)
        });
        // SAFETY: the key is never deleted.
        done(unsafe { libc::pthread_setspecific(key?, value) })
    }
}

fn done(result: i32) -> Result<(), Errno> {
    if result == 0 {
        Ok(())
    } else {
        Err(Errno::of_system(result))
    }
}
