//! The system calls that a sealed process can make, with the reason for each. Everything else kills it.
//!
//! This table is the whole policy: the filter is compiled from it, and a test makes the calls that are not in it.

use libc::c_long;

use crate::policy::{Policy, Sockets};

/// A system call that is allowed.
pub(super) struct Call {
    pub(super) number: c_long,
    /// Conditions that must all hold. If there are none, the call is always allowed.
    pub(super) when: &'static [When],
    pub(super) who: Who,
    /// What needs the call. Documentation only: the filter does not depend on it.
    #[allow(dead_code)]
    pub(super) reason: &'static str,
}

/// A condition on the arguments of a call.
#[derive(Clone, Copy)]
pub(super) enum When {
    /// The argument with that index equals the value, in its lower 32 bits.
    Equals(u8, u32),
    /// The argument with that index differs from the value, in its lower 32 bits.
    Differs(u8, u32),
    /// The argument with that index has exactly these bits, of those in the mask: index, mask, bits.
    Bits(u8, u64, u64),
    /// The argument with that index is 0, in all its bits: a null pointer.
    Null(u8),
}

/// The processes that need a call.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Who {
    Everybody,
    /// Processes with [`Policy::threads`].
    Threads,
    /// Processes with [`Policy::compiles`].
    Compilers,
    /// Processes with [`Sockets::Listening`].
    Listening,
}

impl Call {
    pub(super) fn is_for(&self, policy: &Policy) -> bool {
        match self.who {
            Who::Everybody => true,
            Who::Threads => policy.threads,
            Who::Compilers => policy.compiles,
            Who::Listening => matches!(policy.sockets, Sockets::Listening(_)),
        }
    }
}

const fn call(number: c_long, who: Who, reason: &'static str) -> Call {
    Call { number, when: &[], who, reason }
}

const fn call_if(number: c_long, when: &'static [When], who: Who, reason: &'static str) -> Call {
    Call { number, when, who, reason }
}

/// `_IOWR('f', 16, struct pm_scan_arg)`: lists the pages of this process that were written to.
const PAGEMAP_SCAN: u32 = 0xC060_6610;

/// Names a region of memory, for `/proc/PID/maps`.
const PR_SET_VMA: u32 = 0x5356_4d41;

/// The third argument of `mmap` and `mprotect` without `PROT_EXEC`.
const NOT_EXECUTABLE: When = When::Bits(2, libc::PROT_EXEC as u64, 0);

/// The third argument of `mmap` and `mprotect` with `PROT_EXEC`.
const EXECUTABLE: When = When::Bits(2, libc::PROT_EXEC as u64, libc::PROT_EXEC as u64);

/// The fourth argument of `mmap` for a private mapping, with the flags that allocators and engines use. The limit on memory
/// (`RLIMIT_DATA`) counts no shared mappings and none that grow by themselves.
const PRIVATE: When = When::Bits(3, !MAPPED, libc::MAP_PRIVATE as u64);

const MAPPED: u64 =
    (libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_FIXED_NOREPLACE | libc::MAP_NORESERVE | libc::MAP_STACK) as u64;

/// All bits of a 32-bit argument except these flags.
const fn except(flags: i32) -> u64 {
    !flags.cast_unsigned() as u64
}

/// The arguments of `sendto` for a socket that is connected: no address, and no flags but those that the standard library
/// uses. With an address and `MSG_FASTOPEN`, it would connect.
const CONNECTED: &[When] =
    &[When::Bits(3, except(libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT), 0), When::Null(4), When::Equals(5, 0)];

/// The arguments of `setsockopt` for the TCP options that are set for accepted connections.
const TCP_OPTIONS: [[When; 2]; 3] = [
    socket_option(libc::IPPROTO_TCP, libc::TCP_NODELAY),
    socket_option(libc::IPPROTO_TCP, libc::TCP_KEEPIDLE),
    socket_option(libc::IPPROTO_TCP, libc::TCP_KEEPINTVL),
];

/// The arguments of `setsockopt` for an option of all sockets.
const KEEPALIVE: [When; 2] = socket_option(libc::SOL_SOCKET, libc::SO_KEEPALIVE);

const fn socket_option(level: i32, name: i32) -> [When; 2] {
    [When::Equals(1, level.cast_unsigned()), When::Equals(2, name.cast_unsigned())]
}

/// The first argument of a call about a clock that has a name. Other values are the processor times of a process or thread by
/// its id.
const CLOCK: When = When::Bits(0, 0xffff_fff0, 0);

/// The second argument of `futex` for locks that do not tell the kernel their owner by its id.
const LOCKS: [When; 4] =
    [lock(libc::FUTEX_WAIT), lock(libc::FUTEX_WAKE), lock(libc::FUTEX_WAIT_BITSET), lock(libc::FUTEX_REQUEUE)];

/// A condition on the operation of `futex`. Its options, such as the clock of a deadline, are ignored.
const fn lock(operation: i32) -> When {
    When::Bits(1, except(libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME), operation.cast_unsigned() as u64)
}

/// The first argument of a call about the scheduling of a thread that is named by its id. 0 is the calling thread.
pub(super) const BY_ID: When = When::Differs(0, 0);

/// The first argument of `clone` for a thread: not a process, and no namespace.
const A_THREAD: When = When::Bits(
    0,
    (libc::CLONE_THREAD
        | libc::CLONE_VM
        | libc::CLONE_NEWUSER
        | libc::CLONE_NEWNET
        | libc::CLONE_NEWNS
        | libc::CLONE_NEWPID
        | libc::CLONE_NEWIPC
        | libc::CLONE_NEWUTS
        | libc::CLONE_NEWCGROUP) as u64,
    (libc::CLONE_THREAD | libc::CLONE_VM) as u64,
);

use Who::{Compilers, Everybody, Listening, Threads};

pub(super) const ALLOWED: &[Call] = &[
    // Messages
    call(libc::SYS_read, Everybody, "messages of the host, wake-ups"),
    call(libc::SYS_readv, Everybody, "messages of the host"),
    call(libc::SYS_write, Everybody, "messages to the host, wake-ups"),
    call(libc::SYS_writev, Everybody, "messages to the host"),
    call(libc::SYS_close, Everybody, "the end of a connection and of the process"),
    call_if(
        libc::SYS_fcntl,
        &[When::Equals(1, libc::F_GETFD as u32)],
        Everybody,
        "debug builds check that a descriptor is open before they close it",
    ),
    #[cfg(target_arch = "x86_64")]
    call(libc::SYS_epoll_wait, Everybody, "waiting for messages"),
    call(libc::SYS_epoll_pwait, Everybody, "waiting for messages"),
    call(libc::SYS_epoll_ctl, Everybody, "the end of a connection"),
    #[cfg(target_arch = "x86_64")]
    call(libc::SYS_poll, Everybody, "the thread that waits for the end of the host"),
    call(libc::SYS_ppoll, Everybody, "the thread that waits for the end of the host"),
    // Threads and time
    call_if(libc::SYS_futex, &[LOCKS[0]], Everybody, "locks"),
    call_if(libc::SYS_futex, &[LOCKS[1]], Everybody, "locks, and the threads that wait for them"),
    call_if(libc::SYS_futex, &[LOCKS[2]], Everybody, "locks, with a deadline"),
    call_if(libc::SYS_futex, &[LOCKS[3]], Everybody, "condition variables of some C libraries"),
    call_if(libc::SYS_clock_nanosleep, &[CLOCK], Everybody, "the ticker"),
    call_if(
        libc::SYS_clock_gettime,
        &[CLOCK],
        Everybody,
        "deadlines, where the kernel maps no clock into the process; the processor time of the thread",
    ),
    call(libc::SYS_sched_yield, Everybody, "locks"),
    call(libc::SYS_restart_syscall, Everybody, "waiting again after the process was stopped and continued"),
    call(libc::SYS_getrandom, Everybody, "the seeds of hash tables and of guests"),
    call(libc::SYS_gettid, Everybody, "the message of a panic, the start of a thread"),
    // Memory, not executable
    call_if(libc::SYS_mmap, &[NOT_EXECUTABLE, PRIVATE], Everybody, "memory of guests and of the allocator"),
    call_if(libc::SYS_mprotect, &[NOT_EXECUTABLE], Everybody, "memory of guests that grows"),
    call(libc::SYS_munmap, Everybody, "memory of the allocator"),
    call(libc::SYS_mremap, Everybody, "memory of the allocator; protection stays as it is"),
    call(libc::SYS_madvise, Everybody, "memory of ended guests"),
    call(libc::SYS_brk, Everybody, "memory of the allocator"),
    call_if(libc::SYS_prctl, &[When::Equals(0, PR_SET_VMA)], Everybody, "the name that an allocator gives its memory"),
    call_if(libc::SYS_ioctl, &[When::Equals(1, PAGEMAP_SCAN)], Everybody, "resetting the memory of ended guests"),
    // An engine that compiles programs, and the C++ libraries that it consists of
    call_if(libc::SYS_mmap, &[EXECUTABLE, PRIVATE], Compilers, "memory for compiled programs"),
    call_if(libc::SYS_mprotect, &[EXECUTABLE], Compilers, "memory for compiled programs"),
    call(libc::SYS_pkey_mprotect, Compilers, "memory for compiled programs, on processors with protection keys"),
    call(
        libc::SYS_openat,
        Compilers,
        "refused by another filter: settings of the system, read when they are first needed",
    ),
    call(libc::SYS_pread64, Compilers, "how much memory the process has, from a file that is open"),
    call(
        libc::SYS_sched_getaffinity,
        Compilers,
        "the number of processors, where its file cannot be opened; of a thread by its id refused by another filter",
    ),
    call(
        libc::SYS_sched_getparam,
        Compilers,
        "answered by another filter: the priority of a thread that waits for a lock",
    ),
    call(
        libc::SYS_sched_getscheduler,
        Compilers,
        "answered by another filter: the priority of a thread that waits for a lock",
    ),
    call(libc::SYS_getpid, Compilers, "the seeds of addresses"),
    // Threads of the engine are started before the process is locked, and may not have made these calls by then.
    call(libc::SYS_set_robust_list, Compilers, "the start of a thread"),
    call(libc::SYS_rseq, Compilers, "the start of a thread"),
    call_if(libc::SYS_prctl, &[When::Equals(0, libc::PR_SET_NAME as u32)], Compilers, "the name of a thread"),
    // Faults of guests, and the end
    call(libc::SYS_rt_sigreturn, Everybody, "the return from a trap of a guest or from a signal"),
    call(libc::SYS_rt_sigprocmask, Everybody, "traps of guests, the end of a thread"),
    call(libc::SYS_sigaltstack, Everybody, "the stack on which traps are handled"),
    call(libc::SYS_exit, Everybody, "the end of a thread"),
    call(libc::SYS_exit_group, Everybody, "the end of the process"),
    // Threads that are started later
    call_if(libc::SYS_clone, &[A_THREAD], Threads, "starting a thread"),
    call(libc::SYS_clone3, Threads, "refused with ENOSYS by another filter, since its arguments cannot be seen"),
    call(libc::SYS_rt_sigaction, Threads, "the first thread: a signal of the C library"),
    call(libc::SYS_set_robust_list, Threads, "the start of a thread"),
    call(libc::SYS_rseq, Threads, "the start of a thread"),
    call(libc::SYS_sched_getaffinity, Threads, "refused by another filter: the bounds of a thread's stack"),
    call_if(libc::SYS_prctl, &[When::Equals(0, libc::PR_SET_NAME as u32)], Threads, "the name of a thread"),
    // Sockets that are open
    call(libc::SYS_recvfrom, Everybody, "signals, which reach the runtime over a pair of sockets; messages"),
    call_if(
        libc::SYS_sendto,
        CONNECTED,
        Everybody,
        "signals, which reach the runtime over a pair of sockets; messages",
    ),
    call_if(
        libc::SYS_shutdown,
        &[When::Equals(1, libc::SHUT_WR as u32)],
        Listening,
        "the end of a connection; on a listener, the other side would let it connect",
    ),
    call(libc::SYS_sched_getaffinity, Listening, "refused by another filter: the bounds of a thread's stack"),
    call(libc::SYS_accept4, Listening, "new connections"),
    call_if(libc::SYS_setsockopt, &TCP_OPTIONS[0], Listening, "connections without delay"),
    call_if(libc::SYS_setsockopt, &KEEPALIVE, Listening, "connections whose peer is gone"),
    call_if(libc::SYS_setsockopt, &TCP_OPTIONS[1], Listening, "connections whose peer is gone"),
    call_if(libc::SYS_setsockopt, &TCP_OPTIONS[2], Listening, "connections whose peer is gone"),
];
