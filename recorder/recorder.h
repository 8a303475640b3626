/* What the recorder's files know of each other.

   This file is part of binhop's recorder. SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef BINHOP_RECORDER_H
#define BINHOP_RECORDER_H

#include "pub_tool_basics.h"
#include "pub_tool_tooliface.h"
#include "wire.h"

#define BH_(name) binhop_##name

/* pipe.c: where the words go. */

/* The next free word. Generated code stores through it. */
extern ULong *BH_(cursor);
/* Generated code asks for room when the cursor has come this far; behind it there is room for BH_SLACK words. */
extern ULong *const BH_(limit);
#define BH_SLACK 16384

/* Empties the buffer into the pipe. Called by generated code, too. */
void BH_(flush)(void);
/* Starts a record of so many words; they follow by BH_(put). */
void BH_(record)(UInt kind, UInt words);
void BH_(put)(ULong word);
/* The words a string takes, and the string itself. */
UInt BH_(string_words)(const HChar *text);
void BH_(put_string)(const HChar *text);
/* Opens this image's pipe in a directory. In a forked child: a new pipe, the old buffer forgotten. */
void BH_(open_pipe)(const HChar *directory);
void BH_(reopen_in_child)(void);
/* Nobody reads any more: what is written is dropped, and code is translated as it is. */
extern Bool BH_(silent);
void BH_(stop_noting)(void);
ULong BH_(now)(void);

/* instrument.c: what ran. */

/* Whether this image's references are wanted. */
extern Bool BH_(wanted);
extern UInt BH_(blocks);
IRSB *BH_(instrument)(VgCallbackClosure *closure, IRSB *in, const VexGuestLayout *layout, const VexGuestExtents *extents,
                      const VexArchInfo *host, IRType guest_word, IRType host_word);
/* A signal interrupts the program at this instruction: says how far its block came. */
void BH_(cut_short)(Addr at);

/* memory.c: what is mapped. */
void BH_(track_memory)(void);
/* The arguments of the call that the running thread is in; NULL outside of one. */
const UWord *BH_(call_arguments)(ThreadId tid, UInt *number);

/* Before an image's first instruction: gives it always the same random bytes. */
void BH_(settle_random)(ThreadId tid);

/* calls.c: system calls, threads, processes. */
void BH_(track_calls)(void);
/* Once the number of threads there may be is known. */
void BH_(prepare_threads)(void);
/* Names a file once. */
void BH_(name_file)(ULong device, ULong inode, const HChar *path);

#endif
