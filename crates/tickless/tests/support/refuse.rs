//! A filter that has the kernel refuse a system call, as sandboxes do.
#![expect(unsafe_code, reason = "the test calls the system")]

const fn step(code: u32, jump_if_not: u8, operand: u32) -> libc::sock_filter {
    #[expect(clippy::cast_possible_truncation, reason = "codes have 16 bits")]
    libc::sock_filter {
        code: code as u16,
        jt: 0,
        jf: jump_if_not,
        k: operand,
    }
}

/// Makes the kernel refuse `call` (`EPERM`) to all threads of this process from now on; returns `false` if the kernel
/// accepts no filters.
pub(crate) fn refuse(call: libc::c_long) -> bool {
    let call = u32::try_from(call).expect("it is small");
    let errno = libc::EPERM.unsigned_abs();
    let mut steps = [
        // The number of the call is at offset 0.
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0),
        step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 1, call),
        step(
            libc::BPF_RET | libc::BPF_K,
            0,
            libc::SECCOMP_RET_ERRNO | errno,
        ),
        step(libc::BPF_RET | libc::BPF_K, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog {
        len: 4,
        filter: steps.as_mut_ptr(),
    };
    // SAFETY: it takes no pointers.
    let harmless = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    let (mode, all) = (
        libc::SECCOMP_SET_MODE_FILTER,
        libc::SECCOMP_FILTER_FLAG_TSYNC,
    );
    // SAFETY: `program` and its steps live as long as the call, which copies them.
    let filtered = unsafe { libc::syscall(libc::SYS_seccomp, mode, all, &raw const program) };
    harmless == 0 && filtered == 0
}
