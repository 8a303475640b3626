/* calls.c records threads, processes, signals, and system calls with the memory that the kernel reads and writes for them.

   This file is part of binhop's recorder. SPDX-License-Identifier: GPL-2.0-or-later */
#include "pub_tool_basics.h"
#include "pub_tool_aspacemgr.h"
#include "pub_tool_libcassert.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcfile.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_libcproc.h"
#include "pub_tool_machine.h"
#include "pub_tool_mallocfree.h"
#include "pub_tool_threadstate.h"
#include "pub_tool_tooliface.h"
#include "pub_tool_vki.h"
#include "recorder.h"

/* An iovec has at most 1024 parts, and a message has two or three ranges more. */
#define MOST_RANGES 1200
/* Valgrind's headers do not have these constants of poll. */
#define POLLIN 1
#define POLLOUT 4
/* Valgrind's headers do not have this flag of msync. */
#define MS_SYNC 4

static Thread *threads;
static ThreadId running = VG_INVALID_THREADID;
/* True in a new process until the call that made it returns; this return is not a call of the process's own. */
static Bool born_in_call = False;
static Bool forked = False;
/* True from just before the image's first instruction on. */
static Bool started = False;

const UWord *BH_(call_arguments)(ThreadId tid, UInt *number)
{
   if (tid == VG_INVALID_THREADID || !threads[tid].in_call) return NULL;
   *number = threads[tid].number;
   return threads[tid].arguments;
}

/* Returns whether a call certainly waits for others, or may never return. */
static Bool stays_away(UInt number)
{
   return number == __NR_execve || number == __NR_execveat || number == __NR_exit_group || number == __NR_exit
          || number == __NR_wait4 || number == __NR_waitid;
}

/* Returns whether a call may wait for another process, as far as this is known before the call. The check costs a system
   call, so it is made only for calls that often wait. */
static Bool waits(const Thread *thread)
{
   Short wanted = POLLIN;
   switch (thread->number) {
   case __NR_pause: case __NR_nanosleep: case __NR_clock_nanosleep:
   case __NR_rt_sigsuspend: case __NR_rt_sigtimedwait: case __NR_flock: case __NR_connect:
   case __NR_msgrcv: case __NR_msgsnd: case __NR_semop: case __NR_semtimedop:
   case __NR_select: case __NR_pselect6:
      return True;
   case __NR_futex: {
      /* These are FUTEX_WAIT, FUTEX_LOCK_PI and FUTEX_WAIT_BITSET without FUTEX_PRIVATE_FLAG. Threads of one process share a
         buffer. */
      UWord operation = thread->arguments[1] & 0xff;
      return operation == 0 || operation == 6 || operation == 9;
   }
   case __NR_poll: return (Int)thread->arguments[2] != 0;
   case __NR_ppoll: return True;
   case __NR_epoll_wait: case __NR_epoll_pwait:
      if ((Int)thread->arguments[3] == 0) return False;
      break;
   case __NR_read: case __NR_readv: case __NR_preadv2:
      if (thread->regular) return False;
      break;
   case __NR_splice: case __NR_tee: case __NR_vmsplice:
      if (thread->regular) return False;
      break;
   case __NR_accept: case __NR_accept4: case __NR_recvfrom: case __NR_recvmsg: case __NR_recvmmsg: break;
   case __NR_write: case __NR_writev: case __NR_pwritev2:
      if (thread->regular) return False;
      wanted = POLLOUT;
      break;
   case __NR_sendto: case __NR_sendmsg: case __NR_sendmmsg: wanted = POLLOUT; break;
   default: return False;
   }
   /* A call on a descriptor that is ready does not wait. */
   struct vki_pollfd asked = {.fd = (Int)thread->arguments[0], .events = wanted, .revents = 0};
   return sr_Res(VG_(poll)(&asked, 1, 0)) == 0;
}

/* Two processes that pass bytes to each other wait all the time, and a flush costs as much as such a wait. So up to
   AT_ONCE flushes may follow each other at once. Beyond them, the recorder flushes at most once in EVERY nanoseconds. */
#define AT_ONCE 16
#define EVERY 100000ULL

/* Each flush before a waiting call moves this time on by EVERY. While it lies more than AT_ONCE * EVERY ahead of now, such
   flushes are skipped. */
static ULong paid_until = 0;

static Bool waits_too_often(ULong now) { return paid_until > now + AT_ONCE * EVERY; }

static void before_call(ThreadId tid, UInt number, UWord *arguments, UInt count)
{
   Thread *thread = &threads[tid];
   BH_(stop_noting)();
   thread->in_call = True;
   thread->number = number;
   thread->ranges = 0;
   for (UInt i = 0; i < 6; i++) thread->arguments[i] = i < count ? arguments[i] : 0;
   BH_(find_file)(thread);
   ULong now = BH_(now)();
   BH_(record)(WIRE_ENTER, 9);
   BH_(put)((ULong)tid << 32 | number);
   BH_(put)(now);
   BH_(put)(thread->regular);
   for (UInt i = 0; i < 6; i++) BH_(put)(thread->arguments[i]);
   /* Before a process waits, it writes the words that it has stored: the reader orders other processes by them. */
   if (stays_away(number)) {
      BH_(flush)();
   } else if (!waits_too_often(now) && waits(thread)) {
      paid_until = (paid_until > now ? paid_until : now) + EVERY;
      BH_(flush)();
   }
}

static void runs(ThreadId tid, ULong blocks);

/* Cuts the buffers of sent messages to the bytes that the kernel took, for each message separately. A message begins where
   its header is read. A call that failed took nothing. */
static void cut_messages(Thread *thread, SysRes result)
{
   ULong taken = sr_isError(result) ? 0 : sr_Res(result), left = taken;
   UInt message = 0;
   if (thread->number != __NR_sendmsg && thread->number != __NR_sendmmsg) return;
   for (UInt i = 0; i < thread->ranges; i++) {
      ULong *range = thread->range + 2 * i;
      if (thread->number == __NR_sendmmsg) {
         const struct vki_mmsghdr *header = (const struct vki_mmsghdr *)thread->arguments[1] + message;
         if (range[0] == (Addr)header && (range[1] >> WIRE_OF_A_MESSAGE & 1) == 0) {
            Bool sent = message < taken && VG_(am_is_valid_for_client)((Addr)header, sizeof *header, VKI_PROT_READ);
            left = sent ? header->msg_len : 0;
            message++;
         }
      }
      if ((range[1] >> WIRE_OF_A_MESSAGE & 1) == 0) continue;
      ULong bytes = range[1] & ~(1ULL << WIRE_OF_A_MESSAGE);
      if (bytes > left) bytes = left;
      left -= bytes;
      range[1] = bytes | 1ULL << WIRE_OF_A_MESSAGE;
   }
}

/* Marks the ranges that the kernel wrote into the buffers of a received message. Valgrind tells them in the order of the list.
   Returns the first range behind them. */
static UInt mark_message(Thread *thread, const struct vki_msghdr *header, UInt at)
{
   if (!VG_(am_is_valid_for_client)((Addr)header, sizeof *header, VKI_PROT_READ)) return at;
   SizeT parts = header->msg_iovlen;
   if (!VG_(am_is_valid_for_client)((Addr)header->msg_iov, parts * sizeof *header->msg_iov, VKI_PROT_READ)) return at;
   UInt behind = at;
   for (SizeT part = 0; part < parts; part++)
      for (UInt i = behind; i < thread->ranges; i++) {
         ULong *range = thread->range + 2 * i;
         if (range[0] != (Addr)header->msg_iov[part].iov_base || range[1] >> WIRE_BY_KERNEL == 0) continue;
         range[1] |= 1ULL << WIRE_OF_A_MESSAGE;
         behind = i + 1;
         break;
      }
   return behind;
}

/* Marks the buffers of messages that the kernel wrote. */
static void mark_received(Thread *thread, SysRes result)
{
   if (sr_isError(result)) return;
   const struct vki_msghdr *one = (const struct vki_msghdr *)thread->arguments[1];
   const struct vki_mmsghdr *several = (const struct vki_mmsghdr *)thread->arguments[1];
   if (thread->number == __NR_recvmsg) mark_message(thread, one, 0);
   if (thread->number != __NR_recvmmsg) return;
   UInt at = 0;
   for (UWord i = 0; i < sr_Res(result); i++) at = mark_message(thread, &several[i].msg_hdr, at);
}

/* Takes the file from a call that failed to cut or delete it, and the range from an msync that waits for nothing. */
static void drop_what_did_nothing(Thread *thread, SysRes result)
{
   switch (thread->number) {
   case __NR_ftruncate: case __NR_truncate: case __NR_unlink: case __NR_unlinkat: case __NR_creat: case __NR_open:
   case __NR_openat: case __NR_openat2: case __NR_rename: case __NR_renameat: case __NR_renameat2:
      if (sr_isError(result)) thread->device = thread->inode = 0;
      return;
   case __NR_msync:
      if (sr_isError(result) || (thread->arguments[2] & MS_SYNC) == 0) thread->ranges = 0;
      return;
   default: return;
   }
}

static void after_call(ThreadId tid, UInt number, UWord *arguments, UInt count, SysRes result)
{
   Thread *thread = &threads[tid];
   (void)arguments, (void)count;
   thread->in_call = False;
   if (born_in_call) {
      born_in_call = False;
      return;
   }
   /* The next words belong to this thread, although Valgrind may report only later that the thread runs again. */
   runs(tid, 0);
   /* The call has made a child. */
   Bool has_child = forked && !sr_isError(result);
   if (has_child) {
      BH_(record)(WIRE_FORK, 1);
      BH_(put)(sr_Res(result));
   }
   forked = False;
   cut_messages(thread, result);
   mark_received(thread, result);
   drop_what_did_nothing(thread, result);
   BH_(record)(WIRE_LEAVE, 10 + 2 * thread->ranges);
   BH_(put)((ULong)tid << 32 | number);
   BH_(put)(BH_(now)());
   BH_(put)(sr_isError(result) ? -(ULong)sr_Err(result) : (ULong)sr_Res(result));
   BH_(put)(thread->arguments[1]);
   BH_(put)(thread->device | (ULong)thread->direct << WIRE_DIRECT);
   BH_(put)(thread->inode);
   BH_(put)(thread->offset);
   BH_(put)(thread->to_device);
   BH_(put)(thread->to_inode);
   BH_(put)(thread->to_offset);
   for (UInt i = 0; i < 2 * thread->ranges; i++) BH_(put)(thread->range[i]);
   /* After this flush the reader can read the child's words, however long the parent computes now. */
   if (has_child) BH_(flush)();
}

static void add_range(ThreadId tid, Addr start, SizeT bytes, Bool by_kernel)
{
   Thread *thread = &threads[tid];
   if (!thread->in_call || bytes == 0 || thread->ranges == MOST_RANGES) return;
   if (thread->ranges == thread->room) {
      thread->room = thread->room == 0 ? 16 : 2 * thread->room;
      thread->range = VG_(realloc)("binhop.ranges", thread->range, thread->room * 2 * sizeof(ULong));
   }
   thread->range[2 * thread->ranges] = start;
   thread->range[2 * thread->ranges + 1] = bytes | (ULong)by_kernel << WIRE_BY_KERNEL;
   thread->ranges++;
}

static void kernel_reads(CorePart part, ThreadId tid, const HChar *what, Addr start, SizeT bytes)
{
   if (part != Vg_CoreSysCall) return;
   /* Valgrind gives this name to the buffers of sendmsg and sendmmsg. */
   Bool sent = VG_(strncmp)(what, "sendmsg(", 8) == 0 && VG_(strstr)(what, ".msg_iov[") != NULL;
   add_range(tid, start, bytes | (ULong)(sent && bytes != 0) << WIRE_OF_A_MESSAGE, False);
}

static void kernel_reads_text(CorePart part, ThreadId tid, const HChar *what, Addr start)
{
   (void)what;
   /* The call may still fail because of a bad pointer, so only readable text is measured. */
   if (part != Vg_CoreSysCall) return;
   SizeT bytes = 0;
   Addr page = 0;
   for (;; bytes++) {
      Addr at = start + bytes;
      if (bytes == 0 || (at & 4095) == 0) {
         page = at;
         if (!VG_(am_is_valid_for_client)(page, 1, VKI_PROT_READ)) return;
      }
      if (*(const HChar *)at == 0) break;
   }
   add_range(tid, start, bytes + 1, False);
}

static void kernel_wrote(CorePart part, ThreadId tid, Addr start, SizeT bytes)
{
   if (part == Vg_CoreSysCall) add_range(tid, start, bytes, True);
}

/* Valgrind calls this when a thread runs. If another thread ran before, that thread has left the processor. */
static void runs(ThreadId tid, ULong blocks)
{
   (void)blocks;
   BH_(stop_noting)();
   if (tid == running) return;
   if (!started) BH_(fix_random)(tid);
   started = True;
   if (running != VG_INVALID_THREADID) {
      const Thread *before = &threads[running];
      BH_(record)(WIRE_THREAD, 3);
      BH_(put)(tid);
      BH_(put)(before->ended ? WIRE_LEFT_EXIT : before->in_call ? WIRE_LEFT_CALL : WIRE_LEFT_INVOLUNTARY);
      BH_(put)(before->number);
   }
   running = tid;
}

static void thread_is_made(ThreadId parent, ThreadId child)
{
   (void)parent;
   threads[child].in_call = threads[child].ended = False;
}

static void thread_ends(ThreadId tid) { threads[tid].ended = True; }

static void signalled(ThreadId tid, Int number, Bool alternative)
{
   (void)alternative;
   if (number == VKI_SIGSEGV || number == VKI_SIGBUS || number == VKI_SIGFPE || number == VKI_SIGILL)
      BH_(cut_short)(VG_(get_IP)(tid));
}

static void before_fork(ThreadId tid)
{
   (void)tid;
   BH_(flush)();
}

static void in_parent(ThreadId tid)
{
   (void)tid;
   forked = True;
}

/* The child has one thread, which is still in the call that made the child. */
static void in_child(ThreadId tid)
{
   BH_(reopen_in_child)();
   for (UInt i = 0; i < VG_N_THREADS; i++)
      if (i != tid) threads[i].in_call = False;
   running = tid;
   born_in_call = threads[tid].in_call;
   forked = False;
   BH_(forget_names)();
}

void BH_(track_calls)(void)
{
   VG_(needs_syscall_wrapper)(before_call, after_call);
   VG_(track_pre_mem_read)(kernel_reads);
   VG_(track_pre_mem_read_asciiz)(kernel_reads_text);
   VG_(track_post_mem_write)(kernel_wrote);
   VG_(track_start_client_code)(runs);
   VG_(track_pre_thread_ll_create)(thread_is_made);
   VG_(track_pre_thread_ll_exit)(thread_ends);
   VG_(track_pre_deliver_signal)(signalled);
   VG_(atfork)(before_fork, in_parent, in_child);
}

void BH_(prepare_threads)(void) { threads = VG_(calloc)("binhop.threads", VG_N_THREADS, sizeof(Thread)); }
