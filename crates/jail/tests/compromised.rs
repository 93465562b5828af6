//! What a process in the jail can do if its program was taken over: by raw system calls, as root and as an ordinary user.
//!
//! Each attempt runs in a process of its own, which is this program. In a sealed process an attempt ends with SIGSYS, unless
//! the table says that it is refused; in a process that is confined only, the layers below the filter are tested.

// Raw system calls are unsafe: the attempts must not depend on a library that refuses them.
#![allow(unsafe_code)]
#![cfg(target_os = "linux")]

use std::collections::HashMap;
use std::io::Write as _;
use std::net::TcpListener;
use std::os::fd::IntoRawFd;
use std::os::unix::net::UnixListener;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Command, Output, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};
use std::{env, fs, io, process, ptr, thread};

use execbox_jail::{Jail, Layer, Mode, Policy, Report, Sockets, Status};
use libc::{c_long, c_ulong, syscall};
use libtest_mimic::{Arguments, Failed, Trial};

/// The argument that makes this program an attempt: stage and name follow.
const ATTEMPT: &str = "--attempt-in-jail";

/// The descriptor that the parent leaves open.
const INHERITED: i32 = 50;

/// The descriptor of a socket that is connected, to another one of the same process.
const CONNECTED: i32 = 60;

/// The descriptor of the socket at which a listening process accepts connections.
const LISTENER: i32 = 61;

/// The user that is not root.
const NOBODY: u32 = 65534;

/// How an attempt ends in a sealed process.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sealed {
    /// By SIGSYS.
    Killed,
    /// By SIGSYS; with an error if the engine compiles programs.
    KilledOrRefused,
    /// By SIGSYS; with an error if the engine compiles programs, or the process listens.
    KilledOnPipes,
    /// By SIGSYS; the process can do that if the engine compiles programs.
    KilledOrPermitted,
    /// By SIGSYS; the process can do that if it listens.
    KilledOrListening,
    /// By SIGSYS; the process can do that if it listens or the engine compiles programs.
    NotOnPipes,
    /// With an error.
    Refused,
    /// The process can do that.
    Permitted,
}

/// The processes whose system calls are locked.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Serves one host on pipes.
    Pipes,
    /// Serves one host on pipes, and compiles programs.
    Compiling,
    /// Accepts connections over TCP.
    Tcp,
    /// Accepts connections at a Unix socket.
    Unix,
}

impl Kind {
    const ALL: [(Self, &str); 4] = [
        (Self::Pipes, "sealed"),
        (Self::Compiling, "compiling"),
        (Self::Tcp, "listening"),
        (Self::Unix, "listening-unix"),
    ];

    fn expects(self, sealed: Sealed) -> Sealed {
        match (sealed, self) {
            (KilledOrRefused, Self::Compiling) => Sealed::Refused,
            (KilledOnPipes, _) if self != Self::Pipes => Sealed::Refused,
            (KilledOrPermitted, Self::Compiling) | (KilledOrListening, Self::Tcp | Self::Unix) => Permitted,
            (Sealed::NotOnPipes, _) if self != Self::Pipes => Permitted,
            (KilledOnPipes | Sealed::NotOnPipes | KilledOrRefused | KilledOrPermitted | KilledOrListening, _) => Killed,
            _ => sealed,
        }
    }
}

/// How an attempt ends in a process that is confined, without the filter.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Confined {
    Refused,
    /// Only the filter refuses the attempt.
    Untested,
}

use Sealed::{Killed, KilledOnPipes, KilledOrListening, KilledOrPermitted, KilledOrRefused, Permitted};

struct Attempt {
    name: &'static str,
    sealed: Sealed,
    confined: Confined,
    /// Returns what a system call returns: negative if it failed.
    act: fn() -> c_long,
}

const fn attempt(name: &'static str, sealed: Sealed, confined: Confined, act: fn() -> c_long) -> Attempt {
    Attempt { name, sealed, confined, act }
}

/// Calls the kernel. All arguments are integers or addresses of what lives as long as the call.
macro_rules! call {
    ($number:ident $(, $argument:expr)*) => {
        // SAFETY: the process exists for this call: what it breaks, it breaks in a process that is about to end.
        unsafe { syscall(libc::$number $(, $argument)*) }
    };
}

fn parent() -> c_long {
    env::var("PARENT").unwrap().parse().unwrap()
}

fn path_in_proc(file: &str) -> Vec<u8> {
    format!("/proc/{}/{file}\0", parent()).into_bytes()
}

fn open(path: &[u8], flags: i32) -> c_long {
    call!(SYS_openat, libc::AT_FDCWD, path.as_ptr(), flags, 0o600)
}

fn map(protection: i32, flags: i32, length: usize) -> c_long {
    call!(SYS_mmap, 0, length, protection, flags | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0)
}

fn mapped(length: usize) -> c_long {
    map(libc::PROT_READ | libc::PROT_WRITE, 0, length)
}

fn writable(flags: i32) -> c_long {
    call!(SYS_mmap, 0, 4096, libc::PROT_READ | libc::PROT_WRITE, flags | libc::MAP_ANONYMOUS, -1, 0)
}

fn send(socket: i32, flags: i32, address: Option<&[u8; 16]>) -> c_long {
    let (address, length) = address.map_or((ptr::null(), 0), |address| (address.as_ptr(), address.len()));
    call!(SYS_sendto, socket, c"x".as_ptr(), 1, flags, address, length)
}

fn set_option(socket: i32, level: i32, name: i32) -> c_long {
    let one = 1_i32;
    call!(SYS_setsockopt, socket, level, name, &raw const one, size_of_val(&one))
}

/// The clock of a process: its inverted id, and the kind of clock.
fn clock_of(process: c_long) -> c_long {
    (!process << 3) | 2
}

/// Fails if the answers about this process's parent, the first process and one that cannot exist are the same.
fn tells_processes(ask: impl FnMut(c_long) -> c_long) -> c_long {
    let answers = [parent(), 1, 0x3fff_fff0].map(ask);
    if answers.iter().all(|answer| *answer == answers[0]) { -1 } else { 0 }
}

const ATTEMPTS: &[Attempt] = &[
    // Files
    attempt("read a file", KilledOrRefused, Confined::Refused, || open(b"/etc/passwd\0", libc::O_RDONLY)),
    attempt("read a file by open", Killed, Confined::Refused, || call!(SYS_open, c"/etc/passwd".as_ptr(), 0)),
    attempt("read the root directory", KilledOrRefused, Confined::Refused, || {
        open(b"/\0", libc::O_RDONLY | libc::O_DIRECTORY)
    }),
    attempt("leave the root directory", KilledOrRefused, Confined::Refused, || {
        open(b"/../../etc/passwd\0", libc::O_RDONLY)
    }),
    attempt("write a file", KilledOrRefused, Confined::Refused, || {
        open(b"/tmp/execbox-jail\0", libc::O_RDWR | libc::O_CREAT)
    }),
    attempt("write a file into the root", KilledOrRefused, Confined::Refused, || {
        open(b"/x\0", libc::O_RDWR | libc::O_CREAT)
    }),
    attempt("make a directory", Killed, Confined::Refused, || {
        call!(SYS_mkdirat, libc::AT_FDCWD, c"/x".as_ptr(), 0o700)
    }),
    attempt("read the state of a file", Killed, Confined::Refused, || {
        let mut state = [0_u8; 512];
        call!(SYS_newfstatat, libc::AT_FDCWD, c"/etc/passwd".as_ptr(), state.as_mut_ptr(), 0)
    }),
    attempt("open a file by handle", Killed, Confined::Refused, || {
        let handle = [0_u8; 128];
        call!(SYS_open_by_handle_at, libc::AT_FDCWD, handle.as_ptr(), 0)
    }),
    attempt("truncate a file", Killed, Confined::Refused, || call!(SYS_truncate, c"/etc/passwd".as_ptr(), 0)),
    attempt("remove a file", Killed, Confined::Refused, || {
        call!(SYS_unlinkat, libc::AT_FDCWD, c"/etc/passwd".as_ptr(), 0)
    }),
    attempt("link a file", Killed, Confined::Refused, || {
        call!(SYS_linkat, libc::AT_FDCWD, c"/etc/passwd".as_ptr(), libc::AT_FDCWD, c"/x".as_ptr(), 0)
    }),
    attempt("watch files", Killed, Confined::Untested, || call!(SYS_inotify_init1, 0)),
    // Sockets
    attempt("make a TCP socket", Killed, Confined::Untested, || call!(SYS_socket, libc::AF_INET, libc::SOCK_STREAM, 0)),
    attempt("make a UDP socket", Killed, Confined::Untested, || call!(SYS_socket, libc::AF_INET, libc::SOCK_DGRAM, 0)),
    attempt("make a Unix socket", Killed, Confined::Untested, || {
        call!(SYS_socket, libc::AF_UNIX, libc::SOCK_STREAM, 0)
    }),
    attempt("make a netlink socket", Killed, Confined::Untested, || {
        call!(SYS_socket, libc::AF_NETLINK, libc::SOCK_RAW, 0)
    }),
    attempt("make a raw socket", Killed, Confined::Refused, || call!(SYS_socket, libc::AF_INET, libc::SOCK_RAW, 1)),
    attempt("make a socket for packets", Killed, Confined::Refused, || {
        call!(SYS_socket, libc::AF_PACKET, libc::SOCK_RAW, 3)
    }),
    attempt("make a pair of sockets", Killed, Confined::Untested, || {
        let mut pair = [0_i32; 2];
        call!(SYS_socketpair, libc::AF_UNIX, libc::SOCK_STREAM, 0, pair.as_mut_ptr())
    }),
    attempt("connect to the machine", Killed, Confined::Refused, || connect([127, 0, 0, 1], 22)),
    attempt("connect to the internet", Killed, Confined::Refused, || connect([192, 0, 2, 1], 443)),
    // Sockets that are open
    attempt("send to the other end", Permitted, Confined::Untested, || send(CONNECTED, libc::MSG_NOSIGNAL, None)),
    attempt("send to an address", Killed, Confined::Untested, || {
        send(CONNECTED, 0, Some(&address([127, 0, 0, 1], 22)))
    }),
    attempt("send to an address of no length", Killed, Confined::Untested, || {
        let address = address([127, 0, 0, 1], 22);
        call!(SYS_sendto, CONNECTED, c"x".as_ptr(), 1, 0, address.as_ptr(), 0)
    }),
    attempt("connect a listener by sending", Killed, Confined::Untested, || {
        send(LISTENER, libc::MSG_FASTOPEN, Some(&address([127, 0, 0, 1], 22)))
    }),
    attempt("connect by sending without an address", Killed, Confined::Untested, || {
        send(CONNECTED, libc::MSG_FASTOPEN | libc::MSG_NOSIGNAL, None)
    }),
    attempt("send urgent data", Killed, Confined::Untested, || send(CONNECTED, libc::MSG_OOB, None)),
    attempt("send a message with a header", Killed, Confined::Untested, || {
        let header = [0_u64; 7];
        call!(SYS_sendmsg, CONNECTED, header.as_ptr(), libc::MSG_FASTOPEN)
    }),
    attempt("send many messages", Killed, Confined::Untested, || {
        let headers = [0_u64; 8];
        call!(SYS_sendmmsg, CONNECTED, headers.as_ptr(), 1, 0)
    }),
    attempt("receive descriptors", Killed, Confined::Untested, || {
        let mut header = [0_u64; 7];
        call!(SYS_recvmsg, CONNECTED, header.as_mut_ptr(), libc::MSG_DONTWAIT)
    }),
    attempt("disconnect a listener", Killed, Confined::Untested, || call!(SYS_shutdown, LISTENER, libc::SHUT_RDWR)),
    attempt("disconnect a listener for reading", Killed, Confined::Untested, || {
        call!(SYS_shutdown, LISTENER, libc::SHUT_RD)
    }),
    attempt("end a connection", KilledOrListening, Confined::Untested, || {
        call!(SYS_shutdown, CONNECTED, libc::SHUT_WR)
    }),
    attempt("connect a listener", Killed, Confined::Untested, || {
        call!(SYS_connect, LISTENER, address([127, 0, 0, 1], 22).as_ptr(), 16)
    }),
    attempt("connect it to nothing, which disconnects it", Killed, Confined::Untested, || {
        call!(SYS_connect, LISTENER, [0_u8; 16].as_ptr(), 16)
    }),
    attempt("bind a listener to another address", Killed, Confined::Untested, || {
        call!(SYS_bind, LISTENER, address([127, 0, 0, 1], 0).as_ptr(), 16)
    }),
    attempt("listen again", Killed, Confined::Untested, || call!(SYS_listen, LISTENER, 1)),
    attempt("permit others to listen at its port", Killed, Confined::Untested, || {
        set_option(LISTENER, libc::SOL_SOCKET, libc::SO_REUSEPORT)
    }),
    attempt("connect with the first data", Killed, Confined::Untested, || {
        set_option(LISTENER, libc::IPPROTO_TCP, libc::TCP_FASTOPEN)
    }),
    attempt("replace the state of a connection", Killed, Confined::Untested, || {
        set_option(LISTENER, libc::IPPROTO_TCP, 19) // TCP_REPAIR
    }),
    attempt("attach a filter to a socket", Killed, Confined::Untested, || {
        set_option(CONNECTED, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER)
    }),
    attempt("bind a socket to a device", Killed, Confined::Untested, || {
        set_option(LISTENER, libc::SOL_SOCKET, libc::SO_BINDTODEVICE)
    }),
    attempt("keep a connection alive", KilledOrListening, Confined::Untested, || {
        set_option(CONNECTED, libc::SOL_SOCKET, libc::SO_KEEPALIVE)
    }),
    attempt("read the process id of a host", Killed, Confined::Untested, || {
        let (mut credentials, mut length) = ([0_i32; 3], 12_u32);
        let (name, out) = (libc::SO_PEERCRED, credentials.as_mut_ptr());
        call!(SYS_getsockopt, CONNECTED, libc::SOL_SOCKET, name, out, &raw mut length)
    }),
    attempt("read the address of a host", Killed, Confined::Untested, || {
        let (mut address, mut length) = ([0_u8; 128], 128_u32);
        call!(SYS_getpeername, CONNECTED, address.as_mut_ptr(), &raw mut length)
    }),
    // /proc
    attempt("read the memory of the parent", KilledOrRefused, Confined::Refused, || {
        open(&path_in_proc("mem"), libc::O_RDWR)
    }),
    attempt("read the environment of the parent", KilledOrRefused, Confined::Refused, || {
        open(&path_in_proc("environ"), 0)
    }),
    attempt("read its own memory", KilledOrRefused, Confined::Refused, || open(b"/proc/self/mem\0", libc::O_RDWR)),
    attempt("read its own descriptors", KilledOrRefused, Confined::Refused, || {
        open(b"/proc/self/fd\0", libc::O_DIRECTORY)
    }),
    // Signals
    attempt("signal the parent", Killed, Confined::Refused, || call!(SYS_kill, parent(), libc::SIGTERM)),
    attempt("signal a thread of the parent", Killed, Confined::Refused, || {
        call!(SYS_tgkill, parent(), parent(), libc::SIGTERM)
    }),
    attempt("queue a signal for the parent", Killed, Confined::Refused, || {
        let mut info = [0_u8; 128];
        info[8] = 0xff; // a code below zero, as `sigqueue` sends
        call!(SYS_rt_sigqueueinfo, parent(), libc::SIGTERM, info.as_mut_ptr())
    }),
    attempt("get a handle of the parent", Killed, Confined::Untested, || call!(SYS_pidfd_open, parent(), 0)),
    attempt("signal itself", Killed, Confined::Untested, || call!(SYS_kill, process::id(), libc::SIGUSR1)),
    // Other processes
    attempt("trace the parent", Killed, Confined::Refused, || call!(SYS_ptrace, libc::PTRACE_ATTACH, parent(), 0, 0)),
    attempt("be traced", Killed, Confined::Untested, || call!(SYS_ptrace, libc::PTRACE_TRACEME, 0, 0, 0)),
    attempt("read the parent's memory", Killed, Confined::Refused, || move_memory(true)),
    attempt("write the parent's memory", Killed, Confined::Refused, || move_memory(false)),
    attempt("compare with the parent", Killed, Confined::Refused, || call!(SYS_kcmp, parent(), process::id(), 0, 0, 0)),
    attempt("limit the parent", Killed, Confined::Untested, || {
        let none = [0_u64; 2];
        call!(SYS_prlimit64, parent(), libc::RLIMIT_NOFILE, none.as_ptr(), 0)
    }),
    attempt("slow the parent down", Killed, Confined::Untested, || {
        call!(SYS_setpriority, libc::PRIO_PROCESS, parent(), 19)
    }),
    attempt("bind the parent to a processor", Killed, Confined::Untested, || {
        let one = 1_u64;
        call!(SYS_sched_setaffinity, parent(), 8, &raw const one)
    }),
    attempt("find processes by their policies", KilledOrRefused, Confined::Untested, || {
        tells_processes(|process| call!(SYS_sched_getscheduler, process))
    }),
    attempt("find processes by their priorities", KilledOrRefused, Confined::Untested, || {
        let mut priority = [0_i32; 4];
        tells_processes(|process| call!(SYS_sched_getparam, process, priority.as_mut_ptr()))
    }),
    attempt("find processes by their processors", KilledOnPipes, Confined::Untested, || {
        let mut set = [0_u64; 128];
        tells_processes(|process| call!(SYS_sched_getaffinity, process, 1024, set.as_mut_ptr()))
    }),
    attempt("find processes by their attributes", Killed, Confined::Untested, || {
        let mut attributes = [0_u64; 8];
        call!(SYS_sched_getattr, parent(), attributes.as_mut_ptr(), 48, 0)
    }),
    attempt("find processes by their groups", Killed, Confined::Untested, || call!(SYS_getpgid, parent())),
    attempt("find processes by their sessions", Killed, Confined::Untested, || call!(SYS_getsid, parent())),
    attempt("find processes by their nice values", Killed, Confined::Untested, || {
        call!(SYS_getpriority, libc::PRIO_PROCESS, parent())
    }),
    attempt("find processes by signals that are not sent", Killed, Confined::Untested, || call!(SYS_kill, parent(), 0)),
    attempt("read the processor time of the parent", Killed, Confined::Untested, || {
        let mut time = [0_i64; 2];
        call!(SYS_clock_gettime, clock_of(parent()), time.as_mut_ptr())
    }),
    attempt("find processes by sleeping for their processor time", Killed, Confined::Untested, || {
        let nothing = [0_i64; 2];
        call!(SYS_clock_nanosleep, clock_of(parent()), 0, nothing.as_ptr(), 0)
    }),
    attempt("find processes by locks that they do not own", Killed, Confined::Untested, || {
        let (owner, soon) = (u32::try_from(parent()).unwrap(), [0_i64, 1]);
        call!(SYS_futex, &raw const owner, libc::FUTEX_LOCK_PI, 0, soon.as_ptr(), 0, 0)
    }),
    attempt("read its own processor time", Permitted, Confined::Untested, || {
        let mut time = [0_i64; 2];
        call!(SYS_clock_gettime, libc::CLOCK_THREAD_CPUTIME_ID, time.as_mut_ptr())
    }),
    attempt("count its processors", Sealed::NotOnPipes, Confined::Untested, || {
        let mut set = [0_u64; 128];
        call!(SYS_sched_getaffinity, 0, 1024, set.as_mut_ptr())
    }),
    attempt("read the priority of its thread", KilledOrPermitted, Confined::Untested, || {
        let mut priority = [0_i32; 4];
        call!(SYS_sched_getparam, process::id(), priority.as_mut_ptr())
    }),
    // Processes and programs
    attempt("fork", Killed, Confined::Untested, || call!(SYS_fork)),
    attempt("clone a process", Killed, Confined::Untested, || call!(SYS_clone, libc::SIGCHLD, 0, 0, 0, 0)),
    attempt("clone a process by clone3", Killed, Confined::Untested, || {
        let arguments = [0_u64; 8];
        call!(SYS_clone3, arguments.as_ptr(), size_of_val(&arguments))
    }),
    attempt("run a program", Killed, Confined::Refused, || {
        call!(SYS_execve, c"/bin/true".as_ptr(), ptr::null::<u8>(), ptr::null::<u8>())
    }),
    attempt("run a program by descriptor", Killed, Confined::Refused, || {
        call!(SYS_execveat, INHERITED, c"".as_ptr(), ptr::null::<u8>(), ptr::null::<u8>(), libc::AT_EMPTY_PATH)
    }),
    // Executable memory
    attempt("map executable memory", KilledOrPermitted, Confined::Untested, || {
        map(libc::PROT_READ | libc::PROT_EXEC, 0, 4096)
    }),
    attempt("map memory that is writable and executable", KilledOrPermitted, Confined::Untested, || {
        map(libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC, 0, 4096)
    }),
    attempt("make memory executable", KilledOrPermitted, Confined::Untested, || {
        call!(SYS_mprotect, mapped(4096), 4096, libc::PROT_READ | libc::PROT_EXEC)
    }),
    attempt("make memory executable by key", KilledOrPermitted, Confined::Untested, || {
        call!(SYS_pkey_mprotect, mapped(4096), 4096, libc::PROT_READ | libc::PROT_EXEC, -1)
    }),
    attempt("make readable memory executable", Killed, Confined::Untested, || {
        call!(SYS_personality, 0x0040_0000 as c_ulong)
    }),
    attempt("make a file in memory", Killed, Confined::Untested, || call!(SYS_memfd_create, c"x".as_ptr(), 0)),
    attempt("make secret memory", Killed, Confined::Untested, || call!(SYS_memfd_secret, 0)),
    // Descriptors
    attempt("write to an inherited descriptor", Sealed::Refused, Confined::Refused, || {
        call!(SYS_write, INHERITED, c"x".as_ptr(), 1)
    }),
    attempt("duplicate a descriptor", Killed, Confined::Untested, || call!(SYS_dup, 0)),
    attempt("type into the terminal", Killed, Confined::Refused, || call!(SYS_ioctl, 0, libc::TIOCSTI, c"x".as_ptr())),
    attempt("make a pipe", Killed, Confined::Untested, || {
        let mut pipe = [0_i32; 2];
        call!(SYS_pipe2, pipe.as_mut_ptr(), 0)
    }),
    // Parts of the kernel that had faults
    attempt("set up io_uring", Killed, Confined::Untested, || {
        let mut parameters = [0_u8; 256];
        call!(SYS_io_uring_setup, 8, parameters.as_mut_ptr())
    }),
    attempt("open performance counters", Killed, Confined::Untested, || {
        let attributes = [0_u8; 128];
        call!(SYS_perf_event_open, attributes.as_ptr(), 0, -1, -1, 0)
    }),
    attempt("read keys", Killed, Confined::Untested, || call!(SYS_keyctl, 0, -3, 1)),
    attempt("add a key", Killed, Confined::Untested, || {
        call!(SYS_add_key, c"user".as_ptr(), c"x".as_ptr(), c"x".as_ptr(), 1, -2)
    }),
    attempt("handle page faults", Killed, Confined::Untested, || call!(SYS_userfaultfd, 0)),
    attempt("load a BPF program", Killed, Confined::Refused, || {
        let attributes = [0_u8; 128];
        call!(SYS_bpf, 5, attributes.as_ptr(), 128)
    }),
    attempt("load a kernel module", Killed, Confined::Refused, || {
        call!(SYS_init_module, ptr::null::<u8>(), 0, c"".as_ptr())
    }),
    attempt("restart the machine", Killed, Confined::Refused, || call!(SYS_reboot, 0xfee1_dead_u64, 672_274_793, 0, 0)),
    attempt("read the kernel's log", Killed, Confined::Untested, || {
        let mut text = [0_u8; 64];
        call!(SYS_syslog, 3, text.as_mut_ptr(), 64)
    }),
    attempt("get shared memory", Killed, Confined::Untested, || call!(SYS_shmget, 0, 4096, 0o1600)),
    attempt("get a message queue", Killed, Confined::Untested, || call!(SYS_msgget, 0, 0o1600)),
    // Clock, namespaces and privileges
    attempt("set the clock", Killed, Confined::Refused, || {
        let time = [1_u64, 0];
        call!(SYS_clock_settime, libc::CLOCK_REALTIME, time.as_ptr())
    }),
    attempt("adjust the clock", Killed, Confined::Refused, || {
        let time = [0_u64; 2];
        call!(SYS_settimeofday, time.as_ptr(), 0)
    }),
    attempt("enter a user namespace", Killed, Confined::Untested, || call!(SYS_unshare, libc::CLONE_NEWUSER)),
    attempt("enter a mount namespace", Killed, Confined::Refused, || call!(SYS_unshare, libc::CLONE_NEWNS)),
    attempt("enter a namespace by descriptor", Killed, Confined::Refused, || call!(SYS_setns, 0, 0)),
    attempt("mount", Killed, Confined::Refused, || {
        call!(SYS_mount, c"proc".as_ptr(), c"/".as_ptr(), c"proc".as_ptr(), 0, 0)
    }),
    attempt("open a tree of mounts", Killed, Confined::Refused, || {
        call!(SYS_open_tree, libc::AT_FDCWD, c"/".as_ptr(), 1)
    }),
    attempt("change the root", Killed, Confined::Refused, || call!(SYS_chroot, c"/".as_ptr())),
    attempt("set the host name", Killed, Confined::Refused, || call!(SYS_sethostname, c"x".as_ptr(), 1)),
    attempt("become root", Killed, Confined::Untested, || call!(SYS_setuid, 0)),
    attempt("become another user", Killed, Confined::Refused, || call!(SYS_setresuid, 1000, 1000, 1000)),
    attempt("take capabilities", Killed, Confined::Refused, || {
        let header = [0x2008_0522_u32, 0];
        let all = [u32::MAX; 6];
        call!(SYS_capset, header.as_ptr(), all.as_ptr())
    }),
    attempt("be dumpable", Killed, Confined::Untested, || call!(SYS_prctl, libc::PR_SET_DUMPABLE, 1, 0, 0, 0)),
    attempt("raise a limit", Killed, Confined::Refused, || {
        let limit = [1_u64 << 40; 2];
        call!(SYS_prlimit64, 0, libc::RLIMIT_DATA, limit.as_ptr(), 0)
    }),
    attempt("change the filter", Killed, Confined::Untested, || call!(SYS_seccomp, 2, 0, 0)),
    attempt("call the kernel by the numbers of x32", Killed, Confined::Untested, || {
        // SAFETY: as in `call`.
        unsafe { syscall(0x4000_0000 | libc::SYS_getpid) }
    }),
    // Memory beyond the limit, or that it does not count
    attempt("map private memory", Permitted, Confined::Untested, || writable(libc::MAP_PRIVATE | libc::MAP_NORESERVE)),
    attempt("map shared memory", Killed, Confined::Untested, || writable(libc::MAP_SHARED)),
    attempt("map shared memory of the newer kind", Killed, Confined::Untested, || writable(libc::MAP_SHARED_VALIDATE)),
    attempt("map memory that the kernel can drop", Killed, Confined::Untested, || writable(0x08)),
    attempt("map memory that grows downwards", Killed, Confined::Untested, || {
        writable(libc::MAP_PRIVATE | libc::MAP_GROWSDOWN)
    }),
    attempt("map memory that is locked", Killed, Confined::Untested, || writable(libc::MAP_PRIVATE | libc::MAP_LOCKED)),
    attempt("map huge pages", Killed, Confined::Untested, || writable(libc::MAP_PRIVATE | libc::MAP_HUGETLB)),
    attempt("map memory that is there at once", Killed, Confined::Untested, || {
        writable(libc::MAP_PRIVATE | libc::MAP_POPULATE)
    }),
    attempt("map memory with flags beyond 32 bits", Killed, Confined::Untested, || {
        let flags = libc::MAP_PRIVATE as c_ulong | libc::MAP_ANONYMOUS as c_ulong | 1 << 40;
        call!(SYS_mmap, 0, 4096, libc::PROT_READ, flags, -1, 0)
    }),
    attempt("map shared memory that is executable", Killed, Confined::Untested, || {
        let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
        call!(SYS_mmap, 0, 4096, libc::PROT_READ | libc::PROT_EXEC, flags, -1, 0)
    }),
    attempt("lock memory", Killed, Confined::Untested, || call!(SYS_mlockall, libc::MCL_CURRENT)),
    attempt("move pages of a pipe", Killed, Confined::Untested, || call!(SYS_vmsplice, 1, ptr::null::<u8>(), 0, 0)),
    attempt("take more memory than the limit", Sealed::Refused, Confined::Refused, || {
        let before = mapped(4096);
        if before < 0 { 0 } else { mapped(8 << 30) }
    }),
    // What programs do
    attempt("compute, allocate and sleep", Permitted, Confined::Untested, || {
        let numbers: HashMap<u64, Vec<u8>> = (0..100).map(|n| (n, vec![1; 1 << 18])).collect();
        let started = Instant::now();
        thread::sleep(Duration::from_millis(2));
        c_long::from(numbers.len() == 100 && started.elapsed() >= Duration::from_millis(2)) - 1
    }),
    attempt("panic and catch it", Permitted, Confined::Untested, || {
        c_long::from(std::panic::catch_unwind(|| panic!("as it must be possible")).is_err()) - 1
    }),
];

fn connect(to: [u8; 4], port: u16) -> c_long {
    let socket = call!(SYS_socket, libc::AF_INET, libc::SOCK_STREAM, 0);
    if socket < 0 { socket } else { call!(SYS_connect, socket, address(to, port).as_ptr(), 16) }
}

fn address([a, b, c, d]: [u8; 4], port: u16) -> [u8; 16] {
    let [high, low] = port.to_be_bytes();
    [2, 0, high, low, a, b, c, d, 0, 0, 0, 0, 0, 0, 0, 0]
}

/// Copies memory between this process and its parent, from or to the address of a static of the program that both run.
fn move_memory(read: bool) -> c_long {
    let mut buffer = [0_u64; 1];
    let here = [buffer.as_mut_ptr() as usize, 8];
    let there = [ATTEMPTS.as_ptr() as usize, 8];
    if read {
        call!(SYS_process_vm_readv, parent(), here.as_ptr(), 1, there.as_ptr(), 1, 0)
    } else {
        call!(SYS_process_vm_writev, parent(), here.as_ptr(), 1, there.as_ptr(), 1, 0)
    }
}

fn main() {
    let arguments: Vec<String> = env::args().collect();
    if let [_, first, stage, name] = &arguments[..]
        && first == ATTEMPT
    {
        in_the_jail(stage, name);
    }
    let mut trials: Vec<Trial> = users().into_iter().flat_map(trials_as).collect();
    trials.push(Trial::test("a process with several threads is told what it cannot enter", several_threads));
    trials.push(Trial::test("threads can be started if the policy says so", starts_threads));
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

/// The users who make the attempts. `None` is the user who runs the tests.
fn users() -> Vec<Option<u32>> {
    // SAFETY: has no preconditions.
    let is_root = unsafe { libc::geteuid() } == 0;
    if is_root { vec![None, Some(NOBODY)] } else { vec![None] }
}

fn trials_as(user: Option<u32>) -> Vec<Trial> {
    let who = if user.is_some() { "nobody" } else { "the user" };
    let sealed = Kind::ALL.into_iter().flat_map(|(kind, stage)| {
        ATTEMPTS.iter().map(move |attempt| {
            Trial::test(format!("{stage}, as {who}: {}", attempt.name), move || {
                check_sealed(kind.expects(attempt.sealed), &run(user, stage, attempt.name))
            })
        })
    });
    let tested = ATTEMPTS.iter().filter(|attempt| attempt.confined == Confined::Refused);
    let confined = tested.flat_map(|attempt| {
        ["confined", "confined-listening"].map(|stage| {
            Trial::test(format!("{stage}, as {who}: {}", attempt.name), move || {
                expect("refused", &run(user, stage, attempt.name))
            })
        })
    });
    let complete = Kind::ALL.map(|(_, stage)| {
        Trial::test(format!("{stage}, as {who}: every layer is reported"), move || {
            every_layer(&run(user, stage, "report"))
        })
    });
    sealed.chain(confined).chain(complete).collect()
}

fn every_layer(output: &Output) -> Result<(), Failed> {
    let report: Report = serde_json::from_slice(&output.stdout).map_err(|error| format!("{error}: {output:?}"))?;
    let layers: Vec<Layer> = report.layers.iter().map(|report| report.layer).collect();
    assert_eq!(layers, Layer::ALL);
    // Which of the others are available depends on the machine.
    for layer in [
        Layer::Descriptors,
        Layer::NoNewPrivileges,
        Layer::Limits,
        Layer::Capabilities,
        Layer::NotDumpable,
        Layer::SystemCalls,
    ] {
        assert_eq!(report.status(layer), Some(&Status::Enforced), "{layer}");
    }
    let landlock = report.layers.iter().find(|report| report.layer == Layer::Landlock).unwrap();
    let (is_enforced, detail) = (landlock.status == Status::Enforced, landlock.detail.as_deref());
    assert_eq!(is_enforced, detail.is_some_and(|detail| detail.starts_with("ABI ")), "{landlock:?}");
    Ok(())
}

/// Makes the attempt in a child process, and checks that this process was not harmed.
fn run(user: Option<u32>, stage: &str, name: &str) -> Output {
    leave_a_descriptor_open();
    let mut command = Command::new(env::current_exe().unwrap());
    command.args([ATTEMPT, stage, name]).env("PARENT", process::id().to_string()).stdin(Stdio::null());
    // The backtrace of a panic would read files.
    command.env_remove("RUST_BACKTRACE");
    if let Some(user) = user {
        command.uid(user).gid(user);
    }
    command.output().unwrap()
}

/// Leaves a descriptor open without close-on-exec, as a careless host does. Nothing closes it.
fn leave_a_descriptor_open() {
    // SAFETY: standard error is open, and nothing else uses the number.
    assert_eq!(unsafe { libc::dup2(2, INHERITED) }, INHERITED);
}

fn check_sealed(expected: Sealed, output: &Output) -> Result<(), Failed> {
    match expected {
        Sealed::Refused => expect("refused", output),
        Permitted => expect("permitted", output),
        _ if output.status.signal() == Some(libc::SIGSYS) && output.stdout.is_empty() => Ok(()),
        _ => Err(format!("it was not killed by SIGSYS: {output:?}").into()),
    }
}

fn expect(word: &str, output: &Output) -> Result<(), Failed> {
    let text = String::from_utf8_lossy(&output.stdout);
    if text.starts_with(word) { Ok(()) } else { Err(format!("expected {word}, got {output:?}").into()) }
}

fn several_threads() -> Result<(), Failed> {
    let output = run(None, "threads", "report");
    let report: Report = serde_json::from_slice(&output.stdout).map_err(|error| format!("{error}: {output:?}"))?;
    for layer in [Layer::UserNamespace, Layer::EmptyRoot, Layer::Capabilities, Layer::Landlock] {
        match report.status(layer) {
            Some(Status::Unavailable(reason)) => assert!(reason.contains("2 threads"), "{layer}: {reason}"),
            status => return Err(format!("{layer}: {status:?}").into()),
        }
    }
    let error = report.check(Mode::Required).unwrap_err().to_string();
    assert!(error.contains("user namespace: the process has 2 threads already; allow user namespaces"), "{error}");
    assert_eq!(report.check(Mode::BestEffort), Ok(()));
    let mut compiling = report.clone();
    compiling.compiles = true;
    let error = compiling.check(Mode::BestEffort).unwrap_err().to_string();
    assert!(error.contains("requires this layer of the jail: Landlock: the process has 2 threads already"), "{error}");
    assert_eq!(compiling.check(Mode::Off), Ok(()));
    // The filter applies to all threads.
    assert_eq!(report.status(Layer::SystemCalls), Some(&Status::Enforced));
    Ok(())
}

fn starts_threads() -> Result<(), Failed> {
    expect("permitted", &run(None, "with-threads", "start a thread"))?;
    let refused = run(None, "sealed", "start a thread");
    if refused.status.signal() == Some(libc::SIGSYS) { Ok(()) } else { Err(format!("{refused:?}").into()) }
}

/// Enters the jail, acts, prints the outcome, and ends the process.
fn in_the_jail(stage: &str, name: &str) -> ! {
    if stage == "threads" {
        // A thread that is starting makes system calls that the filter does not allow.
        let (started, has_started) = mpsc::channel();
        thread::spawn(move || {
            let _ = started.send(());
            thread::sleep(Duration::from_mins(10));
        });
        let _ = has_started.recv();
    }
    let (threads, compiles) = (stage == "with-threads", stage == "compiling");
    let sockets = match stage {
        "listening" | "confined-listening" => listening(TcpListener::bind("127.0.0.1:0").unwrap()),
        "listening-unix" => {
            let path = env::temp_dir().join(format!("execbox-compromised-{}.sock", process::id()));
            let listener = UnixListener::bind(&path).unwrap();
            fs::remove_file(path).unwrap();
            listening(listener)
        }
        _ => Sockets::None,
    };
    let mut policy = Policy::default();
    policy.threads = threads;
    policy.compiles = compiles;
    policy.sockets = sockets;
    let confined = Jail::prepare(policy).confine();
    connected();
    let report = if stage.starts_with("confined") { confined.report().clone() } else { confined.seal() };
    let text = match name {
        "report" => serde_json::to_string(&report).unwrap(),
        "start a thread" => thread::spawn(|| "permitted".to_owned()).join().unwrap(),
        name => {
            let attempt = ATTEMPTS.iter().find(|attempt| attempt.name == name).unwrap();
            let returned = (attempt.act)();
            if returned < 0 {
                format!("refused: {}", io::Error::last_os_error())
            } else {
                format!("permitted: {returned}")
            }
        }
    };
    let _ = writeln!(io::stdout(), "{text}");
    process::exit(0);
}

/// Moves the listener to the descriptor [`LISTENER`].
fn listening(listener: impl IntoRawFd) -> Sockets {
    // SAFETY: the listener is open, and nothing else uses the number.
    assert_eq!(unsafe { libc::dup2(listener.into_raw_fd(), LISTENER) }, LISTENER);
    Sockets::Listening(LISTENER)
}

/// Makes a pair of sockets, as the runtime of a runner has one.
fn connected() {
    let mut pair = [0_i32; 2];
    call!(SYS_socketpair, libc::AF_UNIX, libc::SOCK_STREAM, 0, pair.as_mut_ptr());
    // SAFETY: the socket is open, and nothing else uses the number.
    assert_eq!(unsafe { libc::dup2(pair[0], CONNECTED) }, CONNECTED);
}
