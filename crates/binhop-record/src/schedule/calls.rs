//! `waits` says which system calls may wait, and for what. The numbers are those of Linux on x86-64
//! (`arch/x86/entry/syscalls/syscall_64.tbl`).

use crate::piece::WaitsFor;

/// `Descriptor` is the kind of file behind a call's first argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Descriptor {
    /// A regular file or a directory: reads and writes do not wait for another process.
    File,
    /// A pipe, a socket, a terminal, an event, or an unknown file.
    Other,
}

/// `WaitRule` says how a call of the table waits.
#[derive(Clone, Copy)]
enum WaitRule {
    /// The call may wait, whatever its arguments are.
    Always(WaitsFor),
    /// The call may wait unless its first argument is a regular file.
    UnlessFile(WaitsFor),
    /// The call waits for a child unless the argument at this position holds `WNOHANG`.
    Child(usize),
    /// A futex waits if its operation (argument 1) waits.
    Futex,
    /// The parent waits in `clone` if argument 0 holds `CLONE_VFORK`.
    Clone,
    /// `fcntl` waits for a lock if argument 1 is a waiting command.
    Lock,
}

use WaitRule::{Always, UnlessFile};
use WaitsFor::{Given, Room};

/// Number, name and rule, in order of the numbers. Other calls do not wait, or only for a short time.
const CALLS: &[(u32, &str, WaitRule)] = &[
    (0, "read", UnlessFile(Given)),
    (1, "write", UnlessFile(Room)),
    (7, "poll", Always(Given)),
    (19, "readv", UnlessFile(Given)),
    (20, "writev", UnlessFile(Room)),
    (23, "select", Always(Given)),
    (34, "pause", Always(Given)),
    (35, "nanosleep", Always(Room)),
    (42, "connect", Always(Given)),
    (43, "accept", Always(Given)),
    (44, "sendto", Always(Room)),
    (45, "recvfrom", Always(Given)),
    (46, "sendmsg", Always(Room)),
    (47, "recvmsg", Always(Given)),
    (56, "clone", WaitRule::Clone),
    (58, "vfork", Always(Room)),
    (61, "wait4", WaitRule::Child(2)),
    (65, "semop", Always(Given)),
    (69, "msgsnd", Always(Room)),
    (70, "msgrcv", Always(Given)),
    (72, "fcntl", WaitRule::Lock),
    (73, "flock", Always(Room)),
    (74, "fsync", Always(Room)),
    (75, "fdatasync", Always(Room)),
    (128, "rt_sigtimedwait", Always(Given)),
    (130, "rt_sigsuspend", Always(Given)),
    (202, "futex", WaitRule::Futex),
    (208, "io_getevents", Always(Room)),
    (220, "semtimedop", Always(Given)),
    (230, "clock_nanosleep", Always(Room)),
    (232, "epoll_wait", Always(Given)),
    (242, "mq_timedsend", Always(Room)),
    (243, "mq_timedreceive", Always(Given)),
    (247, "waitid", WaitRule::Child(3)),
    (270, "pselect6", Always(Given)),
    (271, "ppoll", Always(Given)),
    (275, "splice", UnlessFile(Given)),
    (276, "tee", Always(Given)),
    (281, "epoll_pwait", Always(Given)),
    (288, "accept4", Always(Given)),
    (299, "recvmmsg", Always(Given)),
    (307, "sendmmsg", Always(Room)),
    (426, "io_uring_enter", Always(Room)),
    (441, "epoll_pwait2", Always(Given)),
];

/// `WNOHANG` of `wait4` and `waitid` (`linux/wait.h`).
const WNOHANG: u64 = 1;
/// `CLONE_VFORK` (`linux/sched.h`).
const CLONE_VFORK: u64 = 0x4000;
/// The operation within a futex call's second argument, without its flags (`linux/futex.h`).
const FUTEX_OPERATION: u64 = 0x7f;
/// `FUTEX_WAIT`, `FUTEX_LOCK_PI`, `FUTEX_WAIT_BITSET`, `FUTEX_WAIT_REQUEUE_PI`, `FUTEX_LOCK_PI2`.
const FUTEX_WAITS: [u64; 5] = [0, 6, 9, 11, 13];
/// `F_SETLKW` and `F_OFD_SETLKW` (`linux/fcntl.h`).
const LOCK_WAITS: [u64; 2] = [7, 38];

/// Returns what a call may wait for, by its number and the program's arguments.
#[must_use]
pub fn waits(number: u32, args: [u64; 6], descriptor: Descriptor) -> WaitsFor {
    let Ok(at) = CALLS.binary_search_by_key(&number, |call| call.0) else { return WaitsFor::Nothing };
    let when = |waits: bool, what: WaitsFor| if waits { what } else { WaitsFor::Nothing };
    match CALLS[at].2 {
        Always(what) => what,
        UnlessFile(what) => when(descriptor == Descriptor::Other, what),
        WaitRule::Child(options) => when(args[options] & WNOHANG == 0, WaitsFor::Child),
        WaitRule::Futex => when(FUTEX_WAITS.contains(&(args[1] & FUTEX_OPERATION)), Given),
        WaitRule::Clone => when(args[0] & CLONE_VFORK != 0, Room),
        WaitRule::Lock => when(LOCK_WAITS.contains(&args[1]), Room),
    }
}

/// Returns what a call may wait for if its arguments are unknown: what it waits for under some arguments.
#[must_use]
pub fn kind(number: u32) -> WaitsFor {
    let Ok(at) = CALLS.binary_search_by_key(&number, |call| call.0) else { return WaitsFor::Nothing };
    match CALLS[at].2 {
        Always(what) | UnlessFile(what) => what,
        WaitRule::Child(_) => WaitsFor::Child,
        WaitRule::Futex => Given,
        WaitRule::Clone | WaitRule::Lock => Room,
    }
}

/// `clone`, `fork`, `vfork`, `clone3`.
const MAKE_CHILDREN: [u32; 4] = [56, 57, 58, 435];

/// Returns whether a call may make a process.
#[must_use]
pub fn makes_children(number: u32) -> bool {
    MAKE_CHILDREN.contains(&number)
}

/// Returns the name of a call that may wait.
#[must_use]
pub fn name(number: u32) -> Option<&'static str> {
    CALLS.binary_search_by_key(&number, |call| call.0).ok().map(|at| CALLS[at].1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_order_of_the_numbers() {
        assert!(CALLS.windows(2).all(|pair| pair[0].0 < pair[1].0));
        assert_eq!((name(61), name(62)), (Some("wait4"), None));
        assert_eq!(
            (kind(0), kind(61), kind(74), kind(62)),
            (Given, WaitsFor::Child, Room, WaitsFor::Nothing)
        );
    }

    #[test]
    fn arguments_decide_where_the_number_does_not() {
        let of = |number, args| waits(number, args, Descriptor::Other);
        assert_eq!(waits(0, [3, 0, 0, 0, 0, 0], Descriptor::File), WaitsFor::Nothing);
        assert_eq!(of(0, [3, 0, 0, 0, 0, 0]), WaitsFor::Given);
        assert_eq!(of(1, [1, 0, 0, 0, 0, 0]), WaitsFor::Room);
        assert_eq!(of(61, [u64::MAX, 0, 0, 0, 0, 0]), WaitsFor::Child);
        assert_eq!(of(61, [u64::MAX, 0, 3, 0, 0, 0]), WaitsFor::Nothing);
        assert_eq!(of(247, [0, 0, 0, 4, 0, 0]), WaitsFor::Child);
        assert_eq!(of(247, [0, 0, 0, 5, 0, 0]), WaitsFor::Nothing);
        assert_eq!(of(202, [0, 128, 0, 0, 0, 0]), WaitsFor::Given); // FUTEX_WAIT_PRIVATE
        assert_eq!(of(202, [0, 129, 0, 0, 0, 0]), WaitsFor::Nothing); // FUTEX_WAKE_PRIVATE
        assert_eq!(of(56, [0x4111, 0, 0, 0, 0, 0]), WaitsFor::Room);
        assert_eq!(of(56, [0x0120_0011, 0, 0, 0, 0, 0]), WaitsFor::Nothing);
        assert_eq!(of(72, [3, 7, 0, 0, 0, 0]), WaitsFor::Room);
        assert_eq!(of(72, [3, 6, 0, 0, 0, 0]), WaitsFor::Nothing);
        assert_eq!(of(5, [3, 0, 0, 0, 0, 0]), WaitsFor::Nothing);
    }
}
