//! Names of the calls, and of their failures.

use core::fmt;

use nix::errno::Errno;

/// Declares the calls: those that move bytes, which can fall short, and the others.
macro_rules! calls {
    ($($moves:literal: $($call:ident $name:literal)*;)*) => {
        /// A call of the system, by the name of its manual page.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[non_exhaustive]
        pub enum Call {
            $($(#[doc = concat!("`", $name, "(2)`.")] $call,)*)*
        }

        impl Call {
            /// All of them.
            pub const ALL: &'static [Self] = &[$($(Self::$call,)*)*];

            /// Its name.
            pub const fn name(self) -> &'static str {
                match self { $($(Self::$call => $name,)*)* }
            }

            /// Returns true if it moves bytes, and so may move fewer than it was asked for.
            pub const fn moves_bytes(self) -> bool {
                match self { $($(Self::$call => $moves,)*)* }
            }
        }
    };
}

calls! {
    true:
        ProcessVmReadv "process_vm_readv"
        ProcessVmWritev "process_vm_writev"
        Pread "pread"
        Pwrite "pwrite"
        Read "read"
        Readv "readv"
        Write "write"
        Writev "writev"
        Recv "recv"
        Recvmsg "recvmsg"
        Send "send"
        Sendmsg "sendmsg"
        Getrandom "getrandom"
    ;
    false:
        Accept "accept"
        Access "access"
        Bind "bind"
        Bpf "bpf"
        Chdir "chdir"
        ClockGettime "clock_gettime"
        Connect "connect"
        Dup "dup"
        EpollCreate "epoll_create"
        EpollCtl "epoll_ctl"
        EpollWait "epoll_wait"
        Eventfd "eventfd2"
        Execve "execve"
        Fallocate "fallocate"
        Fchmod "fchmod"
        Fcntl "fcntl"
        Fork "fork"
        Fstat "fstat"
        Ftruncate "ftruncate"
        Futex "futex"
        Getcwd "getcwd"
        Getdents "getdents"
        Getifaddrs "getifaddrs"
        Getrlimit "getrlimit"
        Getrusage "getrusage"
        Getsockname "getsockname"
        Getsockopt "getsockopt"
        Ioctl "ioctl"
        Kill "kill"
        Listen "listen"
        Madvise "madvise"
        Membarrier "membarrier"
        MemfdCreate "memfd_create"
        Mkdir "mkdir"
        Mmap "mmap"
        Mprotect "mprotect"
        Munmap "munmap"
        Nanosleep "nanosleep"
        Open "open"
        Pipe2 "pipe2"
        Poll "poll"
        Ppoll "ppoll"
        Prctl "prctl"
        Readlink "readlink"
        SchedGetaffinity "sched_getaffinity"
        SchedSetaffinity "sched_setaffinity"
        SchedYield "sched_yield"
        Sendto "sendto"
        Setrlimit "setrlimit"
        Setsockopt "setsockopt"
        Shutdown "shutdown"
        Sigaction "sigaction"
        Signalfd "signalfd"
        Sigprocmask "sigprocmask"
        Socket "socket"
        Socketpair "socketpair"
        Stat "stat"
        Uname "uname"
        Unlink "unlink"
        Waitid "waitid"
        Waitpid "waitpid"
    ;
}

impl Call {
    /// The call of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|call| call.name() == name)
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A call that failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CallFailure {
    /// The call.
    pub call: Call,
    /// The error.
    pub errno: Errno,
}

impl CallFailure {
    /// The failure of this call, for `map_err`.
    pub fn of(call: Call) -> impl Fn(Errno) -> Self {
        move |errno| Self { call, errno }
    }
}

impl fmt::Display for CallFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} failed: {}", self.call, self.errno.desc())
    }
}

impl core::error::Error for CallFailure {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_call_is_found_by_its_own_name() {
        for (place, &call) in Call::ALL.iter().enumerate() {
            assert_eq!(Call::named(call.name()), Some(call));
            assert_eq!(call as usize, place, "counters stand in this order");
        }
        assert_eq!(Call::named("process_vm"), None);
    }
}
