/* binhop's recorder: a Valgrind tool that writes what a program does to memory into a pipe.

   This file is part of binhop's recorder. SPDX-License-Identifier: GPL-2.0-or-later */
#include "pub_tool_basics.h"
#include "pub_tool_clientstate.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcfile.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_libcproc.h"
#include "pub_tool_options.h"
#include "pub_tool_tooliface.h"
#include "recorder.h"

static const HChar *directory = NULL;
static const HChar *only = NULL;

static Bool option(const HChar *argument)
{
   if VG_STR_CLO (argument, "--to", directory) {
   } else if VG_STR_CLO (argument, "--only", only) {
   } else
      return False;
   return True;
}

static void usage(void)
{
   VG_(printf)("    --to=DIRECTORY   the directory of the reader's control pipe\n"
               "    --only=NAME      record references only of programs with this name\n");
}

static void nothing(void) {}

static void before_running(void)
{
   if (directory == NULL) {
      VG_(fmsg_bad_option)("--to", "this tool is run by `binhop record`\n"); /* does not return */
   }
   /* The name is the kernel's name: a script has its own name, not its interpreter's. */
   const HChar *name = VG_(basename)(VG_(args_the_exename));
   BH_(wanted) = only == NULL || VG_(strcmp)(only, name) == 0;
   BH_(prepare_threads)();
   BH_(open_pipe)(directory);
   BH_(record)(WIRE_START, 3 + BH_(string_words)(name));
   BH_(put)(VG_(getpid)());
   BH_(put)(VG_(getppid)());
   BH_(put)(BH_(wanted));
   BH_(put_string)(name);
}

static void at_the_end(Int status)
{
   BH_(record)(WIRE_EXIT, 2);
   BH_(put)((ULong)status);
   BH_(put)(BH_(now)());
   BH_(flush)();
}

static void before_options(void)
{
   VG_(details_name)("binhop");
   VG_(details_version)(NULL);
   VG_(details_description)("records a program's references to memory");
   VG_(details_copyright_author)("Part of binhop; GPL-2.0-or-later.");
   VG_(details_bug_reports_to)("binhop's issue tracker");
   VG_(details_avg_translation_sizeB)(400);
   VG_(basic_tool_funcs)(before_running, BH_(instrument), at_the_end);
   VG_(needs_command_line_options)(option, usage, nothing);
   BH_(track_memory)();
   BH_(track_calls)();
}

VG_DETERMINE_INTERFACE_VERSION(before_options)
