/* `native` simulates a trace in memory on two-level, with a naive loop and, if PYCACHESIM is defined, with
 * pycachesim's C core.
 *
 *   native FILE   FILE holds the number of references (64 bits), then the columns addr (64 bits each),
 *                 size (32 bits each) and op (8 bits each: 0 fetch, 1 load, 2 store)
 *
 * It prints a line for each simulator: the name, the seconds (median of RUNS), and the level-1 misses of
 * instructions and of data. The naive loop keeps tags and dirty bits, and counts only misses.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifdef PYCACHESIM
#include "backend.h"
int Cache__load(Cache *self, addr_range range);
void Cache__store(Cache *self, addr_range range, int non_temporal);
#endif

enum { RUNS = 5, FETCH = 0, STORE = 2 };

/* two-level has 32 KiB of 32-byte lines for each port, and 1 MiB of 128-byte lines behind both. All are
 * direct-mapped. */
enum { L1_LINE = 5, L1_SETS = 1024, L2_LINE = 7, L2_SETS = 8192 };

struct trace {
    uint64_t rows;
    uint64_t *addr;
    uint32_t *size;
    uint8_t *op;
};

struct misses {
    uint64_t fetch, data;
};

static void *column(FILE *file, uint64_t rows, size_t width) {
    void *all = malloc(rows * width + 1);
    if (all == NULL || fread(all, width, rows, file) != rows) {
        fprintf(stderr, "the trace ends within a column\n");
        exit(2);
    }
    return all;
}

static struct trace read_trace(const char *path) {
    struct trace trace;
    FILE *file = fopen(path, "rb");
    if (file == NULL || fread(&trace.rows, 8, 1, file) != 1) {
        fprintf(stderr, "cannot read %s\n", path);
        exit(2);
    }
    trace.addr = column(file, trace.rows, 8);
    trace.size = column(file, trace.rows, 4);
    trace.op = column(file, trace.rows, 1);
    fclose(file);
    return trace;
}

/* A tag holds the line + 1 above its lowest bit, so that 0 means an empty slot. The lowest bit is set if the
 * line is dirty. */
static uint64_t tags[2][L1_SETS], behind[L2_SETS];

static inline void ask_l2(uint64_t line, int dirty) {
    uint64_t *slot = &behind[line % L2_SETS];
    if (*slot >> 1 != line + 1)
        *slot = (line + 1) << 1;
    *slot |= (uint64_t)dirty;
}

static struct misses naive(const struct trace *trace) {
    struct misses misses = {0, 0};
    memset(tags, 0, sizeof tags);
    memset(behind, 0, sizeof behind);
    for (uint64_t row = 0; row < trace->rows; row++) {
        uint64_t addr = trace->addr[row];
        int data = trace->op[row] != FETCH, dirty = trace->op[row] == STORE;
        uint64_t last = (addr + trace->size[row] - 1) >> L1_LINE;
        for (uint64_t line = addr >> L1_LINE; line <= last; line++) {
            uint64_t *slot = &tags[data][line % L1_SETS];
            if (*slot >> 1 != line + 1) {
                *(data ? &misses.data : &misses.fetch) += 1;
                uint64_t victim = *slot;
                ask_l2(line >> (L2_LINE - L1_LINE), 0);
                if (victim & 1)
                    ask_l2(((victim >> 1) - 1) >> (L2_LINE - L1_LINE), 1);
                *slot = (line + 1) << 1;
            }
            *slot |= (uint64_t)dirty;
        }
    }
    return misses;
}

#ifdef PYCACHESIM
static Cache *cache(const char *name, long sets, long line, Cache *next) {
    Cache *made = calloc(1, sizeof *made);
    made->name = name;
    made->sets = sets;
    made->ways = 1;
    made->cl_size = made->subblock_size = line;
    made->cl_bits = __builtin_ctzl(line);
    made->subblock_bits = 1;
    made->replacement_policy_id = 1;
    made->write_back = made->write_allocate = 1;
    made->load_from = made->store_to = next;
    made->placement = calloc(sets, sizeof *made->placement);
    for (long set = 0; set < sets; set++)
        made->placement[set].invalid = 1;
    return made;
}

static struct misses core(const struct trace *trace) {
    Cache *l2 = cache("l2", L2_SETS, 1 << L2_LINE, NULL);
    Cache *l1[2] = {cache("l1i", L1_SETS, 1 << L1_LINE, l2), cache("l1d", L1_SETS, 1 << L1_LINE, l2)};
    for (uint64_t row = 0; row < trace->rows; row++) {
        addr_range range = {(long)trace->addr[row], (long)trace->size[row]};
        if (trace->op[row] == STORE)
            Cache__store(l1[1], range, 0);
        else
            Cache__load(l1[trace->op[row] != FETCH], range);
    }
    return (struct misses){(uint64_t)l1[0]->MISS.count, (uint64_t)l1[1]->MISS.count};
}
#endif

static int by_value(const void *one, const void *other) {
    double a = *(const double *)one, b = *(const double *)other;
    return (a > b) - (a < b);
}

static void measure(const char *name, struct misses (*run)(const struct trace *), const struct trace *trace) {
    double seconds[RUNS];
    struct misses misses = run(trace);
    for (int each = 0; each < RUNS; each++) {
        struct timespec begin, end;
        clock_gettime(CLOCK_MONOTONIC, &begin);
        misses = run(trace);
        clock_gettime(CLOCK_MONOTONIC, &end);
        seconds[each] = (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) / 1e9;
    }
    qsort(seconds, RUNS, sizeof *seconds, by_value);
    printf("%s %.9f %llu %llu\n", name, seconds[RUNS / 2], (unsigned long long)misses.fetch,
           (unsigned long long)misses.data);
}

int main(int count, char **arguments) {
    if (count != 2) {
        fprintf(stderr, "usage: native FILE\n");
        return 2;
    }
    struct trace trace = read_trace(arguments[1]);
    measure("naive", naive, &trace);
#ifdef PYCACHESIM
    measure("pycachesim", core, &trace);
#endif
    return 0;
}
