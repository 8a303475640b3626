/* Declarations that the recorder's files share.

   This file is part of binhop's recorder. SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef BINHOP_RECORDER_H
#define BINHOP_RECORDER_H

#include "pub_tool_basics.h"
#include "pub_tool_tooliface.h"
#include "pub_tool_vkiscnums.h"
#include "wire.h"

/* Valgrind's headers may lack these numbers. */
#ifndef __NR_copy_file_range
#define __NR_copy_file_range 326
#endif
#ifndef __NR_statx
#define __NR_statx 332
#endif
#ifndef __NR_openat2
#define __NR_openat2 437
#endif

#define BH_(name) binhop_##name

/* pipe.c: the buffer of words and the pipe. */

/* The next free word. Generated code stores through it. */
extern ULong *BH_(cursor);
/* Generated code empties the buffer when the cursor has reached this limit. BH_SLACK words fit behind the limit. */
extern ULong *const BH_(limit);
#define BH_SLACK 16384

/* Empties the buffer into the pipe. Generated code calls it, too. */
void BH_(flush)(void);
/* Starts a record. Its words follow by BH_(put); `words` is their number. */
void BH_(record)(UInt kind, UInt words);
void BH_(put)(ULong word);
/* Returns the number of words that a string takes. BH_(put_string) writes the string. */
UInt BH_(string_words)(const HChar *text);
void BH_(put_string)(const HChar *text);
/* Opens this image's pipe in a directory. BH_(reopen_in_child) opens a new pipe in a forked child and drops the parent's
   buffer. */
void BH_(open_pipe)(const HChar *directory);
void BH_(reopen_in_child)(void);
/* True once no process reads the pipe. Words are dropped then, and code is translated without instrumentation. */
extern Bool BH_(silent);
void BH_(stop_noting)(void);
ULong BH_(now)(void);

/* instrument.c: the instructions and references of the program. */

/* True if this image's references are wanted. */
extern Bool BH_(wanted);
extern UInt BH_(blocks);
IRSB *BH_(instrument)(VgCallbackClosure *closure, IRSB *in, const VexGuestLayout *layout, const VexGuestExtents *extents,
                      const VexArchInfo *host, IRType guest_word, IRType host_word);
/* Writes how far the running block came when a signal interrupts the program at this instruction. */
void BH_(cut_short)(Addr at);

/* memory.c: mappings. */
void BH_(track_memory)(void);
/* Returns the arguments of the system call that the thread is in, and its number; NULL outside a call. */
const UWord *BH_(call_arguments)(ThreadId tid, UInt *number);

/* Gives an image the same random bytes in every run. Called before its first instruction. */
void BH_(fix_random)(ThreadId tid);

/* calls.c: system calls, threads, processes. */
void BH_(track_calls)(void);
/* Allocates the table of threads. Called once the largest number of threads is known. */
void BH_(prepare_threads)(void);

/* files.c: the files of system calls and mappings. */

/* The state of a thread, with the system call that it is in. */
typedef struct {
   Bool in_call, ended, regular, direct;
   UInt number;
   UWord arguments[6];
   ULong device, inode, offset;
   /* The file that a call between two files writes to. */
   ULong to_device, to_inode, to_offset;
   UInt ranges, room;
   ULong *range;
} Thread;

/* Finds the files of the call that a thread is about to make, and writes their names. */
void BH_(find_file)(Thread *thread);
/* Writes the path, the length and the birth of a mapped file, if they were not written lately. If `bytes` is
   WIRE_NO_BYTES, the path may lead to another file, so the birth is written as unknown. */
void BH_(name_mapped_file)(ULong device, ULong inode, ULong bytes, const HChar *path);
/* Forgets which names this image has written. A forked child writes its names anew. */
void BH_(forget_names)(void);

#endif
