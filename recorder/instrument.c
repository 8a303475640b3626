/* What ran: each superblock is cut into stretches at its ways out, each stretch is described once, and generated code
   notes that it ran and at which addresses it referred to data.

   Counting rules. An instruction is one fetch each time it starts (each iteration of a repeated string instruction
   starts it again). Loads and stores are the program's, of their full size; a load and a store of the same bytes by one instruction,
   next to each other, are one modify. A reference that depends on a condition counts when it holds.

   This file is part of binhop's recorder. SPDX-License-Identifier: GPL-2.0-or-later */
#include "pub_tool_basics.h"
#include "pub_tool_libcassert.h"
#include "pub_tool_machine.h"
#include "pub_tool_tooliface.h"
#include "recorder.h"

/* More items than a superblock can have: 60 or so instructions of a few references each. */
#define MOST_ITEMS 4096

Bool BH_(wanted) = True;
UInt BH_(stretches) = 0;

/* A superblock on its way. */
typedef struct {
   IRSB *out;
   IRTypeEnv *types;
   /* The cursor when the superblock started; generated code stores relative to it. */
   IRTemp base;
   Bool started;
   /* Words noted so far, and when the cursor was last stored. */
   UInt words, stored;
   /* The open stretch: its items, whether there is one. */
   Bool open;
   UInt number;
   UInt items;
   ULong item[MOST_ITEMS];
   /* The address of the last item, if that is a load: it may become a modify. */
   IRExpr *load_address;
} Block;

static void emit(Block *block, IRStmt *statement) { addStmtToIRSB(block->out, statement); }

static IRExpr *assign(Block *block, IRType type, IRExpr *value)
{
   IRTemp temp = newIRTemp(block->out->tyenv, type);
   emit(block, IRStmt_WrTmp(temp, value));
   return IRExpr_RdTmp(temp);
}

static IRExpr *number(ULong value) { return IRExpr_Const(IRConst_U64(value)); }

/* The place of the word with this index. */
static IRExpr *place(Block *block, UInt word)
{
   IRExpr *base = IRExpr_RdTmp(block->base);
   return word == 0 ? base : assign(block, Ity_I64, IRExpr_Binop(Iop_Add64, base, number(word * 8ULL)));
}

static void note(Block *block, IRExpr *value)
{
   emit(block, IRStmt_Store(Iend_LE, place(block, block->words), value));
   block->words++;
}

/* Room for all the superblock may note, then the cursor. */
static void start(Block *block)
{
   IRExpr *cursor = number((ULong)&BH_(cursor));
   IRExpr *limit = number((ULong)BH_(limit));
   IRExpr *now = assign(block, Ity_I64, IRExpr_Load(Iend_LE, Ity_I64, cursor));
   IRExpr *full = assign(block, Ity_I1, IRExpr_Binop(Iop_CmpLE64U, limit, now));
   IRDirty *flush = unsafeIRDirty_0_N(0, "binhop_flush", VG_(fnptr_to_fnentry)(&BH_(flush)), mkIRExprVec_0());
   flush->guard = full;
   emit(block, IRStmt_Dirty(flush));
   block->base = newIRTemp(block->out->tyenv, Ity_I64);
   emit(block, IRStmt_WrTmp(block->base, IRExpr_Load(Iend_LE, Ity_I64, cursor)));
   block->started = True;
}

static void open_stretch(Block *block)
{
   if (block->open) return;
   block->open = True;
   block->number = BH_(stretches)++;
   block->items = 0;
   block->load_address = NULL;
   note(block, number((ULong)WIRE_RUN << 56 | block->number));
}

/* What was noted counts from here, whatever way the superblock is left. */
static void close_stretch(Block *block)
{
   if (block->open) {
      BH_(record)(WIRE_STRETCH, block->items + 1);
      BH_(put)(block->number);
      for (UInt i = 0; i < block->items; i++) BH_(put)(block->item[i]);
      block->open = False;
   }
   if (block->words != block->stored) {
      emit(block, IRStmt_Store(Iend_LE, number((ULong)&BH_(cursor)), place(block, block->words)));
      block->stored = block->words;
   }
}

static void add_item(Block *block, ULong item)
{
   open_stretch(block);
   tl_assert(block->items < MOST_ITEMS);
   block->item[block->items++] = item;
}

static void instruction(Block *block, Addr address, UInt length)
{
   /* What cannot be decoded has length 0: it is fetched all the same. */
   add_item(block, (address & 0xFFFFFFFFFFFFULL) | (ULong)(length == 0 ? 1 : length) << WIRE_ITEM_LENGTH);
   block->load_address = NULL;
}

static void reference(Block *block, UInt kind, UInt size, IRExpr *address, IRExpr *guard)
{
   ULong bit = 1ULL << WIRE_ITEM_REFERENCE;
   if (kind == WIRE_STORE && guard == NULL && block->open && block->load_address != NULL
       && eqIRAtom(block->load_address, address)
       && block->item[block->items - 1] == (bit | (ULong)WIRE_LOAD << WIRE_ITEM_KIND | size)) {
      block->item[block->items - 1] = bit | (ULong)WIRE_MODIFY << WIRE_ITEM_KIND | size;
      block->load_address = NULL;
      return;
   }
   add_item(block, bit | (ULong)kind << WIRE_ITEM_KIND | (ULong)(guard != NULL) << WIRE_ITEM_GUARDED | size);
   block->load_address = kind == WIRE_LOAD && guard == NULL ? address : NULL;
   if (guard == NULL) {
      note(block, address);
   } else {
      note(block, assign(block, Ity_I64, IRExpr_ITE(guard, address, number((ULong)WIRE_NOT_MADE << 56))));
   }
}

static UInt size_of(Block *block, IRExpr *value) { return sizeofIRType(typeOfIRExpr(block->types, value)); }

static void dirty(Block *block, const IRDirty *call)
{
   if (call->mFx == Ifx_None) return;
   IRExpr *guard = call->guard;
   if (guard->tag == Iex_Const && guard->Iex.Const.con->Ico.U1) guard = NULL;
   if (call->mFx == Ifx_Read || call->mFx == Ifx_Modify) reference(block, WIRE_LOAD, call->mSize, call->mAddr, guard);
   if (call->mFx == Ifx_Write || call->mFx == Ifx_Modify) reference(block, WIRE_STORE, call->mSize, call->mAddr, guard);
}

/* The references that a statement makes. */
static void references(Block *block, const IRStmt *statement)
{
   switch (statement->tag) {
   case Ist_WrTmp: {
      const IRExpr *data = statement->Ist.WrTmp.data;
      if (data->tag == Iex_Load)
         reference(block, WIRE_LOAD, sizeofIRType(data->Iex.Load.ty), data->Iex.Load.addr, NULL);
      break;
   }
   case Ist_Store:
      reference(block, WIRE_STORE, size_of(block, statement->Ist.Store.data), statement->Ist.Store.addr, NULL);
      break;
   case Ist_StoreG: {
      const IRStoreG *store = statement->Ist.StoreG.details;
      reference(block, WIRE_STORE, size_of(block, store->data), store->addr, store->guard);
      break;
   }
   case Ist_LoadG: {
      const IRLoadG *load = statement->Ist.LoadG.details;
      IRType loaded, widened;
      typeOfIRLoadGOp(load->cvt, &widened, &loaded);
      reference(block, WIRE_LOAD, sizeofIRType(loaded), load->addr, load->guard);
      break;
   }
   case Ist_CAS: {
      const IRCAS *swap = statement->Ist.CAS.details;
      UInt size = size_of(block, swap->dataLo) * (swap->dataHi != NULL ? 2 : 1);
      reference(block, WIRE_LOAD, size, swap->addr, NULL);
      reference(block, WIRE_STORE, size, swap->addr, NULL);
      break;
   }
   case Ist_LLSC:
      if (statement->Ist.LLSC.storedata == NULL) {
         IRType type = typeOfIRTemp(block->types, statement->Ist.LLSC.result);
         reference(block, WIRE_LOAD, sizeofIRType(type), statement->Ist.LLSC.addr, NULL);
      } else {
         UInt size = size_of(block, statement->Ist.LLSC.storedata);
         reference(block, WIRE_STORE, size, statement->Ist.LLSC.addr, NULL);
      }
      break;
   case Ist_Dirty: dirty(block, statement->Ist.Dirty.details); break;
   default: break;
   }
}

IRSB *BH_(instrument)(VgCallbackClosure *closure, IRSB *in, const VexGuestLayout *layout, const VexGuestExtents *extents,
                      const VexArchInfo *host, IRType guest_word, IRType host_word)
{
   static Block block; /* too large for a stack; instrumenting is never interrupted by itself */
   (void)closure, (void)layout, (void)extents, (void)host, (void)guest_word, (void)host_word;
   if (BH_(silent) || !BH_(wanted)) return in;
   block.out = deepCopyIRSBExceptStmts(in);
   block.types = in->tyenv;
   block.started = block.open = False;
   block.words = block.stored = 0;

   Int i = 0;
   /* What stands before the first instruction is the core's. */
   while (i < in->stmts_used && in->stmts[i]->tag != Ist_IMark) emit(&block, in->stmts[i++]);
   for (; i < in->stmts_used; i++) {
      IRStmt *statement = in->stmts[i];
      if (statement == NULL || statement->tag == Ist_NoOp) continue;
      if (!block.started) start(&block);
      if (statement->tag == Ist_IMark) {
         instruction(&block, statement->Ist.IMark.addr, statement->Ist.IMark.len);
         emit(&block, statement);
      } else if (statement->tag == Ist_Exit) {
         close_stretch(&block);
         emit(&block, statement);
      } else {
         references(&block, statement);
         emit(&block, statement);
      }
   }
   close_stretch(&block);
   tl_assert(block.words + 2 < BH_SLACK);
   return block.out;
}

/* Behind the cursor stands what the running superblock has noted and not yet made count. The reader knows the stretch
   and takes the references of the instructions before the one that was struck. */
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
