/* files.c finds the files of system calls, and writes their names.

   This file is part of binhop's recorder. SPDX-License-Identifier: GPL-2.0-or-later */
#include "pub_tool_basics.h"
#include "pub_tool_aspacemgr.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcfile.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_vki.h"
#include "recorder.h"

/* The library has these functions, but the headers for tools do not declare them. The first returns -1 on an error. */
extern Int VG_(fcntl)(Int fd, Int cmd, Addr arg);
extern SysRes VG_(do_syscall)(UWord number, UWord, UWord, UWord, UWord, UWord, UWord, UWord, UWord);

/* Valgrind's headers do not have these flags of open (x86-64). */
#define O_DIRECT 040000
#define O_NOFOLLOW 0400000
#define O_PATH 010000000
/* Valgrind's headers do not have these flags of statx and renameat2. */
#define EMPTY_PATH 0x1000
#define STATX_BTIME 0x800
#define RENAME_EXCHANGE 2
/* Valgrind's headers do not have these flags of pwritev2: RWF_APPEND, and RWF_NOAPPEND of Linux 6.9. */
#define APPENDS 0x10
#define DOES_NOT_APPEND 0x20
#define NO_OFFSET (~0ULL)

/* The buffer of statx, of which the recorder reads two fields. */
typedef struct {
   UInt mask, block;
   ULong attributes;
   UInt links, user, group;
   UShort mode, unused;
   ULong inode, bytes, blocks, known_attributes;
   struct {
      Long seconds;
      UInt nanoseconds;
      Int unused;
   } accessed, born, changed, modified;
   ULong others[16];
} FileState;

/* Returns when a file was made, in nanoseconds, or WIRE_NO_BIRTH if the file system does not know. An inode is used again for
   another file, and the time tells the two apart. The path may be empty: then the file is the descriptor's. */
static ULong birth_of(Int fd, const HChar *path)
{
   FileState state;
   SysRes result = VG_(do_syscall)(__NR_statx, (UWord)fd, (UWord)path, path[0] == 0 ? EMPTY_PATH : 0, STATX_BTIME,
                                   (UWord)&state, 0, 0, 0);
   if (sr_isError(result) || (state.mask & STATX_BTIME) == 0) return WIRE_NO_BIRTH;
   return (ULong)state.born.seconds * 1000000000ULL + state.born.nanoseconds;
}

/* A small table of the files whose names this process image wrote. A name may be written twice, which costs little, but no name
   may be left out. Each image writes its names anew, so all must write the same name for a file: the kernel's, never the
   program's. Where the file system does not know when a file was made, the reader takes an inode with another name for
   another file. */
#define NAMED 1024
static struct {
   ULong device, inode, birth;
} named[NAMED];

/* Returns whether this image has written the name of a file. */
static Bool is_named(ULong device, ULong inode, ULong birth)
{
   UInt at = (UInt)((device * 31 + inode) % NAMED);
   return named[at].inode == inode && named[at].device == device && named[at].birth == birth && inode != 0;
}

static void name_file(ULong device, ULong inode, ULong birth, ULong bytes, const HChar *path)
{
   UInt at = (UInt)((device * 31 + inode) % NAMED);
   named[at].device = device;
   named[at].inode = inode;
   named[at].birth = birth;
   BH_(record)(WIRE_FILE, 4 + BH_(string_words)(path));
   BH_(put)(device);
   BH_(put)(inode);
   BH_(put)(birth);
   BH_(put)(bytes);
   BH_(put_string)(path);
}

void BH_(name_mapped_file)(ULong device, ULong inode, ULong bytes, const HChar *path)
{
   /* The path of a mapping may lead to another file by now. */
   ULong birth = bytes == WIRE_NO_BYTES ? WIRE_NO_BIRTH : birth_of(VKI_AT_FDCWD, path);
   if (!is_named(device, inode, birth)) name_file(device, inode, birth, bytes, path);
}

void BH_(forget_names)(void) { VG_(memset)(named, 0, sizeof named); }

/* Returns whether a call moves bytes of the file that is its first argument, writes them to the disk, or cuts the file. */
static Bool is_of_a_file(UInt number)
{
   switch (number) {
   case __NR_read: case __NR_write: case __NR_readv: case __NR_writev:
   case __NR_pread64: case __NR_pwrite64: case __NR_preadv: case __NR_pwritev: case __NR_preadv2: case __NR_pwritev2:
   case __NR_sendto: case __NR_recvfrom: case __NR_sendmsg: case __NR_recvmsg:
   case __NR_sendmmsg: case __NR_recvmmsg:
   case __NR_fsync: case __NR_fdatasync: case __NR_ftruncate:
      return True;
   default: return False;
   }
}

/* Finds the file of a descriptor, and writes its name. Returns whether it is a regular file. */
static Bool find(Int fd, ULong *device, ULong *inode)
{
   struct vg_stat file;
   if (VG_(fstat)(fd, &file) != 0) return False;
   *device = file.dev;
   *inode = file.ino;
   ULong birth = VKI_S_ISREG(file.mode) ? birth_of(fd, "") : WIRE_NO_BIRTH;
   if (!is_named(file.dev, file.ino, birth)) {
      HChar link[64], path[4097];
      VG_(snprintf)(link, sizeof link, "/proc/self/fd/%d", fd);
      SSizeT length = VG_(readlink)(link, path, sizeof path - 1);
      path[length > 0 ? length : 0] = 0;
      name_file(file.dev, file.ino, birth, VKI_S_ISREG(file.mode) ? (ULong)file.size : WIRE_NO_BYTES, path);
   }
   return VKI_S_ISREG(file.mode);
}

/* Returns the offset of a descriptor. A call between two files gets a pointer to the offset, or NULL for the descriptor's
   own. */
static ULong offset_of(Int fd, Addr pointer)
{
   if (pointer != 0) {
      Bool valid = VG_(am_is_valid_for_client)(pointer, sizeof(ULong), VKI_PROT_READ);
      return valid ? *(const ULong *)pointer : NO_OFFSET;
   }
   Off64T now = VG_(lseek)(fd, 0, VKI_SEEK_CUR);
   return now >= 0 ? (ULong)now : NO_OFFSET;
}

/* Finds both files of a call that moves bytes between two files. */
static void find_two_files(Thread *thread)
{
   const UWord *given = thread->arguments;
   Bool sends = thread->number == __NR_sendfile;
   if (thread->number == __NR_tee) {
      find((Int)given[0], &thread->device, &thread->inode);
      find((Int)given[1], &thread->to_device, &thread->to_inode);
      return;
   }
   Int from = (Int)given[sends ? 1 : 0], to = (Int)given[sends ? 0 : 2];
   thread->regular = find(from, &thread->device, &thread->inode);
   if (thread->regular) thread->offset = offset_of(from, sends ? given[2] : given[1]);
   if (find(to, &thread->to_device, &thread->to_inode)) thread->to_offset = offset_of(to, sends ? 0 : given[3]);
}

/* The descriptors that are looked at when a file's last name is removed: as many as a process has by default. */
#define DESCRIPTORS 1024

/* Returns whether a descriptor of this process leads to a file, besides the recorder's own. */
static Bool is_open(const struct vg_stat *file, Int own)
{
   struct vg_stat other;
   for (Int fd = 0; fd < DESCRIPTORS; fd++)
      if (fd != own && VG_(fstat)(fd, &other) == 0 && other.dev == file->dev && other.ino == file->ino) return True;
   return False;
}

/* Returns whether this process maps a file. Where there are more mappings than fit, it counts as mapped. */
static Bool is_mapped(const struct vg_stat *file)
{
   static Addr starts[4096];
   Int found = VG_(am_get_segment_starts)(SkFileC, starts, sizeof starts / sizeof starts[0]);
   if (found < 0) return True;
   for (Int i = 0; i < found; i++) {
      const NSegment *segment = VG_(am_find_nsegment)(starts[i]);
      if (segment != NULL && segment->dev == file->dev && segment->ino == file->ino) return True;
   }
   return False;
}

/* Opens a name below a directory, only to look at it: neither the file's locks nor its times change. Returns -1 if there is no
   such name. */
static Int open_name(Int directory, Addr given, Bool follows)
{
   HChar path[4200];
   SizeT length = 0;
   if (directory != VKI_AT_FDCWD) length = VG_(sprintf)(path, "/proc/self/fd/%d/", directory);
   for (SizeT i = 0;; i++) {
      if (length + 1 >= sizeof path || !VG_(am_is_valid_for_client)(given + i, 1, VKI_PROT_READ)) return -1;
      HChar next = *(const HChar *)(given + i);
      if (i == 0 && next == '/') length = 0;
      path[length++] = next;
      if (next == 0) break;
   }
   SysRes opened = VG_(open)(path, O_PATH | (follows ? 0 : O_NOFOLLOW), 0);
   return sr_isError(opened) ? -1 : (Int)sr_Res(opened);
}

/* Finds the file that a call cuts to so many bytes, by its name. The program's name may be relative; the file gets the name
   that its descriptors have. */
static void find_cut_file(Thread *thread, Int directory, Addr name, ULong bytes)
{
   struct vg_stat file;
   Int fd = open_name(directory, name, True);
   if (fd < 0) return;
   if (VG_(fstat)(fd, &file) == 0 && VKI_S_ISREG(file.mode)) {
      find(fd, &thread->device, &thread->inode);
      thread->offset = bytes;
   }
   VG_(close)(fd);
}

/* Finds the file that a call deletes by its name. A name that is removed deletes the file if the file has no other name, and
   this process neither has a descriptor of it nor maps it. (Ours: on Linux a descriptor or a mapping of another process keeps
   the file, too.) A name may be a symbolic link, which is a file of its own. A file that takes the name of another one is
   `taker`; the call does nothing if both names are of one file. */
static void find_deleted_file(Thread *thread, Int directory, Addr name, const struct vg_stat *taker)
{
   struct vg_stat file;
   Int fd = open_name(directory, name, False);
   if (fd < 0) return;
   if (VG_(fstat)(fd, &file) == 0 && VKI_S_ISREG(file.mode) && file.nlink <= 1 && !is_open(&file, fd) && !is_mapped(&file)
       && (taker == NULL || taker->dev != file.dev || taker->ino != file.ino)) {
      find(fd, &thread->device, &thread->inode);
      thread->offset = 0;
   }
   VG_(close)(fd);
}

/* Finds the file whose name another file takes. */
static void find_replaced_file(Thread *thread, Int from, Addr old, Int to, Addr name)
{
   struct vg_stat taker;
   Int fd = open_name(from, old, False);
   if (fd < 0) return;
   Bool known = VG_(fstat)(fd, &taker) == 0;
   VG_(close)(fd);
   if (known) find_deleted_file(thread, to, name, &taker);
}

/* Returns whether open cuts the file. With O_PATH the kernel ignores O_TRUNC. */
static Bool opens_and_cuts(ULong flags) { return (flags & (VKI_O_TRUNC | O_PATH)) == VKI_O_TRUNC; }

/* Finds the file of a call that cuts or deletes by a name. */
static void find_named_file(Thread *thread)
{
   const UWord *given = thread->arguments;
   switch (thread->number) {
   case __NR_truncate: find_cut_file(thread, VKI_AT_FDCWD, given[0], given[1]); return;
   case __NR_creat: find_cut_file(thread, VKI_AT_FDCWD, given[0], 0); return;
   case __NR_open:
      if (opens_and_cuts(given[1])) find_cut_file(thread, VKI_AT_FDCWD, given[0], 0);
      return;
   case __NR_openat:
      if (opens_and_cuts(given[2])) find_cut_file(thread, (Int)given[0], given[1], 0);
      return;
   case __NR_openat2:
      /* The flags are the first word of its structure. */
      if (VG_(am_is_valid_for_client)(given[2], sizeof(ULong), VKI_PROT_READ)
          && opens_and_cuts(*(const ULong *)given[2]))
         find_cut_file(thread, (Int)given[0], given[1], 0);
      return;
   case __NR_unlink: find_deleted_file(thread, VKI_AT_FDCWD, given[0], NULL); return;
   case __NR_unlinkat: find_deleted_file(thread, (Int)given[0], given[1], NULL); return;
   case __NR_rename: find_replaced_file(thread, VKI_AT_FDCWD, given[0], VKI_AT_FDCWD, given[1]); return;
   case __NR_renameat2:
      if ((given[4] & RENAME_EXCHANGE) != 0) return;
      /* fall through */
   case __NR_renameat: find_replaced_file(thread, (Int)given[0], given[1], (Int)given[2], given[3]); return;
   default: return;
   }
}

/* Finds the pipe of vmsplice: the call writes to it, or reads it. */
static void find_pipe(Thread *thread)
{
   Int fd = (Int)thread->arguments[0];
   Int flags = VG_(fcntl)(fd, VKI_F_GETFL, 0);
   Bool reads = flags >= 0 && (flags & VKI_O_ACCMODE) == VKI_O_RDONLY;
   if (reads)
      find(fd, &thread->device, &thread->inode);
   else
      find(fd, &thread->to_device, &thread->to_inode);
}

/* Returns whether a call writes at the end of its file, whatever offset it names. `flags` are the descriptor's. */
static Bool appends(const Thread *thread, Int flags)
{
   UWord of_call = thread->number == __NR_pwritev2 ? thread->arguments[5] : 0;
   if ((of_call & DOES_NOT_APPEND) != 0) return False;
   return (of_call & APPENDS) != 0 || (flags >= 0 && (flags & VKI_O_APPEND) != 0);
}

/* Returns the length of a descriptor's file. */
static ULong size_of(Int fd)
{
   struct vg_stat file;
   return VG_(fstat)(fd, &file) == 0 ? (ULong)file.size : NO_OFFSET;
}

void BH_(find_file)(Thread *thread)
{
   thread->device = thread->inode = thread->to_device = thread->to_inode = 0;
   thread->offset = thread->to_offset = NO_OFFSET;
   thread->regular = thread->direct = False;
   switch (thread->number) {
   case __NR_sendfile: case __NR_splice: case __NR_copy_file_range: case __NR_tee: find_two_files(thread); return;
   case __NR_truncate: case __NR_unlink: case __NR_unlinkat: case __NR_creat: case __NR_open: case __NR_openat:
   case __NR_openat2: case __NR_rename: case __NR_renameat: case __NR_renameat2: find_named_file(thread); return;
   case __NR_vmsplice: find_pipe(thread); return;
   default:
      if (!is_of_a_file(thread->number)) return;
   }
   Int fd = (Int)thread->arguments[0];
   thread->regular = find(fd, &thread->device, &thread->inode);
   if (!thread->regular) return;
   Int flags = VG_(fcntl)(fd, VKI_F_GETFL, 0);
   thread->direct = flags >= 0 && (flags & O_DIRECT) != 0;
   switch (thread->number) {
   case __NR_write: case __NR_writev: case __NR_pwrite64: case __NR_pwritev: case __NR_pwritev2:
      if (appends(thread, flags)) {
         thread->offset = size_of(fd);
         return;
      }
      break;
   default: break;
   }
   switch (thread->number) {
   case __NR_ftruncate: thread->offset = thread->arguments[1]; return;
   case __NR_preadv2: case __NR_pwritev2:
      /* The offset -1 is the descriptor's own. */
      if (thread->arguments[3] == NO_OFFSET) break;
      /* fall through */
   case __NR_pread64: case __NR_pwrite64: case __NR_preadv: case __NR_pwritev:
      thread->offset = thread->arguments[3];
      return;
   default: break;
   }
   thread->offset = offset_of(fd, 0);
}
