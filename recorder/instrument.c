/* The instrumentation: it cuts each superblock into straight-line blocks at its exits, and describes each block once.
   Generated code stores a word when a block runs, and the address of each data reference.

   Counting rules. An instruction is one fetch each time it starts; each iteration of a repeated string instruction starts
   it again. Loads and stores are the program's, with their full size. If an instruction loads and then stores the same
   bytes, with no reference in between, they are one modify. A reference that depends on a condition counts if the condition
   holds.

   This file is part of binhop's recorder. SPDX-License-Identifier: GPL-2.0-or-later */
#include "pub_tool_basics.h"
#include "pub_tool_libcassert.h"
#include "pub_tool_machine.h"
#include "pub_tool_tooliface.h"
#include "recorder.h"

/* A superblock has fewer items: about 60 instructions with a few references each. */
#define MOST_ITEMS 4096

Bool BH_(wanted) = True;
UInt BH_(blocks) = 0;

/* A superblock that is being instrumented. */
typedef struct {
   IRSB *out;
   IRTypeEnv *types;
   /* The cursor at the start of the superblock. Generated code stores relative to it. */
   IRTemp base;
   Bool started;
   /* The number of words stored so far, and their number when the cursor was last updated. */
   UInt words, stored;
   /* Whether a block is open, its number and its items. */
   Bool open;
   UInt number;
   UInt items;
   ULong item[MOST_ITEMS];
   /* The address of the last item if the item is a load, which may become a modify. */
   IRExpr *load_address;
} Superblock;

static void emit(Superblock *sb, IRStmt *statement) { addStmtToIRSB(sb->out, statement); }

static IRExpr *assign(Superblock *sb, IRType type, IRExpr *value)
{
   IRTemp temp = newIRTemp(sb->out->tyenv, type);
   emit(sb, IRStmt_WrTmp(temp, value));
   return IRExpr_RdTmp(temp);
}

static IRExpr *number(ULong value) { return IRExpr_Const(IRConst_U64(value)); }

/* Returns the address of the word with this index. */
static IRExpr *place(Superblock *sb, UInt word)
{
   IRExpr *base = IRExpr_RdTmp(sb->base);
   return word == 0 ? base : assign(sb, Ity_I64, IRExpr_Binop(Iop_Add64, base, number(word * 8ULL)));
}

static void note(Superblock *sb, IRExpr *value)
{
   emit(sb, IRStmt_Store(Iend_LE, place(sb, sb->words), value));
   sb->words++;
}

/* Starts a superblock: generated code empties the buffer if it is nearly full, then reads the cursor. */
static void start(Superblock *sb)
{
   IRExpr *cursor = number((ULong)&BH_(cursor));
   IRExpr *limit = number((ULong)BH_(limit));
   IRExpr *now = assign(sb, Ity_I64, IRExpr_Load(Iend_LE, Ity_I64, cursor));
   IRExpr *full = assign(sb, Ity_I1, IRExpr_Binop(Iop_CmpLE64U, limit, now));
   IRDirty *flush = unsafeIRDirty_0_N(0, "binhop_flush", VG_(fnptr_to_fnentry)(&BH_(flush)), mkIRExprVec_0());
   flush->guard = full;
   emit(sb, IRStmt_Dirty(flush));
   sb->base = newIRTemp(sb->out->tyenv, Ity_I64);
   emit(sb, IRStmt_WrTmp(sb->base, IRExpr_Load(Iend_LE, Ity_I64, cursor)));
   sb->started = True;
}

static void open_block(Superblock *sb)
{
   if (sb->open) return;
   sb->open = True;
   sb->number = BH_(blocks)++;
   sb->items = 0;
   sb->load_address = NULL;
   note(sb, number((ULong)WIRE_RUN << 56 | sb->number));
}

/* Describes the open block and updates the cursor, so that the stored words count, whichever exit is taken. */
static void close_block(Superblock *sb)
{
   if (sb->open) {
      BH_(record)(WIRE_BLOCK, sb->items + 1);
      BH_(put)(sb->number);
      for (UInt i = 0; i < sb->items; i++) BH_(put)(sb->item[i]);
      sb->open = False;
   }
   if (sb->words != sb->stored) {
      emit(sb, IRStmt_Store(Iend_LE, number((ULong)&BH_(cursor)), place(sb, sb->words)));
      sb->stored = sb->words;
   }
}

static void add_item(Superblock *sb, ULong item)
{
   open_block(sb);
   tl_assert(sb->items < MOST_ITEMS);
   sb->item[sb->items++] = item;
}

static void instruction(Superblock *sb, Addr address, UInt length)
{
   /* An instruction that Valgrind cannot decode has length 0. It counts as a fetch of one byte. */
   add_item(sb, (address & 0xFFFFFFFFFFFFULL) | (ULong)(length == 0 ? 1 : length) << WIRE_ITEM_LENGTH);
   sb->load_address = NULL;
}

static void reference(Superblock *sb, UInt kind, UInt size, IRExpr *address, IRExpr *guard)
{
   ULong bit = 1ULL << WIRE_ITEM_REFERENCE;
   if (kind == WIRE_STORE && guard == NULL && sb->open && sb->load_address != NULL
       && eqIRAtom(sb->load_address, address)
       && sb->item[sb->items - 1] == (bit | (ULong)WIRE_LOAD << WIRE_ITEM_KIND | size)) {
      sb->item[sb->items - 1] = bit | (ULong)WIRE_MODIFY << WIRE_ITEM_KIND | size;
      sb->load_address = NULL;
      return;
   }
   add_item(sb, bit | (ULong)kind << WIRE_ITEM_KIND | (ULong)(guard != NULL) << WIRE_ITEM_GUARDED | size);
   sb->load_address = kind == WIRE_LOAD && guard == NULL ? address : NULL;
   if (guard == NULL) {
      note(sb, address);
   } else {
      note(sb, assign(sb, Ity_I64, IRExpr_ITE(guard, address, number((ULong)WIRE_NOT_MADE << 56))));
   }
}

static UInt size_of(Superblock *sb, IRExpr *value) { return sizeofIRType(typeOfIRExpr(sb->types, value)); }

static void dirty(Superblock *sb, const IRDirty *call)
{
   if (call->mFx == Ifx_None) return;
   IRExpr *guard = call->guard;
   if (guard->tag == Iex_Const && guard->Iex.Const.con->Ico.U1) guard = NULL;
   if (call->mFx == Ifx_Read || call->mFx == Ifx_Modify) reference(sb, WIRE_LOAD, call->mSize, call->mAddr, guard);
   if (call->mFx == Ifx_Write || call->mFx == Ifx_Modify) reference(sb, WIRE_STORE, call->mSize, call->mAddr, guard);
}

/* Adds the references of a statement. */
static void references(Superblock *sb, const IRStmt *statement)
{
   switch (statement->tag) {
   case Ist_WrTmp: {
      const IRExpr *data = statement->Ist.WrTmp.data;
      if (data->tag == Iex_Load)
         reference(sb, WIRE_LOAD, sizeofIRType(data->Iex.Load.ty), data->Iex.Load.addr, NULL);
      break;
   }
   case Ist_Store:
      reference(sb, WIRE_STORE, size_of(sb, statement->Ist.Store.data), statement->Ist.Store.addr, NULL);
      break;
   case Ist_StoreG: {
      const IRStoreG *store = statement->Ist.StoreG.details;
      reference(sb, WIRE_STORE, size_of(sb, store->data), store->addr, store->guard);
      break;
   }
   case Ist_LoadG: {
      const IRLoadG *load = statement->Ist.LoadG.details;
      IRType loaded, widened;
      typeOfIRLoadGOp(load->cvt, &widened, &loaded);
      reference(sb, WIRE_LOAD, sizeofIRType(loaded), load->addr, load->guard);
      break;
   }
   case Ist_CAS: {
      const IRCAS *swap = statement->Ist.CAS.details;
      UInt size = size_of(sb, swap->dataLo) * (swap->dataHi != NULL ? 2 : 1);
      reference(sb, WIRE_LOAD, size, swap->addr, NULL);
      reference(sb, WIRE_STORE, size, swap->addr, NULL);
      break;
   }
   case Ist_LLSC:
      if (statement->Ist.LLSC.storedata == NULL) {
         IRType type = typeOfIRTemp(sb->types, statement->Ist.LLSC.result);
         reference(sb, WIRE_LOAD, sizeofIRType(type), statement->Ist.LLSC.addr, NULL);
      } else {
         UInt size = size_of(sb, statement->Ist.LLSC.storedata);
         reference(sb, WIRE_STORE, size, statement->Ist.LLSC.addr, NULL);
      }
      break;
   case Ist_Dirty: dirty(sb, statement->Ist.Dirty.details); break;
   default: break;
   }
}

IRSB *BH_(instrument)(VgCallbackClosure *closure, IRSB *in, const VexGuestLayout *layout, const VexGuestExtents *extents,
                      const VexArchInfo *host, IRType guest_word, IRType host_word)
{
   static Superblock sb; /* too large for a stack; instrumentation does not nest */
   (void)closure, (void)layout, (void)extents, (void)host, (void)guest_word, (void)host_word;
   if (BH_(silent) || !BH_(wanted)) return in;
   sb.out = deepCopyIRSBExceptStmts(in);
   sb.types = in->tyenv;
   sb.started = sb.open = False;
   sb.words = sb.stored = 0;

   Int i = 0;
   /* The statements before the first instruction belong to Valgrind's core. */
   while (i < in->stmts_used && in->stmts[i]->tag != Ist_IMark) emit(&sb, in->stmts[i++]);
   for (; i < in->stmts_used; i++) {
      IRStmt *statement = in->stmts[i];
      if (statement == NULL || statement->tag == Ist_NoOp) continue;
      if (!sb.started) start(&sb);
      if (statement->tag == Ist_IMark) {
         instruction(&sb, statement->Ist.IMark.addr, statement->Ist.IMark.len);
         emit(&sb, statement);
      } else if (statement->tag == Ist_Exit) {
         close_block(&sb);
         emit(&sb, statement);
      } else {
         references(&sb, statement);
         emit(&sb, statement);
      }
   }
   close_block(&sb);
   tl_assert(sb.words + 2 < BH_SLACK);
   return sb.out;
}

/* The words behind the cursor were stored by the running superblock and do not count yet. They go into a record. The reader
   knows the block, and uses the references of the instructions before the instruction that the signal struck. */
void BH_(cut_short)(Addr at)
{
   ULong noted[WIRE_PARTIAL_WORDS];
   const ULong *running = BH_(cursor);
   if (running[0] >> 56 != WIRE_RUN) return;
   for (UInt i = 0; i < WIRE_PARTIAL_WORDS; i++) noted[i] = running[i];
   BH_(record)(WIRE_PARTIAL, 1 + WIRE_PARTIAL_WORDS);
   BH_(put)(at);
   for (UInt i = 0; i < WIRE_PARTIAL_WORDS; i++) BH_(put)(noted[i]);
}
