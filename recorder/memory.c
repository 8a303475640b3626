/* memory.c records mappings: those at the start, and those by mmap, brk, shmat and mremap, with the identity of files.

   This file is part of binhop's recorder. SPDX-License-Identifier: GPL-2.0-or-later */
#include "pub_tool_aspacemgr.h"
#include "pub_tool_basics.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcfile.h"
#include "pub_tool_machine.h"
#include "pub_tool_threadstate.h"
#include "pub_tool_tooliface.h"
#include "pub_tool_vki.h"
#include "pub_tool_vkiscnums.h"
#include "recorder.h"

#define PAGE 4096UL
#define UP(a) (((a) + PAGE - 1) & ~(PAGE - 1))

static void say_map(Addr start, SizeT bytes, UInt flags, ULong device, ULong inode, ULong offset)
{
   BH_(record)(WIRE_MAP, 6);
   BH_(put)(start);
   BH_(put)(bytes);
   BH_(put)(flags);
   BH_(put)(device);
   BH_(put)(inode);
   BH_(put)(offset);
}

static void say(UInt kind, Addr start, SizeT bytes)
{
   BH_(record)(kind, 2);
   BH_(put)(start);
   BH_(put)(bytes);
}

static UInt protection(Bool read, Bool write, Bool exec)
{
   return (read ? WIRE_READ : 0) | (write ? WIRE_WRITE : 0) | (exec ? WIRE_EXEC : 0);
}

/* Records a mapping of the part of a segment that starts at an address. */
static void map_segment(Addr start, SizeT bytes, UInt flags)
{
   const NSegment *segment = VG_(am_find_nsegment)(start);
   if (segment != NULL && segment->kind == SkFileC) {
      const HChar *path = VG_(am_get_filename)(segment);
      struct vg_stat file;
      Bool known = path != NULL && sr_Res(VG_(stat)(path, &file)) == 0 && VKI_S_ISREG(file.mode)
                   && file.dev == segment->dev && file.ino == segment->ino;
      BH_(name_mapped_file)(segment->dev, segment->ino, known ? (ULong)file.size : WIRE_NO_BYTES, path != NULL ? path : "");
      say_map(start, bytes, flags | WIRE_MAPPED_FILE << WIRE_KIND, segment->dev, segment->ino,
              segment->offset + (start - segment->start));
   } else {
      say_map(start, bytes, flags | WIRE_ANONYMOUS << WIRE_KIND, 0, 0, 0);
   }
}

/* The stack is the segment above a reservation that shrinks from its top. The whole reservation is recorded as mapped,
   because only touched pages count. */
static void at_startup(Addr start, SizeT bytes, Bool read, Bool write, Bool exec, ULong debug_info)
{
   (void)debug_info;
   /* Valgrind's replacements of a few functions do not fill whole pages. */
   bytes = UP(start + bytes) - (start & ~(PAGE - 1));
   start &= ~(PAGE - 1);
   const NSegment *below = VG_(am_find_nsegment)(start - 1);
   UInt flags = protection(read, write, exec);
   if (below != NULL && below->kind == SkResvn && below->smode == SmUpper) {
      flags |= WIRE_GROWS | WIRE_STACK << WIRE_KIND;
      say_map(below->start, bytes + (start - below->start), flags, 0, 0, 0);
   } else {
      map_segment(start, bytes, flags);
   }
}

static void by_mmap(Addr start, SizeT bytes, Bool read, Bool write, Bool exec, ULong debug_info)
{
   (void)debug_info;
   UInt flags = protection(read, write, exec), number = 0;
   const UWord *arguments = BH_(call_arguments)(VG_(get_running_tid)(), &number);
   bytes = UP(bytes);
   if (arguments != NULL && number == __NR_shmat) {
      say_map(start, bytes, flags | WIRE_SHARED | WIRE_SYSTEM_V << WIRE_KIND, 0, arguments[0], 0);
      return;
   }
   if (arguments != NULL && number == __NR_mmap && (arguments[3] & VKI_MAP_SHARED) != 0) flags |= WIRE_SHARED;
   map_segment(start, bytes, flags);
}

/* brk moves by bytes, but only whole pages are mapped: the first page may be mapped already, and the last page stays until
   all of its bytes are given back. */
static void by_brk(Addr start, SizeT bytes, ThreadId tid)
{
   (void)tid;
   Addr first = UP(start), end = UP(start + bytes);
   if (first < end)
      say_map(first, end - first, WIRE_READ | WIRE_WRITE | WIRE_HEAP << WIRE_KIND, 0, 0, 0);
}

static void brk_ends(Addr start, SizeT bytes)
{
   Addr first = UP(start), end = UP(start + bytes);
   if (first < end) say(WIRE_UNMAP, first, end - first);
}

static void by_mremap(Addr from, Addr to, SizeT bytes)
{
   BH_(record)(WIRE_MOVE, 3);
   BH_(put)(from);
   BH_(put)(to);
   BH_(put)(UP(bytes));
}

static void munmapped(Addr start, SizeT bytes) { say(WIRE_UNMAP, start, UP(bytes)); }

static void protected(Addr start, SizeT bytes, Bool read, Bool write, Bool exec)
{
   BH_(record)(WIRE_PROTECT, 3);
   BH_(put)(start);
   BH_(put)(UP(bytes));
   BH_(put)(protection(read, write, exec));
}

/* The kernel gives each program 16 random bytes. libc makes addresses from them, so a few loads would differ between
   runs. `fix_random` makes the bytes constant. The stack starts with the number of arguments, the arguments, the
   environment, and pairs that end with AT_NULL. */
#define AT_NULL 0
#define AT_RANDOM 25

void BH_(fix_random)(ThreadId tid)
{
   const UWord *word = (const UWord *)VG_(get_SP)(tid);
   word += 1 + *word + 1;
   while (*word++ != 0) {}
   for (; word[0] != AT_NULL; word += 2) {
      if (word[0] != AT_RANDOM) continue;
      UChar *random = (UChar *)word[1];
      for (UInt i = 0; i < 16; i++) random[i] = (UChar)(0x9d + 0x3b * i);
   }
}

void BH_(track_memory)(void)
{
   VG_(track_new_mem_startup)(at_startup);
   VG_(track_new_mem_mmap)(by_mmap);
   VG_(track_new_mem_brk)(by_brk);
   VG_(track_die_mem_brk)(brk_ends);
   VG_(track_die_mem_munmap)(munmapped);
   VG_(track_copy_mem_remap)(by_mremap);
   VG_(track_change_mem_mprotect)(protected);
}
