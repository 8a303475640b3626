/* The format of the recorder's pipe: 64-bit little-endian words. crates/binhop-record/src/wire.rs holds the same numbers,
   and its test reads this file.

   A word whose top byte is WIRE_RUN says that a *straight-line block* ran: instructions without an exit between them.
   The word's low 32 bits are the block's number. One word follows for each data reference of the block: its address, or
   WIRE_NOT_MADE if the reference depends on a condition that did not hold. An earlier WIRE_BLOCK record describes the
   block, once. So the pipe carries one word for each run of a block and one word for each data reference, but none for
   each instruction.

   A word whose top byte is WIRE_RECORD starts a record. Bits 48 to 55 are the record's kind, the low 32 bits the number of
   words that follow. No address of a user's program has such a top byte. A string is its length in bytes, then its bytes,
   padded to whole words. Times are nanoseconds of CLOCK_MONOTONIC.

   This file is part of binhop's recorder. SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef BINHOP_WIRE_H
#define BINHOP_WIRE_H

#define WIRE_VERSION 5

/* Top bytes. */
#define WIRE_RUN 0xA1
#define WIRE_RECORD 0xA2
#define WIRE_NOT_MADE 0xA3

/* Kinds of records, and their words. */
#define WIRE_START 1    /* pid, parent pid, 1 if its references are wanted, string: the program */
#define WIRE_BLOCK 2    /* number, items */
#define WIRE_PARTIAL 3  /* address of the instruction that a signal struck, then the words that the running block had
                           stored: its WIRE_RUN word, addresses, and any words behind them; WIRE_PARTIAL_WORDS in all */
#define WIRE_ENTER 4    /* thread << 32 | call, time, 1 if its first argument is a regular file, 6 arguments */
#define WIRE_LEAVE 5    /* thread << 32 | call, time, result (negative: error), second argument, device (with the bit
                           WIRE_DIRECT if the call passes the page cache by: O_DIRECT), inode, offset (of a call that
                           cuts or deletes a file: its new length),
                           device, inode and offset of the file that a call between two files writes to, then pairs:
                           start, bytes | WIRE_BY_KERNEL if the kernel wrote them | WIRE_OF_A_MESSAGE if they are a
                           buffer of a message (sendmsg, recvmsg, sendmmsg, recvmmsg) */
#define WIRE_FILE 6     /* device, inode, time in nanoseconds at which the file was made (or WIRE_NO_BIRTH), bytes of a
                           regular file at this moment (or WIRE_NO_BYTES), string: its path */
#define WIRE_MAP 7      /* start, bytes, flags, device, inode, offset */
#define WIRE_UNMAP 8    /* start, bytes */
#define WIRE_PROTECT 9  /* start, bytes, flags */
#define WIRE_MOVE 10    /* from, to, bytes */
#define WIRE_THREAD 11  /* thread, why the thread before it left (WIRE_LEFT_*), the call of the thread before it */
#define WIRE_FORK 12    /* pid of the child */
#define WIRE_EXIT 13    /* status, time */
#define WIRE_TIME 14    /* time: all words before this record were done by then. Written with every bufferful */

#define WIRE_PARTIAL_WORDS 256

/* Items of a block. The item of an instruction holds the address in the low 48 bits, and the length in bits 48 to 54. The
   item of a reference has bit 63 set. It holds the kind in bits 32 to 33, and the size in the low 32 bits. Bit 40 is set if
   the reference depends on a condition. */
#define WIRE_ITEM_LENGTH 48
#define WIRE_ITEM_REFERENCE 63
#define WIRE_ITEM_KIND 32
#define WIRE_ITEM_GUARDED 40
#define WIRE_LOAD 1
#define WIRE_STORE 2
#define WIRE_MODIFY 3

#define WIRE_BY_KERNEL 63
#define WIRE_OF_A_MESSAGE 62
#define WIRE_DIRECT 63
#define WIRE_NO_BYTES 0xFFFFFFFFFFFFFFFF
#define WIRE_NO_BIRTH 0

/* Flags of a mapping: the flags of binhop's map events, then the kind of the mapping. */
#define WIRE_READ 1
#define WIRE_WRITE 2
#define WIRE_EXEC 4
#define WIRE_SHARED 8
#define WIRE_GROWS 16
#define WIRE_KIND 8 /* the kind's position */
#define WIRE_ANONYMOUS 0
#define WIRE_MAPPED_FILE 1
#define WIRE_STACK 2
#define WIRE_HEAP 3
#define WIRE_SYSTEM_V 4

/* Why a thread left the processor. */
#define WIRE_LEFT_CALL 0
#define WIRE_LEFT_INVOLUNTARY 2
#define WIRE_LEFT_EXIT 3

/* A process image writes these words into the control pipe, in one atomic write, before it opens its own pipe:
   WIRE_HELLO | version, pid, number of the image, parent's pid, parent's image (or WIRE_NO_IMAGE if no recorded image forked
   this one), number of blocks known. The image's own pipe is DIRECTORY/PID.NUMBER. */
#define WIRE_HELLO 0xA4
#define WIRE_HELLO_WORDS 6
#define WIRE_NO_IMAGE 0xFFFFFFFF

#endif
