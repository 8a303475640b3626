/* pipe.c holds the buffer of words, and writes the buffer into the image's pipe.

   This file is part of binhop's recorder. SPDX-License-Identifier: GPL-2.0-or-later */
#include "pub_tool_basics.h"
#include "pub_tool_libcassert.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcfile.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_libcproc.h"
#include "pub_tool_transtab.h"
#include "pub_tool_vki.h"
#include "recorder.h"

/* These functions belong to Valgrind's core, not to the tools' interface. They move a descriptor out of the program's reach,
   say whether translations may be discarded now, and take a pending signal. */
extern Int VG_(safe_fd)(Int oldfd);
extern Bool VG_(ok_to_discard_translations);
extern Int VG_(fcntl)(Int fd, Int cmd, Addr arg);
extern Int VG_(sigtimedwait_zero)(const vki_sigset_t *set, vki_siginfo_t *info);

/* Valgrind's headers leave out this value of poll: the other end is closed. */
#define POLLERR 8

/* The buffer fits into the pipe, which holds a MiB if the reader could make it so large. */
#define BUFFER_WORDS (96 * 1024)

static ULong buffer[BUFFER_WORDS + BH_SLACK];
ULong *BH_(cursor) = buffer;
ULong *const BH_(limit) = buffer + BUFFER_WORDS;
Bool BH_(silent) = False;

static const HChar *directory;
static Int pipe_fd = -1;
static UInt image = 0;
/* True while no process reads the pipe, but translated code still stores words. */
static Bool noting = False;

ULong BH_(now)(void)
{
   struct vki_timespec time;
   VG_(clock_gettime)(&time, VKI_CLOCK_MONOTONIC);
   return (ULong)time.tv_sec * 1000000000ULL + (ULong)time.tv_nsec;
}

/* A write to a pipe without a reader raises SIGPIPE in this thread. The signal is the recorder's, so it is taken before the
   program sees it. */
static void take_sigpipe(void)
{
   vki_sigset_t set;
   vki_siginfo_t info;
   VG_(memset)(&set, 0, sizeof set);
   set.sig[0] = 1UL << (VKI_SIGPIPE - 1);
   VG_(sigtimedwait_zero)(&set, &info);
}

/* Ends the recording of this image: the program runs on under Valgrind without instrumentation. */
static void fall_silent(void)
{
   BH_(silent) = True;
   take_sigpipe();
   if (pipe_fd >= 0) VG_(close)(pipe_fd);
   pipe_fd = -1;
   noting = True;
}

/* Discards the instrumented translations, so that the code is translated anew without instrumentation. The core allows this
   between superblocks. */
void BH_(stop_noting)(void)
{
   if (!noting || !VG_(ok_to_discard_translations)) return;
   noting = False;
   VG_(discard_translations_safely)(0x1000, ~0ULL - 0x2000, "binhop: nobody reads");
}

void BH_(flush)(void)
{
   *BH_(cursor)++ = (ULong)WIRE_RECORD << 56 | (ULong)WIRE_TIME << 48 | 1;
   *BH_(cursor)++ = BH_(now)();
   const HChar *at = (const HChar *)buffer;
   SizeT left = (const HChar *)BH_(cursor) - at;
   BH_(cursor) = buffer;
   while (left > 0 && !BH_(silent)) {
      Int written = VG_(write)(pipe_fd, at, left > 0x40000000 ? 0x40000000 : (Int)left);
      if (written > 0) {
         at += written;
         left -= written;
      } else if (written != -VKI_EINTR && written != -VKI_EAGAIN) {
         fall_silent();
      }
   }
}

void BH_(put)(ULong word) { *BH_(cursor)++ = word; }

void BH_(record)(UInt kind, UInt words)
{
   tl_assert(words + 3 < BH_SLACK); /* and the time that a flush adds */
   if (BH_(cursor) >= BH_(limit)) BH_(flush)();
   BH_(put)((ULong)WIRE_RECORD << 56 | (ULong)kind << 48 | words);
}

/* A path has at most 4096 bytes. Longer strings are cut. */
static SizeT string_bytes(const HChar *text)
{
   SizeT length = VG_(strlen)(text);
   return length > 8192 ? 8192 : length;
}

UInt BH_(string_words)(const HChar *text) { return 1 + (string_bytes(text) + 7) / 8; }

void BH_(put_string)(const HChar *text)
{
   SizeT length = string_bytes(text);
   BH_(put)(length);
   if (length % 8 != 0) BH_(cursor)[length / 8] = 0;
   VG_(memcpy)(BH_(cursor), text, length);
   BH_(cursor) += (length + 7) / 8;
}

/* Makes this image's pipe and announces the image. The pipe's name contains the first free number. So an image after exec has
   a pipe of its own, and so has a process that got the id of a process that has ended. */
static void connect(UInt parent, UInt parent_image, UInt blocks)
{
   HChar path[4096];
   UInt pid = VG_(getpid)();
   for (image = 0;; image++) {
      VG_(snprintf)(path, sizeof path, "%s/%u.%u", directory, pid, image);
      SysRes made = VG_(mknod)(path, VKI_S_IFIFO | 0600, 0);
      if (!sr_isError(made)) break;
      if (sr_Err(made) != VKI_EEXIST) {
         BH_(silent) = True;
         return;
      }
   }
   ULong hello[WIRE_HELLO_WORDS] = {(ULong)WIRE_HELLO << 56 | WIRE_VERSION, pid, image, parent, parent_image, blocks};
   HChar control[4096];
   VG_(snprintf)(control, sizeof control, "%s/control", directory);
   /* The open does not wait: if no process reads the control pipe, the recording is over. */
   Int fd = VG_(fd_open)(control, VKI_O_WRONLY | VKI_O_NONBLOCK, 0);
   if (fd < 0 || VG_(write)(fd, hello, sizeof hello) != sizeof hello) {
      if (fd >= 0) VG_(close)(fd);
      take_sigpipe();
      VG_(unlink)(path);
      BH_(silent) = True;
      return;
   }
   /* The reader opens its end when it has read the message. If the reader has ended, the control pipe has no reader. */
   struct vki_pollfd control_pipe = {.fd = fd, .events = 0, .revents = 0};
   while ((fd = VG_(fd_open)(path, VKI_O_WRONLY | VKI_O_NONBLOCK, 0)) < 0) {
      VG_(poll)(&control_pipe, 1, 1);
      if ((control_pipe.revents & POLLERR) != 0) break;
   }
   VG_(close)(control_pipe.fd);
   if (fd < 0) {
      VG_(unlink)(path);
      BH_(silent) = True;
      return;
   }
   pipe_fd = VG_(safe_fd)(fd);
   VG_(fcntl)(pipe_fd, VKI_F_SETFL, VKI_O_WRONLY); /* from here a write waits if the pipe is full */
}

void BH_(open_pipe)(const HChar *in)
{
   directory = in;
   connect(VG_(getppid)(), WIRE_NO_IMAGE, 0);
}

void BH_(reopen_in_child)(void)
{
   UInt parent_image = image;
   BH_(cursor) = buffer;
   if (BH_(silent)) return;
   if (pipe_fd >= 0) VG_(close)(pipe_fd);
   pipe_fd = -1;
   connect(VG_(getppid)(), parent_image, BH_(blocks));
}
