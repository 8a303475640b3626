/* What the recorder writes into its pipe: 64-bit little-endian words. crates/binhop-record/src/wire.rs reads them,
   and its tests read the numbers in this file.

   A word whose top byte is WIRE_RUN says that a *straight-line block* ran: instructions without a way out
   in their middle. Its low 32 bits are the block's number; as many words follow as the block makes data references,
   each an address (or WIRE_NOT_MADE, where the reference depends on a condition that did not hold). What a block is made
   of was said once before, in a WIRE_BLOCK record: so the pipe carries one word for each run of a block and one for each
   data reference, not one for each instruction.

   A word whose top byte is WIRE_RECORD starts a record: its kind in bits 48 to 55, the number of words that follow in
   the low 32 bits. No address of a user's program has such a top byte. A string is its length in bytes, then its bytes,
   padded to whole words. Times are nanoseconds of CLOCK_MONOTONIC.

   This file is part of binhop's recorder. SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef BINHOP_WIRE_H
#define BINHOP_WIRE_H

#define WIRE_VERSION 1

/* Top bytes. */
#define WIRE_RUN 0xA1
#define WIRE_RECORD 0xA2
#define WIRE_NOT_MADE 0xA3

/* Kinds of records, and their words. */
#define WIRE_START 1    /* pid, parent pid, 1 if its references are wanted, string: the program */
#define WIRE_BLOCK 2    /* number, items */
#define WIRE_PARTIAL 3  /* address of the instruction that a signal struck, then what the running block had noted: its
                           WIRE_RUN word, addresses, and whatever stood behind them, WIRE_PARTIAL_WORDS in all */
#define WIRE_ENTER 4    /* thread << 32 | call, time, 1 if its first argument is a regular file, 6 arguments */
#define WIRE_LEAVE 5    /* thread << 32 | call, time, result (negative: error), second argument, device, inode, offset,
                           then pairs: start, bytes | WIRE_BY_KERNEL if the kernel wrote them */
#define WIRE_FILE 6     /* device, inode, string: its path */
#define WIRE_MAP 7      /* start, bytes, flags, device, inode, offset */
#define WIRE_UNMAP 8    /* start, bytes */
#define WIRE_PROTECT 9  /* start, bytes, flags */
#define WIRE_MOVE 10    /* from, to, bytes */
#define WIRE_THREAD 11  /* thread, why the one before left (WIRE_LEFT_*), its call */
#define WIRE_FORK 12    /* pid of the child */
#define WIRE_EXIT 13    /* status, time */
#define WIRE_TIME 14    /* time: what stands before was done by then. With every bufferful */

#define WIRE_PARTIAL_WORDS 256

/* Items of a block. An instruction: its address in the low 48 bits, its length in bits 48 to 54. A reference: bit 63,
   its kind in bits 32 to 33, bit 40 if it depends on a condition, its size in the low 32 bits. */
#define WIRE_ITEM_LENGTH 48
#define WIRE_ITEM_REFERENCE 63
#define WIRE_ITEM_KIND 32
#define WIRE_ITEM_GUARDED 40
#define WIRE_LOAD 1
#define WIRE_STORE 2
#define WIRE_MODIFY 3

#define WIRE_BY_KERNEL 63

/* Flags of a mapping: those of binhop's map events, then what it is. */
#define WIRE_READ 1
#define WIRE_WRITE 2
#define WIRE_EXEC 4
#define WIRE_SHARED 8
#define WIRE_GROWS 16
#define WIRE_KIND 8 /* the kind's place */
#define WIRE_ANONYMOUS 0
#define WIRE_MAPPED_FILE 1
#define WIRE_STACK 2
#define WIRE_HEAP 3
#define WIRE_SYSTEM_V 4

/* Why a thread left the processor. */
#define WIRE_LEFT_CALL 0
#define WIRE_LEFT_INVOLUNTARY 2
#define WIRE_LEFT_EXIT 3

/* What a process image says in the control pipe before it opens its own, one atomic write of these words:
   WIRE_HELLO | version, pid, number of the image, parent's pid, parent's image (or WIRE_NO_IMAGE: not forked from a recorded
   one), blocks known. Its own pipe is DIRECTORY/PID.NUMBER. */
#define WIRE_HELLO 0xA4
#define WIRE_HELLO_WORDS 6
#define WIRE_NO_IMAGE 0xFFFFFFFF

#endif
